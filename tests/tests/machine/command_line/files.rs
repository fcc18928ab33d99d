//! Output files: names, formats, owners.

use std::fs;
use std::os::unix::fs::MetadataExt;

use fxt_reader::Container;
use fxtrec_tests::root::may_record;

use crate::command_line::run::{Fxtrec, pingpong};
use crate::command_line::trace::Trace;

#[test]
fn the_file_is_named_after_command_and_an_earlier_one_is_kept() {
    if !may_record() {
        return;
    }
    let fxtrec = Fxtrec::new(["/bin/true"]);
    fs::write(fxtrec.path("true.fxt"), "earlier").unwrap();
    let done = fxtrec.run().expect(0);
    assert_eq!(done.files(), ["true.fxt", "true.fxt.old"]);
    assert_eq!(fs::read(done.path("true.fxt.old")).unwrap(), b"earlier");
    let trace = Trace::open(&done.path("true.fxt")).expect_complete();
    assert!(trace.names.iter().any(|name| name == "true"), "{:?}", trace.names);
    assert!(done.stderr.contains("true.fxt"), "the summary names the file: {}", done.stderr);
}

#[test]
fn every_format_is_chosen_by_its_ending_and_can_be_read() {
    if !may_record() {
        return;
    }
    for (name, container) in
        [("t.fxt", Container::Plain), ("t.fxt.gz", Container::Gzip), ("t.fxt.zst", Container::Zstd)]
    {
        let done =
            Fxtrec::new(["-o", name]).with(|command| command.arg("--").arg(pingpong()).arg("2000"));
        let done = done.run().expect(0);
        let trace = Trace::open(&done.path(name)).expect_complete();
        assert_eq!(trace.summary.container, container, "{name}");
        assert_eq!(trace.lost_in_stats, Some(trace.lost), "{name}");
        // Two switches for each round, each of which is there or counted as lost.
        assert!(trace.switches + trace.lost > 4000, "{name}: {} switches", trace.switches);
    }
}

#[test]
fn a_recording_of_the_machine_ends_when_its_time_is_over() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::new(["-a", "-d", "200ms"]).run().expect(0);
    assert_eq!(done.files(), ["system.fxt"]);
    let begun = "fxtrec: recording the whole machine to system.fxt for 200 ms; stop with Ctrl-C or SIGTERM\n";
    assert!(done.stderr.starts_with(begun), "{}", done.stderr);
    Trace::open(&done.path("system.fxt")).expect_complete();
}

#[test]
fn output_created_under_sudo_belongs_to_the_caller() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::script("true")
        .with(|command| command.env("SUDO_UID", "65533").env("SUDO_GID", "65532"));
    let done = done.run().expect(0);
    let file = fs::metadata(done.path("t.fxt")).unwrap();
    assert_eq!((file.uid(), file.gid()), (65_533, 65_532));
}

#[test]
fn quiet_prints_nothing() {
    if !may_record() {
        return;
    }
    let done = Fxtrec::new(["-q", "-o", "t.fxt", "true"]).run().expect(0);
    assert_eq!((done.stdout.as_slice(), done.stderr.as_str()), (&b""[..], ""));
}
