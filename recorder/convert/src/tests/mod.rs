//! Conversions in both directions.

mod agreement;
mod causes;
mod cutting;
mod damaged;
mod examples;
mod generated;
mod imported;
mod malformed;
mod merging;
mod ordered;
mod scheduling;
mod symbolizing;
mod wild;

use std::path::Path;

use serde_json::Value as Json;

use super::tef::write::Sched;
use super::{ConvertError, Format, Input, Options, Output, Packing, Report, convert};

/// The result of converting `input`.
fn converted(
    input: &[u8],
    from: Format,
    to: Format,
    options: Options,
) -> Result<(Vec<u8>, Report), ConvertError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let mut output = Output::create(&path, Packing::Plain, &[] as &[&Path])?;
    let content = folder.path().join("in");
    std::fs::write(&content, input).expect("the folder is ours");
    let mut input = Input::open(&content, false)?;
    let report = convert(&mut input, from, &mut output, to, options)?;
    output.finish()?;
    Ok((std::fs::read(&path).expect("written"), report))
}

fn to_json(fxt: &[u8], sched: Sched) -> String {
    let options = Options { sched, ..Options::default() };
    let (json, _) = converted(fxt, Format::Fxt, Format::Json, options).expect("a trace");
    String::from_utf8(json).expect("text")
}

fn to_fxt(json: &str) -> (Vec<u8>, Report) {
    converted(json.as_bytes(), Format::Json, Format::Fxt, Options::default())
        .unwrap_or_else(|error| panic!("{error}\n{json}"))
}

fn refused(json: &str) -> String {
    converted(json.as_bytes(), Format::Json, Format::Fxt, Options::default())
        .expect_err("should be refused")
        .to_string()
}

/// The error in strict mode.
fn strictly(json: &str) -> String {
    let options = Options { strict: true, ..Options::default() };
    converted(json.as_bytes(), Format::Json, Format::Fxt, options)
        .expect_err("should be refused")
        .to_string()
}

fn leniently(json: &str) -> (Vec<u8>, Report) {
    let options = Options { lenient: true, ..Options::default() };
    converted(json.as_bytes(), Format::Json, Format::Fxt, options).expect("lenient")
}

/// The members of `traceEvents`, less the provider that writing adds.
fn events(json: &str) -> Vec<Json> {
    let document: Json = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}"));
    let events = document["traceEvents"].as_array().expect("an array").iter();
    events.filter(|event| event["fxt"] != "provider").cloned().collect()
}

/// Every record of a trace as text, except for the tables.
fn records(fxt: &[u8]) -> Vec<String> {
    use fxt_reader::{Kind, Reader};
    let mut reader = Reader::from_slice(fxt);
    let mut texts = Vec::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        let kind = item.record.kind();
        let is_table = matches!(kind, Kind::String | Kind::Thread | Kind::Initialization);
        if !is_table && !kind.is_metadata() {
            texts.push(format!("{:?}", item.record));
        }
    }
    assert!(reader.summary().is_complete() && reader.summary().magic);
    texts
}
