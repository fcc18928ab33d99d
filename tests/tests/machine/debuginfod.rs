//! Debug files from a server, for programs that were stripped.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};
use fxtrec_tests::programs::{build, succeed};
use fxtrec_tests::recording::record_in;
use fxtrec_tests::unwinding::may_unwind;
use serde_json::Value;

const ROUNDS: &str = "8";

/// Serves one file at the place of one build, and returns the server's URL.
fn serve(build_id: &str, file: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let known = format!("GET /buildid/{build_id}/debuginfo ");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            let mut asked = [0; 4096];
            let length = connection.read(&mut asked).expect("a request");
            let (status, body) = match asked[..length].starts_with(known.as_bytes()) {
                true => ("200 OK", &file[..]),
                false => ("404 Not Found", &[][..]),
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
            connection.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
        }
    });
    url
}

/// The functions and the source files of all frames of the longest waits.
fn frames(report: Done) -> (Vec<String>, Vec<String>) {
    let report: Value = serde_json::from_str(&report.expect(0).stdout).expect("JSON");
    let waits = report["worst"].as_array().expect("waits");
    let frames = waits.iter().flat_map(|wait| wait["frames"].as_array().into_iter().flatten());
    let (mut functions, mut files) = (Vec::new(), Vec::new());
    for frame in frames {
        functions.extend(frame["function"].as_str().map(str::to_owned));
        let lines = frame["lines"].as_array().into_iter().flatten();
        files.extend(lines.filter_map(|line| line["file"].as_str().map(str::to_owned)));
    }
    (functions, files)
}

#[test]
fn names_and_lines_of_a_stripped_program_are_fetched_by_its_build_id() {
    if !may_unwind(&["gcc", "objcopy", "strip", "curl"]) {
        return;
    }
    let id = "00112233445566778899aabbccddeeff00112233";
    let program = build("waits.c", &["-g", &format!("-Wl,--build-id=0x{id}")]);
    let folder = Folder::new();
    let debug = folder.path("debug");
    succeed(Command::new("objcopy").arg("--only-keep-debug").arg(program.path()).arg(&debug));
    succeed(Command::new("strip").arg(program.path()));
    record_in(
        &folder,
        &["--source", "bpf", "--stacks", "--scope", "app"],
        &[program.text(), ROUNDS],
    );
    let url = serve(id, fs::read(&debug).expect("made"));
    let home = folder.path("home");
    fs::create_dir(&home).expect("room");
    let with_servers = |args: &[&str]| {
        let mut command = binary::command();
        command.args(args).env("XDG_CACHE_HOME", &home).env("DEBUGINFOD_URLS", &url);
        folder.run(&mut command)
    };
    let stacks = ["--stacks", "--json", "--worst", "100000"];
    let report = |file: &'static str, more: &[&'static str]| {
        frames(with_servers(&[&["report", file][..], &stacks, more].concat()))
    };
    let is_ours = |name: &String| name == "blocks_in_poll";
    let is_source = |file: &String| Path::new(file).ends_with("waits.c");

    // Files are fetched only on request.
    with_servers(&["symbolize", "t.fxt", "-o", "without.fxt"]).expect(0);
    assert!(!report("without.fxt", &[]).0.iter().any(is_ours));
    assert!(!report("t.fxt", &["--lines"]).1.iter().any(is_source));
    assert_eq!(fs::read_dir(&home).expect("ours").count(), 0);

    let said =
        with_servers(&["symbolize", "t.fxt", "-o", "named.fxt", "--debuginfod"]).expect(0).stderr;
    assert!(said.contains("1 debug file fetched by debuginfod"), "{said}");
    assert!(report("named.fxt", &[]).0.iter().any(is_ours), "{said}");
    let place = home.join("fxtrec/debuginfod/.build-id/00").join(format!("{}.debug", &id[2..]));
    assert_eq!(fs::read(&place).expect("kept"), fs::read(&debug).expect("made"));

    // Lines need it too, and get it from the cache, or from the server.
    for is_cached in [true, false] {
        if !is_cached {
            fs::remove_file(&place).expect("ours");
        }
        let args = [&["report", "t.fxt", "--lines", "--debuginfod"][..], &stacks].concat();
        let done = with_servers(&args);
        let said = done.stderr.clone();
        assert!(frames(done).1.iter().any(is_source), "{said}");
        assert_eq!(said.contains("debug files fetched by debuginfod: 1"), !is_cached, "{said}");
    }

    let mut command = binary::command();
    command
        .args(["symbolize", "t.fxt", "-o", "no.fxt", "--debuginfod"])
        .env_remove("DEBUGINFOD_URLS");
    let refused = folder.run(&mut command).expect(125).stderr;
    assert!(refused.contains("DEBUGINFOD_URLS is not set"), "{refused}");
}
