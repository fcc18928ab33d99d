use super::*;
use crate::cli::{Cli, Command};

fn plan_with_stdout(line: &str, stdout_is_terminal: bool) -> Result<Plan, PlanError> {
    let words = std::iter::once("fxtrec").chain(line.split_whitespace());
    match Cli::parse_line(words).unwrap_or_else(|error| panic!("{line}: {error}")) {
        Command::Record(args) => Plan::with_stdout(args, stdout_is_terminal),
        #[allow(unreachable_patterns, reason = "other subcommands are added to the enum")]
        other => panic!("{line} is {other:?}"),
    }
}

fn plan(line: &str) -> Plan {
    plan_with_stdout(line, false).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str) -> String {
    plan_with_stdout(line, false).expect_err("must be refused").to_string()
}

fn path(line: &str) -> PathBuf {
    match plan(line).output.target {
        Target::Path(path) => path,
        Target::Stdout => panic!("{line} writes to stdout"),
    }
}

#[test]
fn a_trace_has_no_arguments_of_command_unless_they_are_wanted() {
    let words = ["fxtrec", "-o", "t.fxt", "--", "app", "--token", "abc"].map(OsString::from);
    let line = |wanted| command_line(words.iter().cloned(), &words[4..], wanted);
    assert_eq!(line(false), "fxtrec -o t.fxt -- app ...");
    assert_eq!(line(true), "fxtrec -o t.fxt -- app --token abc");
    assert_eq!(
        command_line(words[..5].iter().cloned(), &words[4..5], false),
        "fxtrec -o t.fxt -- app"
    );
    assert_eq!(command_line(words[..3].iter().cloned(), &[], false), "fxtrec -o t.fxt");
}

#[test]
fn the_file_is_named_after_what_is_recorded() {
    assert_eq!(path("ls -l"), Path::new("ls.fxt"));
    assert_eq!(path("-- ./target/app.bin"), Path::new("app.bin.fxt"));
    assert_eq!(path("-- /"), Path::new("command.fxt"));
    assert_eq!(path("-a"), Path::new("system.fxt"));
    assert_eq!(path("-a ls"), Path::new("ls.fxt"));
    assert_eq!(path("-p 12,13"), Path::new("pid-12.fxt"));
    assert_eq!(path("-p 12 ls"), Path::new("ls.fxt"));
    assert_eq!(path("--cgroup /a*"), Path::new("cgroup.fxt"));
    assert_eq!(path("-o dir/x.fxt ls"), Path::new("dir/x.fxt"));
}

#[test]
fn the_ending_chooses_the_compression() {
    for (file, compression) in [
        ("t.fxt", Compression::None),
        ("t.fxt.gz", Compression::Gzip),
        ("t.GZ", Compression::Gzip),
        ("t.fxt.zst", Compression::Zstd),
        ("t", Compression::None),
        (".gz", Compression::None),
        ("t.trace", Compression::None),
        ("/dev/null", Compression::None),
    ] {
        assert_eq!(plan(&format!("-a -o {file}")).output.compression, compression, "{file}");
    }
    assert_eq!(refused("-a -o t.fxt.xz"), "t.fxt.xz: cannot compress to .xz: use .gz or .zst");
}

#[test]
fn a_trace_never_goes_to_a_terminal() {
    let error = plan_with_stdout("-o - ls", true).expect_err("must be refused");
    assert!(matches!(error, PlanError::TraceToTerminal));
    assert_eq!(plan("-o - ls").output.target, Target::Stdout);
    assert!(plan_with_stdout("-o ./- ls", true).is_ok());
}

#[test]
fn the_commands_output_gives_way_only_to_a_trace_on_stdout() {
    assert!(plan("-o - ls").launch.unwrap().stdout_to_stderr);
    assert!(!plan("-o t.fxt ls").launch.unwrap().stdout_to_stderr);
}

#[test]
fn what_is_recorded_follows_from_command_pids_and_scope() {
    let glob = |text: &str| Pattern::new(text).expect("a glob");
    let pids = |list: &[u32]| list.iter().copied().map(Pid).collect::<Vec<_>>();
    for (line, expected) in [
        ("ls", Filter::Machine),
        ("-a", Filter::Machine),
        ("-a ls", Filter::Machine),
        ("--scope all ls", Filter::Machine),
        ("--scope app ls", Filter::Processes { command: true, pids: vec![] }),
        ("--cgroup /a* --cgroup /b", Filter::Cgroups(vec![glob("/a*"), glob("/b")])),
        ("--cgroup /a ls", Filter::Cgroups(vec![glob("/a")])),
        ("-p 1,2", Filter::Processes { command: false, pids: pids(&[1, 2]) }),
        ("-p 1 ls", Filter::Processes { command: false, pids: pids(&[1]) }),
        ("-p 1 --scope app ls", Filter::Processes { command: true, pids: pids(&[1]) }),
    ] {
        assert_eq!(plan(line).scope, expected, "{line}");
    }
}

#[test]
fn contradictions_are_refused_in_words_that_name_the_options() {
    for (line, parts) in [
        ("-d 10s", &["COMMAND", "-a", "-p"][..]),
        ("-a -p 1", &["-a", "-p"]),
        ("-a --scope app ls", &["-a", "--scope app"]),
        ("-a --scope app", &["-a", "--scope app"]),
        ("-p 1 --scope app", &["--scope app", "COMMAND"]),
        ("-p 1 --scope all", &["-p", "--scope all"]),
        ("-a -u root", &["-u", "COMMAND"]),
        ("-u no-such-user ls", &["no-such-user"]),
        ("--ring-size 65G ls", &["--ring-size", "64G"]),
    ] {
        let text = refused(line);
        for part in parts {
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}

#[test]
fn sizes_become_what_the_kernel_and_the_engine_accept() {
    let plan_of = |sizes: &str| {
        let plan = plan(&format!("{sizes} ls"));
        (plan.ring_bytes, plan.buffer_bytes)
    };
    assert_eq!(plan_of(""), (None, DEFAULT_BUFFER_BYTES));
    assert_eq!(plan_of("--ring-size 1 --buffer-size 1"), (Some(page_bytes()), MIN_BUFFER_BYTES));
    assert_eq!(plan_of("--ring-size 5M --buffer-size 1000001"), (Some(8 * 1024 * 1024), 1_003_520));
}

#[test]
fn defaults_stay_below_32_megabytes_on_two_cpus() {
    const { assert!(2 * DEFAULT_RING_BYTES + DEFAULT_BUFFER_BYTES < 32_000_000) };
    const { assert!(DEFAULT_RING_BYTES.is_power_of_two()) };
}

#[test]
fn default_rings_share_what_a_large_machine_gives_them() {
    assert_eq!(default_ring_bytes(2), DEFAULT_RING_BYTES);
    assert_eq!(default_ring_bytes(32), DEFAULT_RING_BYTES);
    assert_eq!(default_ring_bytes(200), 1024 * 1024);
    assert_eq!(default_ring_bytes(100), 2 * 1024 * 1024);
    assert_eq!(default_ring_bytes(4096), 1024 * 1024);
    let lanes = [2, 100, 512].map(|cpus| default_lane_bytes(cpus) >> 20);
    assert_eq!(lanes, [8, 2, 2], "MiB");
}

#[test]
fn the_command_is_taken_over_word_by_word() {
    let launch = plan("-u root -- env -i printenv").launch.unwrap();
    assert_eq!(launch.program, "env");
    assert_eq!(launch.args, ["-i", "printenv"]);
    assert_eq!(launch.user.unwrap().uid, 0);
    assert!(plan("-a").launch.is_none());
}

/// The error for these words, or `None` if they are a valid plan.
fn mistaken(words: &[&str]) -> Option<String> {
    let line = std::iter::once("fxtrec").chain(words.iter().copied());
    let Ok(crate::cli::Command::Record(args)) = crate::cli::Cli::parse_line(line) else {
        panic!("{words:?}");
    };
    Plan::with_stdout(args, false).err().map(|error| error.to_string())
}

#[test]
fn a_command_that_is_not_there_and_is_nearly_a_subcommand_is_asked_about() {
    for (word, meant) in [("reprot", "report"), ("dmup", "dump"), ("helpp", "help")] {
        let text = mistaken(&[word, "x.fxt"]).expect(word);
        assert!(text.contains(&format!("did you mean `{meant}`?")), "{text}");
        assert_eq!(mistaken(&["--", word, "x.fxt"]), None);
        assert_eq!(mistaken(&["-q", "--", word]), None);
    }
    // These commands exist, resemble no subcommand, or have a path.
    for line in [&["ls"][..], &["cat", "report"], &["zebra"], &["./reprot"]] {
        assert_eq!(mistaken(line), None, "{line:?}");
    }
}

#[test]
fn a_value_of_an_option_is_not_run() {
    let text = mistaken(&["--stacks", "wake", "./app"]).expect("a value");
    assert!(text.contains("--stacks=wake;"), "{text}");
    for value in ["nanosleep", "futex,epoll_*", "sync"] {
        let text = mistaken(&["--syscalls", value]).expect(value);
        assert!(text.contains(&format!("--syscalls={value};")), "{text}");
    }
    for line in [
        &["--syscalls", "sleep", "1"][..],
        &["--syscalls", "--", "sync"],
        &["--syscalls=futex", "ls"],
    ] {
        assert_eq!(mistaken(line), None, "{line:?}");
    }
}

#[test]
fn quiet_implies_no_summary() {
    assert!(plan("ls").display.summary);
    assert!(!plan("-q ls").display.summary);
    assert!(!plan("--no-summary ls").display.summary);
}

#[test]
fn triggers_have_defaults_and_need_circular_mode_and_a_file() {
    let plain = plan("--mode circular -a").flight;
    assert_eq!(plain.window, flight::Window::default(), "SIGUSR2 writes all there is, at once");
    assert_eq!(plan("--mode circular -a").buffer_bytes, DEFAULT_BUFFER_BYTES);

    let armed = plan("--mode circular --trigger lost>0 -a");
    let seconds = |number: u64| crate::units::Nanos(number * 1_000_000_000);
    assert_eq!(armed.flight.window.before, Some(seconds(10)));
    assert_eq!(armed.flight.window.after, seconds(5));
    assert_eq!(armed.flight.limits.interval, seconds(10));
    assert_eq!(armed.flight.limits.most, None);
    assert_eq!(armed.buffer_bytes, flight::TRIGGER_BUFFER_BYTES);

    let line = "--mode circular --trigger lost>0 --trigger slice>1ms --before 2s --after 1s \
                --max-snapshots 3 --trigger-interval 1ms --disk-budget 1G --buffer-size 1M -a";
    let all = plan(line);
    assert_eq!(all.flight.triggers.len(), 2);
    assert_eq!(all.flight.window.before, Some(seconds(2)));
    assert_eq!((all.flight.limits.most, all.flight.limits.interval.0), (Some(3), 1_000_000));
    assert_eq!(all.flight.bounds.bytes, Some(1 << 30));
    let newest = plan("--mode circular --trigger lost>0 --after 0s --keep 3 -a").flight;
    assert_eq!((newest.bounds.files, newest.window.after), (Some(3), Nanos(0)));
    assert_eq!(all.buffer_bytes, 1 << 20);

    for (line, part) in [
        ("--trigger lost>0 -a", "--trigger needs --mode circular"),
        ("--before 2s -a", "--before needs --mode circular"),
        ("--mode oneshot --after 2s -a", "--after needs --mode circular"),
        ("--mode circular --trigger lost>0 -a -o -", "standard output is not a file"),
        ("--mode circular --trigger lost>0 -a -o /dev/null", "/dev/null is not a file"),
        ("--disk-budget 1G -a", "--disk-budget limits the files of"),
    ] {
        assert!(refused(line).contains(part), "{line}: {}", refused(line));
    }
}

#[test]
fn rotation_is_for_streaming_mode_and_its_files_are_numbered() {
    let plan = plan("--rotate 1GB --keep 5 -o app.fxt.zst -a");
    for (next, name) in [(1, "app.0001.fxt.zst"), (12, "app.0012.fxt.zst")] {
        let first = plan.flight.first_output(&plan.output, next);
        assert_eq!(first.target, Target::Path(name.into()));
    }
    assert_eq!(plan.flight.bounds.files, Some(4), "beside the one that is written");
    for (line, part) in [
        ("--mode circular --rotate 1GB -a", "--rotate needs streaming mode"),
        ("--keep 3 -a", "--keep limits the files of"),
        ("--rotate 10s -o - -a", "standard output is not a file"),
        ("--rotate 10s --fail-if lost>0 -a", "--fail-if evaluates one file"),
    ] {
        assert!(refused(line).contains(part), "{line}: {}", refused(line));
    }
}

#[test]
fn a_command_and_processes_have_stacks_where_these_cost_little_and_others_on_request() {
    let chosen = |line: &str| plan(line).stacks.map(|wanted| wanted.chosen);
    for line in ["ls", "--source bpf ls", "-p 1", "--scope app ls", "-p 1 ls"] {
        assert_eq!(chosen(line), Some(true), "{line}");
    }
    for line in [
        "-a",
        "-a ls",
        "--cgroup /a",
        "--cgroup /a ls",
        "--plain ls",
        "--stacks=none ls",
        "--source perf ls",
        "--source ftrace ls",
        "--mode circular ls",
        "--mode oneshot ls",
    ] {
        assert_eq!(chosen(line), None, "{line}");
    }
    for line in ["--stacks ls", "--stacks=wake -p 1", "--stacks --plain ls", "--stacks -a"] {
        assert_eq!(chosen(line), Some(false), "{line}");
    }
    assert!(refused("--stacks=none,wake ls").contains("--stacks=none"));
}
