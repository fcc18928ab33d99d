//! Memory does not grow with the file.

use std::io::Write;
use std::process::{Command, Stdio};

use fxtrec_tests::binary::fxtrec;
use fxtrec_tests::folder::Folder;

/// The address space in which a conversion of a file of any size must work. The documented limit is twice as much.
const LIMIT_BYTES: u64 = 100 << 20;

/// Writes events until much more has been written than the conversion may keep.
fn write_events(out: &mut impl Write) -> u64 {
    let mut written = 0;
    let mut chunk = String::new();
    out.write_all(b"{\"traceEvents\":[").expect("it reads");
    for number in 0_u64.. {
        chunk.clear();
        for event in 0..1000 {
            let time = number * 1000 + event;
            // Ids and threads that never occur again must not be kept either.
            chunk.push_str(&format!(
                "{{\"ph\":\"b\",\"cat\":\"c\",\"name\":\"load\",\"id\":\"0x{time:x}\",\
                 \"pid\":{},\"tid\":7,\"ts\":{time}.25,\"args\":{{\"url\":\"u{}\",\"n\":{time}}}}},\n",
                event % 8,
                time % 70_000,
            ));
        }
        written += chunk.len() as u64;
        out.write_all(chunk.as_bytes()).expect("it reads");
        if written > LIMIT_BYTES + LIMIT_BYTES / 5 {
            break;
        }
    }
    out.write_all(b"{\"ph\":\"i\",\"ts\":1}],\"stackFrames\":{\"1\":{\"name\":\"main\"}}}")
        .expect("it reads");
    written
}

#[test]
#[ignore = "slow: .ci/nightly runs it"]
fn a_file_larger_than_the_memory_allowed_converts_both_ways() {
    let folder = Folder::new();
    // An address space of that size holds the program, its stacks, and little else.
    let limited = |line: &str| {
        let mut command = Command::new("sh");
        let kib = LIMIT_BYTES / 1024;
        command
            .args(["-c", &format!("ulimit -v {kib} && exec \"$0\" {line}")])
            .arg(fxtrec())
            .current_dir(folder.path(""));
        command
    };
    let mut convert = limited("convert -q --to fxt - events.fxt.zst")
        .stdin(Stdio::piped())
        .spawn()
        .expect("it runs");
    let written = write_events(convert.stdin.as_mut().expect("a pipe"));
    drop(convert.stdin.take());
    assert!(convert.wait().expect("it ends").success(), "from {written} bytes of JSON");
    let status = limited("convert -q --to json events.fxt.zst /dev/null").status();
    assert!(status.expect("it runs").success(), "back to JSON");
}
