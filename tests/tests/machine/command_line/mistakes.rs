//! fxtrec's messages about mistakes, and the characters that it never sends to a terminal.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;

use fxtrec_tests::binary::copy_program;
use fxtrec_tests::root::may_record;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::command_line::run::{Finished, Fxtrec};

fn run(line: &[&str]) -> Finished {
    Fxtrec::new(line).run()
}

/// fxtrec with these arguments, in a directory with a recording of a script, t.fxt.
struct Recorded(Finished);

impl Recorded {
    fn of(script: &str) -> Recorded {
        Recorded(Fxtrec::new(["-q", "-o", "t.fxt", "sh", "-c", script]).run().expect(0))
    }

    fn run(&self, line: &[&str]) -> Finished {
        let folder = self.0.path("");
        Fxtrec::new(line).with(|command| command.current_dir(folder)).run()
    }

    fn text(&self, line: &[&str]) -> String {
        String::from_utf8(self.run(line).expect(0).stdout).expect("text")
    }
}

#[test]
fn a_mistyped_subcommand_is_asked_about_and_runs_nothing() {
    let done = run(&["reprot", "x.fxt"]).expect(127);
    assert!(done.stderr.contains("did you mean `report`?"), "{}", done.stderr);
    assert!(done.files().is_empty(), "{:?}", done.files());
    let help = run(&["help", "report"]).expect(0);
    assert!(String::from_utf8(help.stdout).unwrap().contains("--timehist"));
    if may_record() {
        let done = run(&["no-such-words"]).expect(127);
        assert!(done.stderr.contains("no-such-words: command not found"), "{}", done.stderr);
    }
}

#[test]
fn a_value_that_syscalls_does_not_take_is_not_run() {
    let done = run(&["--syscalls", "nanosleep"]).expect(125);
    assert!(done.stderr.contains("--syscalls=nanosleep"), "{}", done.stderr);
}

#[test]
fn wrong_arguments_of_a_subcommand_that_runs_nothing_are_2() {
    for line in [&["report"][..], &["dump", "--bogus", "x"], &["cut", "a", "b", "--pid", "abc"]] {
        let done = run(line).expect(2);
        assert!(!done.stderr.is_empty() && !done.stderr.contains("invalid digit"), "{line:?}");
    }
    let done = run(&["-p", "abc"]).expect(125);
    assert!(done.stderr.contains("a process id is a number"), "{}", done.stderr);
}

#[test]
fn arguments_that_are_repeated_are_escaped() {
    // A title and a colour for the terminal, the C1 character that begins such sequences, a mark that changes the text
    // direction, fxtrec's own red.
    let evil = "\x1b[31m\x1b]0;title\x07\u{9b}1m\u{202e}\x1b[1;31mx";
    let shown = r"\x1b[31m\x1b]0;title\x07\x9b1m\u{202e}\x1b[1;31mx";
    let option = format!("--{evil}");
    for (line, code) in [
        (&["dump", "a", evil][..], 2),
        (&["report", &option], 2),
        (&["convert", "--sched", evil, "a", "b"], 2),
        (&["cut", "a", "b", "--pid", evil], 2),
        (&["-p", evil], 125),
        (&[&option], 125),
    ] {
        let done = run(line).expect(code);
        assert!(done.stderr.contains(shown), "{line:?}: {:?}", done.stderr);
        let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!done.stderr.contains(acts), "{line:?}: {:?}", done.stderr);
    }
}

#[test]
fn a_probe_in_a_fifo_is_refused_at_once() {
    if !may_record() {
        return;
    }
    for line in [&["-P", "./fifo:main", "true"][..], &["probes", "./fifo"]] {
        let fxtrec = Fxtrec::new(line);
        mkfifo(&fxtrec.path("fifo"), Mode::S_IRWXU).expect("a fifo");
        let done = fxtrec.run().expect(125);
        assert!(done.stderr.contains("not a regular file"), "{line:?}: {}", done.stderr);
        assert_eq!(done.files(), ["fifo"]);
    }
}

#[test]
fn waiting_for_a_trace_in_a_fifo_ends_with_a_signal() {
    let fxtrec = Fxtrec::new(["dump", "fifo"]);
    mkfifo(&fxtrec.path("fifo"), Mode::S_IRWXU).expect("a fifo");
    let running = fxtrec.start();
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.finish().expect(1015);
}

#[test]
fn a_program_is_named_as_it_was_given() {
    if !may_record() {
        return;
    }
    let fxtrec = Fxtrec::new(["-P", ":no_such_function_in_it", "./app"]);
    copy_program(Path::new("/bin/true"), &fxtrec.path("app"));
    let done = fxtrec.run().expect(125);
    assert!(done.stderr.contains("./app") && !done.stderr.contains("././app"), "{}", done.stderr);
}

#[test]
fn a_full_device_is_named_as_the_cause() {
    if !may_record() {
        return;
    }
    let done = run(&["-q", "-o", "/dev/full", "true"]).expect(125);
    let said = &done.stderr;
    assert!(said.contains("cannot write /dev/full: No space left on device"), "{said}");
    assert!(said.contains(" records (") && said.contains("are missing"), "{said}");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let help = Fxtrec::new(["--help"]).with(|command| command.stdout(full)).run().expect(125);
    assert!(help.stderr.contains("No space left on device"), "{}", help.stderr);
}

#[test]
fn a_page_goes_to_standard_output_alone() {
    if !may_record() {
        return;
    }
    let recorded = Recorded::of("sleep 0.05");
    let page = recorded.text(&["report", "t.fxt", "--html", "-"]);
    assert!(page.starts_with("<!") && page.trim_end().ends_with("</html>"), "{page:.80}");
    assert_eq!(recorded.0.files(), ["t.fxt"]);
    let both = recorded.run(&["report", "t.fxt", "--html", "-", "--json"]).expect(125);
    assert!(both.stderr.contains("both write to standard output"), "{}", both.stderr);
}

#[test]
fn threads_that_nobody_has_are_an_error_that_names_those_like_them() {
    if !may_record() {
        return;
    }
    let recorded = Recorded::of("sleep 0.05");
    for format in [&[][..], &["--json"], &["--csv"], &["--timehist"]] {
        let line = [&["report", "t.fxt", "--comm", "sleap"], format].concat();
        let done = recorded.run(&line).expect(125);
        assert!(done.stderr.contains("no thread matches --comm 'sleap'"), "{}", done.stderr);
        assert!(done.stderr.contains("did you mean 'sleep'?"), "{}", done.stderr);
    }
    let no_thread = recorded.run(&["report", "t.fxt", "--pid", "4194304"]).expect(125);
    assert!(no_thread.stderr.contains("no thread matches --pid 4194304"), "{}", no_thread.stderr);
}

#[test]
fn a_time_after_the_beginning_is_the_same_everywhere() {
    if !may_record() {
        return;
    }
    let recorded = Recorded::of("for i in 1 2 3 4 5 6 7 8; do sleep 0.02; done");
    let range = ["--from", "+50ms", "--to", "+100ms"];
    let count = |text: &str| text.lines().filter(|line| line.contains(" context_switch ")).count();
    let dumped =
        recorded.text(&[&["dump", "t.fxt", "--type", "context_switch"][..], &range].concat());
    recorded.run(&[&["cut", "-q", "t.fxt", "piece.fxt"][..], &range].concat()).expect(0);
    let cut = recorded.text(&["dump", "piece.fxt", "--type", "context_switch"]);
    // The records at the beginning of the piece are inferred.
    let cut = cut.lines().filter(|line| !line.contains("inferred")).collect::<Vec<_>>().join("\n");
    let dumped_real: Vec<&str> = dumped.lines().filter(|line| !line.contains("inferred")).collect();
    assert!(count(&dumped) > 0);
    assert_eq!(count(&cut), count(&dumped_real.join("\n")), "{cut}\n---\n{dumped}");
    let json = recorded.text(&[&["report", "t.fxt", "--json"][..], &range].concat());
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let reported = json["switches"].as_u64().expect("a count");
    assert_eq!(reported, count(&dumped_real.join("\n")) as u64);
    let piped = Fxtrec::new([&["dump", "-"][..], &range].concat());
    let trace = std::fs::File::open(recorded.0.path("t.fxt")).expect("it was recorded");
    let done = piped.with(|command| command.stdin(Stdio::from(trace))).run().expect(0);
    assert_eq!(count(&String::from_utf8_lossy(&done.stdout)), count(&dumped));
}

#[test]
fn koids_have_their_names_from_the_first_line_on() {
    if !may_record() {
        return;
    }
    let recorded = Recorded::of("sleep 0.05");
    let dump = recorded.text(&["dump", "t.fxt"]);
    let info = dump
        .lines()
        .find(|line| line.contains(" instant ") && line.contains("trace_info"))
        .expect("it begins every trace");
    assert!(info.contains(":fxtrec"), "{info}");
    let wakers = || dump.lines().filter_map(|line| line.split(" waker=").nth(1));
    assert!(wakers().any(|waker| waker.contains(':') && waker.matches(':').count() > 1), "{dump}");
}

#[test]
fn names_never_command_the_terminal() {
    if !may_record() {
        return;
    }
    // A title, a colour, C1, DEL, a line that looks like a verdict, a change of direction, and invalid UTF-8.
    const NAMES: [&str; 4] =
        [r"\033]0;x\007\033[7m", r"a\nlost: none\r", r"\302\233 2J\177", r"\342\200\256z\377"];
    for name in NAMES {
        let script =
            format!("printf '{name}' > /proc/self/comm; for i in 1 2 3; do sleep 0.02; done");
        let script = format!("exec bash -c \"{}\"", script.replace('\\', "\\\\"));
        let done = Fxtrec::new([
            "-o",
            "t.fxt",
            "--fail-if",
            "slice.max > 1ns",
            "--keep-arguments",
            "--junit",
            "j.xml",
            "sh",
            "-c",
            &script,
        ]);
        let recorded = Recorded(done.run().expect(3));
        let mut shown = vec![recorded.0.stderr.clone()];
        for line in [
            &["report", "t.fxt", "--rows", "0"][..],
            &["report", "t.fxt", "--csv"],
            &["report", "t.fxt", "--timehist"],
            &["dump", "t.fxt"],
            &["dump", "t.fxt", "--stats"],
            &["dump", "t.fxt", "--check"],
            &["report", "t.fxt", "--fail-if", "slice.max > 1ns"],
        ] {
            let done = recorded.run(line);
            shown.push(String::from_utf8(done.stdout).expect("text"));
            shown.push(done.stderr);
        }
        shown.push(std::fs::read_to_string(recorded.0.path("j.xml")).expect("verdicts"));
        for text in [&shown[1], &shown[3], &shown[5], &shown[7]] {
            // A dump has strings in Rust's notation.
            let is_seen = [r"\x", r"\u{", r"\n"].iter().any(|escape| text.contains(escape));
            assert!(is_seen, "{name} is to be seen: {text}");
        }
        let csv = &shown[3];
        let cells = |line: &str| line.split(',').count();
        assert!(csv.lines().all(|line| cells(line) >= 11), "{name}: a row is a line: {csv}");
        for text in &shown {
            let acts = |c: char| {
                c.is_control() && c != '\n' && c != '\t' || ('\u{202a}'..='\u{202e}').contains(&c)
            };
            assert!(text.find(acts).is_none(), "{name}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("lost: none")), "{name}: {text}");
        }
        let json = recorded.text(&["report", "t.fxt", "--json"]);
        serde_json::from_str::<serde_json::Value>(&json).expect("JSON keeps names as they are");
    }
}
