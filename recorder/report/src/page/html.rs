//! Assembles the page: markup, styles, scripts, and the blocks in base64.
//!
//! Everything is in one file. A policy in its head forbids the page to load anything, and data of the trace is in elements that browsers do
//! not run.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::numbered::clean;

/// The markup, with places marked `{{name}}`.
const FRAME: &str = include_str!("assets/page.html");

/// The charting library, as published.
const UPLOT: &str = include_str!("assets/uplot/uPlot.iife.min.js");

/// Its licence, which must accompany it.
const UPLOT_LICENCE: &str = include_str!("assets/uplot/LICENSE");

const UPLOT_STYLE: &str = include_str!("assets/uplot/uPlot.min.css");

const STYLES: [&str; 4] = [
    include_str!("assets/css/theme.css"),
    include_str!("assets/css/layout.css"),
    include_str!("assets/css/lanes.css"),
    include_str!("assets/css/panels.css"),
];

/// The page's own scripts, in the order of their dependencies.
const SCRIPTS: [&str; 21] = [
    include_str!("assets/js/units.js"),
    include_str!("assets/js/blocks.js"),
    include_str!("assets/js/trace.js"),
    include_str!("assets/js/unfold.js"),
    include_str!("assets/js/bins.js"),
    include_str!("assets/js/store.js"),
    include_str!("assets/js/colours.js"),
    include_str!("assets/js/view.js"),
    include_str!("assets/js/lanes.js"),
    include_str!("assets/js/absent.js"),
    include_str!("assets/js/paint.js"),
    include_str!("assets/js/ruler.js"),
    include_str!("assets/js/select.js"),
    include_str!("assets/js/why.js"),
    include_str!("assets/js/waits.js"),
    include_str!("assets/js/worst.js"),
    include_str!("assets/js/charts.js"),
    include_str!("assets/js/input.js"),
    include_str!("assets/js/search.js"),
    include_str!("assets/js/link.js"),
    include_str!("assets/js/main.js"),
];

/// The scripts for stacks, left out of pages without stacks. They precede the last of the other scripts.
const STACK_SCRIPTS: [&str; 2] =
    [include_str!("assets/js/stacks.js"), include_str!("assets/js/flame.js")];

/// The script for arguments, flows and counters, also left out if not needed.
const TOLD_SCRIPT: &str = include_str!("assets/js/told.js");

/// The style of stacks.
const STACK_STYLE: &str = include_str!("assets/css/stacks.css");

/// Writes the page.
///
/// # Errors
///
/// The errors of `out`.
pub(super) fn write(contents: &Value, blocks: &[Vec<u8>], out: &mut dyn Write) -> io::Result<()> {
    let has_stacks = !contents["stacks"].is_null();
    let has_told = !contents["told"].is_null();
    let mut rest = FRAME;
    while let Some((before, name, after)) = next_place(rest) {
        out.write_all(before.as_bytes())?;
        match name {
            "title" => {
                let title = contents["title"].as_str().unwrap_or("trace");
                out.write_all(escape_text(title).as_bytes())?;
            }
            "style" => {
                let of_stacks = has_stacks.then_some(&STACK_STYLE);
                for style in [UPLOT_STYLE].iter().chain(&STYLES).chain(of_stacks) {
                    out.write_all(style.as_bytes())?;
                }
            }
            "contents" => {
                let shown = shown(contents.clone()).to_string();
                out.write_all(escape_script(&shown).as_bytes())?;
            }
            "blocks" => write_blocks(blocks, out)?,
            "chart" => write!(out, "/* uPlot:\n{UPLOT_LICENCE}*/\n{UPLOT}")?,
            "script" => {
                let of_stacks = if has_stacks { &STACK_SCRIPTS[..] } else { &[] };
                let of_told = has_told.then_some(&TOLD_SCRIPT);
                let (last, first) = SCRIPTS.split_last().unwrap_or((&"", &[]));
                for script in first.iter().chain(of_told).chain(of_stacks).chain([last]) {
                    out.write_all(script.as_bytes())?;
                }
            }
            unknown => debug_assert!(false, "the frame has a place {unknown}"),
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Splits the text at the next `{{name}}`.
fn next_place(text: &str) -> Option<(&str, &str, &str)> {
    let (before, place) = text.split_once("{{")?;
    let (name, after) = place.split_once("}}")?;
    Some((before, name, after))
}

fn write_blocks(blocks: &[Vec<u8>], out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for (number, block) in blocks.iter().enumerate() {
        text.clear();
        STANDARD.encode_string(block, &mut text);
        writeln!(out, "<script type=\"text/plain\" id=\"block-{number}\">{text}</script>")?;
    }
    Ok(())
}

/// The value with its strings as displayed: a name may contain characters that change the direction of adjacent text.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(list) => Value::Array(list.into_iter().map(shown).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, shown(value))).collect())
        }
        other => other,
    }
}

/// Escapes JSON so that it cannot end a script element.
fn escape_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn escape_text(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_shown_without_characters_that_act() {
        let contents = serde_json::json!({"title": "x", "names": ["a\u{202e}b\u{9b}2J", 1]});
        assert_eq!(shown(contents)["names"], serde_json::json!([r"a\u{202e}b\x9b2J", 1]));
        assert_eq!(escape_text("\u{202e}<"), r"\u{202e}&lt;");
    }

    #[test]
    fn names_of_threads_cannot_become_markup() {
        let mut page = Vec::new();
        let evil = "</script><script>alert(1)</script>";
        let contents = json!({ "title": evil, "names": [evil] });
        write(&contents, &[vec![1, 2, 3]], &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains(evil) && !page.contains("<script>alert"));
        assert!(page.contains("id=\"block-0\">AQID</script>"));
        assert!(!page.contains("{{"), "every place is filled");
    }

    #[test]
    fn the_page_names_no_address_but_that_of_the_library_in_it() {
        let mut page = Vec::new();
        write(&json!({ "title": null }), &[], &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let addresses: Vec<&str> = page
            .match_indices("://")
            .filter_map(|(at, _)| page[at..].split(['"', '\'', ' ', '\n', '*']).next())
            .collect();
        assert_eq!(addresses, ["://github.com/leeoniya/uPlot"], "where its licence names it");
    }
}
