use super::*;
use crate::units::glob::Pattern;

fn record(line: &[&str]) -> RecordArgs {
    match parse(line).unwrap_or_else(|error| panic!("{line:?}: {error}")) {
        Command::Record(args) => args,
        other => panic!("{line:?} is {other:?}"),
    }
}

fn parse(line: &[&str]) -> Result<Command, clap::Error> {
    Cli::parse_line(std::iter::once(&"fxtrec").chain(line))
}

fn refused(line: &[&str]) -> String {
    let error = parse(line).expect_err("should be refused");
    let subcommand = RESERVED.iter().find(|word| line.first() == Some(word));
    let runs_none = subcommand.is_some_and(|word| !RUNNERS.contains(word));
    let expected = if runs_none { 2 } else { 125 };
    assert_eq!(exit_code(&error, &words(line)), expected, "{line:?}");
    error.to_string()
}

fn words(line: &[&str]) -> Vec<OsString> {
    std::iter::once(&"fxtrec").chain(line).map(OsString::from).collect()
}

#[test]
fn the_command_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_shared_and_what_is_redacted_besides_add_up() {
    use crate::convert::redact::Secret;
    let secrets = |line: &[&str]| match parse(line) {
        Ok(Command::Cut(args)) => args.secrets(),
        other => panic!("{line:?} is {other:?}"),
    };
    let line = ["cut", "a.fxt", "b.fxt", "--for-sharing", "--redact", "functions"];
    assert_eq!(secrets(&line[..4]), Secret::FOR_SHARING);
    assert_eq!(secrets(&line), Secret::ALL);
    assert_eq!(secrets(&["cut", "a.fxt", "b.fxt"]), []);
}

#[test]
fn everything_behind_the_first_word_of_command_belongs_to_command() {
    let line = ["-o", "t.fxt", "ls", "-a", "-o", "other", "--help", "--", "-d"];
    let args = record(&line);
    assert_eq!(args.command, ["ls", "-a", "-o", "other", "--help", "--", "-d"]);
    assert_eq!(args.output.as_deref(), Some(std::path::Path::new("t.fxt")));
    assert!(!args.all);
}

#[test]
fn the_word_record_changes_nothing() {
    let plain = record(&["--waking", "ls", "-l"]);
    let spelled_out = record(&["record", "--waking", "ls", "-l"]);
    assert_eq!(plain.command, spelled_out.command);
    assert!(plain.waking && spelled_out.waking);
}

#[test]
fn behind_two_dashes_any_word_is_a_program() {
    for word in RESERVED {
        assert_eq!(record(&["--", word, "-x"]).command, [word, "-x"]);
        assert_eq!(record(&["record", "--", word]).command, [word]);
        assert_eq!(record(&["record", word]).command, [word]);
        assert_eq!(record(&["-q", word]).command, [word]);
    }
    assert_eq!(record(&["./doctor"]).command, ["./doctor"]);
    assert_eq!(record(&["--", "-strange"]).command, ["-strange"]);
}

#[test]
fn a_reserved_word_never_becomes_a_program_by_itself() {
    let mut known = Cli::command();
    known.build();
    for word in RESERVED.iter().filter(|word| known.find_subcommand(word).is_none()) {
        let text = refused(&[word]);
        assert!(text.contains(&format!("fxtrec -- {word}")), "{text}");
    }
}

#[test]
fn every_subcommand_is_among_the_reserved_words() {
    for subcommand in Cli::command().get_subcommands() {
        assert!(RESERVED.contains(&subcommand.get_name()), "{}", subcommand.get_name());
    }
}

/// Calls `check` with each command and the words before its name.
fn each_command(command: &clap::Command, check: &mut impl FnMut(&clap::Command)) {
    check(command);
    for sub in command.get_subcommands() {
        each_command(sub, check);
    }
}

#[test]
fn help_breaks_lines_where_a_terminal_would_and_nowhere_else() {
    let (mut texts, mut lists) = (0, 0);
    each_command(&Cli::command(), &mut |command| {
        let Some(text) = command.get_after_help().map(ToString::to_string) else { return };
        texts += 1;
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().filter(|line| line.starts_with(' ')) {
            lists += 1;
            // A terminal has at least 80 columns; wider text would wrap to the left of the list.
            assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
        }
        for pair in lines.windows(2) {
            // A paragraph is a single line, which clap wraps for the terminal.
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let is_broken = is_prose(pair[0]) && is_prose(pair[1]) && !pair[0].ends_with(':');
            assert!(!is_broken, "{}: {pair:?}", command.get_name());
        }
    });
    assert!(texts > 15 && lists > 60, "{texts} texts, {lists} lines of lists");
}

#[test]
fn the_short_help_fits_a_terminal_and_names_what_there_is() {
    for line in [&["fxtrec", "-h"][..], &["fxtrec"]] {
        let help = Cli::parse_line(line).expect_err("it is help").to_string();
        let lines: Vec<&str> = help.trim_end().lines().collect();
        assert!(lines.len() < 24 && lines.iter().all(|line| line.chars().count() <= 80), "{help}");
        let all = Cli::command();
        let words = || help.split(|it: char| !it.is_ascii_alphanumeric() && it != '-');
        let options: Vec<_> = words().filter_map(|word| word.strip_prefix("--")).collect();
        let has = |name: &&str| {
            name.is_empty()
                || *name == "help"
                || all.get_arguments().any(|it| it.get_long() == Some(name))
        };
        assert!(options.len() > 10 && options.iter().all(has), "{options:?}");
        let subcommands = help.lines().filter_map(|line| line.strip_prefix("  fxtrec "));
        let names: Vec<_> = subcommands.filter_map(|line| line.split(' ').next()).collect();
        assert!(names.len() > 3 && names.iter().all(|name| all.find_subcommand(name).is_some()));
    }
    assert_eq!(exit_code(&parse(&["-h"]).expect_err("it is help"), &words(&["-h"])), 0);
    let whole = Cli::parse_line(["fxtrec", "--help"]).expect_err("it is help").to_string();
    assert!(whole.contains("--trigger-interval") && whole.contains("symbolize"));
}

#[test]
fn an_unknown_option_before_command_is_refused() {
    assert!(refused(&["--bogus", "ls"]).contains("--bogus"));
}

#[test]
fn pids_come_as_a_list() {
    assert_eq!(record(&["-p", "12,34", "-p", "56"]).pids, [12, 34, 56]);
    for bad in ["0", "12,", "-5", "4194305", "init"] {
        refused(&["-p", bad]);
    }
}

#[test]
fn a_bad_value_is_quoted_with_its_option() {
    let text = refused(&["-a", "-d", "10parsecs"]);
    assert!(text.contains("10parsecs") && text.contains("--duration"), "{text}");
    let text = refused(&["--ring-size", "0", "ls"]);
    assert!(text.contains("--ring-size") && text.contains("more than zero"), "{text}");
}

#[test]
fn quiet_and_verbose_exclude_each_other() {
    refused(&["-q", "-v", "ls"]);
    assert_eq!(record(&["-vv", "ls"]).verbose, 2);
}

#[test]
fn no_arguments_print_help_to_stderr_as_a_failure() {
    for line in [&[][..], &["record"]] {
        let error = parse(line).expect_err("help is an error for clap");
        assert!(error.use_stderr());
        assert_eq!(exit_code(&error, &words(line)), EXIT_FAILURE);
        assert!(error.to_string().contains("COMMAND"));
    }
}

#[test]
fn help_that_was_asked_for_is_a_success_with_groups_and_examples() {
    for line in [&["--help"][..], &["record", "-h"]] {
        let error = parse(line).expect_err("help is an error for clap");
        assert_eq!(exit_code(&error, &words(line)), 0);
        let text = error.to_string();
        for part in
            ["What to record:", "Output:", "Memory and threads:", "Gates:", "Display:", "Examples:"]
        {
            assert!(text.contains(part), "{line:?} lacks {part}:\n{text}");
        }
    }
    let version = parse(&["--version"]).expect_err("so is the version");
    assert_eq!(exit_code(&version, &words(&["--version"])), 0);
}

#[test]
fn help_is_a_subcommand_and_knows_the_others() {
    for (line, part) in [
        (&["help"][..], "Subcommands:"),
        (&["help", "report"], "--timehist"),
        (&["help", "ctl", "start"], "--start-timeout"),
    ] {
        let error = parse(line).expect_err("help is an error for clap");
        assert_eq!(exit_code(&error, &words(line)), 0, "{line:?}");
        assert!(error.to_string().contains(part), "{line:?}: {error}");
    }
    assert!(refused(&["help", "nothing"]).contains("nothing"));
}

#[test]
fn wrong_arguments_of_subcommands_that_run_nothing_are_2() {
    refused(&["report", "--sort", "size", "x.fxt"]);
    refused(&["dump"]);
    refused(&["convert", "a.fxt"]);
    refused(&["cut", "a.fxt", "b.fxt", "--from", "soon"]);
    refused(&["ctl", "start", "--mode", "fast", "--", "app"]);
}

#[test]
fn what_shapes_tables_is_refused_where_there_are_none() {
    for format in ["--json", "--csv", "--timehist"] {
        for shape in [["--show", "worst"], ["--sort", "p99"], ["--rows", "3"]] {
            let text = refused(&["report", "x.fxt", format, shape[0], shape[1]]);
            assert!(text.contains("cannot be used with") && text.contains(shape[0]), "{text}");
        }
    }
    refused(&["report", "x.fxt", "--timehist", "--by", "process"]);
}

#[test]
fn times_in_a_trace_are_written_in_one_way() {
    for command in [&["report", "x.fxt"][..], &["dump", "x.fxt"], &["cut", "x.fxt", "y.fxt"]] {
        for time in ["+50ms", "+2s", "3600", "12.5s", "+0"] {
            let line = [command, &["--from", time, "--to", time]].concat();
            assert!(parse(&line).is_ok(), "{line:?}");
        }
    }
}

#[test]
fn every_command_that_writes_a_file_takes_o() {
    for command in ["cut", "convert"] {
        let output = |line: &[&str]| match parse(&[&[command], line].concat()) {
            Ok(Command::Cut(args)) => args.output().to_owned(),
            Ok(Command::Convert(args)) => args.output().to_owned(),
            other => panic!("{line:?}: {other:?}"),
        };
        assert_eq!(output(&["a.fxt", "b.fxt"]), std::path::Path::new("b.fxt"));
        for line in [&["a.fxt", "-o", "b.fxt"][..], &["--output=b.fxt", "a.fxt"]] {
            assert_eq!(output(line), std::path::Path::new("b.fxt"), "{line:?}");
        }
        let text = refused(&[command, "a.fxt", "b.fxt", "-o", "c.fxt"]);
        assert!(text.contains("cannot be used with"), "{text}");
        assert!(refused(&[command, "a.fxt"]).contains("required"));
    }
    for line in [&["merge", "a", "b", "-o", "c"][..], &["export", "a", "-o", "c"]] {
        assert!(parse(line).is_ok(), "{line:?}");
    }
}

#[test]
fn the_help_for_triggers_lists_what_their_conditions_may_be_on() {
    let cli = Cli::command();
    let record = cli.find_subcommand("record").expect("it records");
    let trigger = record.get_arguments().find(|arg| arg.get_id() == "triggers");
    let trigger = trigger.expect("it has triggers").get_long_help().expect("it has help");
    let help = trigger.to_string();
    for word in ["comm", "cgroup"] {
        assert!(help.split(|c: char| !c.is_alphanumeric()).any(|it| it == word), "{word}: {help}");
    }
}

#[test]
fn numbers_that_are_none_say_what_is_expected() {
    for line in [
        &["-p", "abc"][..],
        &["report", "x.fxt", "--pid", "abc"],
        &["report", "x.fxt", "--cpu", "all"],
        &["cut", "a", "b", "--pid", "abc"],
        &["probes", "ls", "--pid", "abc"],
        &["ctl", "snapshot", "--pid", "abc"],
    ] {
        let text = refused(line);
        assert!(!text.contains("invalid digit"), "{line:?}: {text}");
        assert!(text.contains("a number"), "{line:?}: {text}");
    }
}

#[test]
fn a_value_may_be_a_word_of_its_own_where_it_can_be_nothing_else() {
    let of = |line: &[&str]| {
        let args = record(line);
        let calls: Vec<&str> = args.trace_points.syscalls.iter().map(Pattern::as_str).collect();
        (calls.join(" "), args.command.clone(), args.all)
    };
    let app = vec![OsString::from("./app"), "-x".into()];
    assert_eq!(of(&["--syscalls", "write", "--", "./app", "-x"]), ("write".into(), app, false));
    assert_eq!(of(&["--syscalls", "read,epoll_*", "-a"]), ("read epoll_*".into(), vec![], true));
    assert_eq!(of(&["record", "-q", "--syscalls", "futex", "-a"]).0, "futex");
    // These programs have their own option names.
    for line in [
        &["--syscalls", "--", "sync", "--"][..],
        &["--syscalls", "ls", "-a"],
        &["--syscalls", "write", "root"],
        &["strace", "--syscalls", "write", "--", "-x"],
        &["--syscalls", "sync", "--data", "file"],
    ] {
        let (calls, command, all) = of(line);
        let is_asked = line[0] == "--syscalls";
        assert_eq!((calls.as_str(), all), (if is_asked { "*" } else { "" }, false), "{line:?}");
        assert!(command.len() >= 2, "{line:?}");
    }
    let stacks = record(&["--stacks", "wake,cpu", "--", "./app"]).stacks.stacks;
    assert_eq!(stacks, Some(vec![StackKind::Wake, StackKind::Cpu]));
    assert_eq!(record(&["--stacks", "env", "-i"]).command, ["env", "-i"]);
}

#[test]
fn the_word_before_command_is_known_unless_it_is_two_dashes() {
    let before = |line: &[&str]| record(line).before_command;
    assert_eq!(before(&["ls", "-l"]), Some("fxtrec".into()));
    assert_eq!(before(&["--syscalls", "nanosleep"]), Some("--syscalls".into()));
    assert_eq!(before(&["-q", "--", "ls", "--", "-l"]), None);
    assert_eq!(before(&["record", "ls"]), Some("record".into()));
}

#[test]
fn gates_are_read_with_the_command_line_and_a_bad_one_is_pointed_at() {
    let args = record(&["--fail-if", "wakeup.p99 > 2ms", "--fail-if", "lost > 0", "ls"]);
    let gates: Vec<String> = args.gates.fail_if.iter().map(ToString::to_string).collect();
    assert_eq!(gates, ["wakeup.p99 > 2ms", "lost > 0"]);
    let text = refused(&["--fail-if", "wakeup.p98 > 2ms", "ls"]);
    assert!(text.contains("\n  wakeup.p98 > 2ms\n         ^^^\n"), "{text}");
    assert!(refused(&["--junit", "j.xml", "ls"]).contains("--fail-if"), "of what?");
    assert!(refused(&["--on-too-few", "pass", "ls"]).contains("--fail-if"));
}

#[test]
fn two_sides_are_compared() {
    let compare = |line: &[&str]| match parse(line) {
        Ok(Command::Compare(args)) => args,
        other => panic!("{line:?}: {other:?}"),
    };
    let args = compare(&["compare", "--fail-if-worse", "10%", "a.fxt", "b.fxt", "--", "c.fxt"]);
    assert_eq!((args.base.len(), args.new.len()), (2, 1));
    assert!(args.measures.is_empty(), "what is compared by default depends on the traces");
    let args = compare(&["compare", "--metric", "slice.max if cpu = 1", "a", "--", "b"]);
    assert_eq!(args.measures.len(), 1);
    refused(&["compare", "a.fxt", "b.fxt"]);
    refused(&["compare", "--", "b.fxt"]);
    assert!(refused(&["compare", "--metric", "wakeup.p9", "a", "--", "b"]).contains("       ^^"));
    assert!(refused(&["compare", "--fail-if-worse", "10", "a", "--", "b"]).contains("10%"));
}

#[test]
fn the_recorder_understands_what_the_daemon_gives_it() {
    use crate::control::categories::{KernelCategory, KernelPlan};
    let plan = KernelPlan {
        categories: KernelCategory::ALL.into_iter().collect(),
        probes: vec!["f=libc:malloc%span n=arg1:u64".parse().expect("good")],
    };
    let line = ["fxtrec", "record", "-a"].map(OsString::from).into_iter();
    let Ok(Command::Record(args)) = Cli::parse_line(line.chain(plan.recorder_args())) else {
        panic!("not understood")
    };
    assert!(args.waking && args.trace_points.irq);
    assert_eq!(args.trace_points.syscalls.len(), 1);
    assert_eq!(args.trace_points.probes, plan.probes);
}

#[test]
fn how_text_looks_is_said_before_or_behind_a_subcommand_and_not_to_command() {
    let color = |line: &[&str]| {
        let all = Cli::parse_all(std::iter::once(&"fxtrec").chain(line)).expect("good");
        all.1.color
    };
    assert_eq!(color(&["report", "x.fxt"]), None);
    assert_eq!(color(&["report", "x.fxt", "--color", "always"]), Some(ColorWhen::Always));
    assert_eq!(color(&["report", "--color=never", "x.fxt"]), Some(ColorWhen::Never));
    assert_eq!(color(&["ctl", "status", "--color=never"]), Some(ColorWhen::Never));
    assert_eq!(color(&["--color", "never", "--", "ls"]), Some(ColorWhen::Never));
    assert_eq!(color(&["ls", "--color", "always"]), None);
    assert_eq!(record(&["ls", "--color"]).command, ["ls", "--color"]);
    refused(&["report", "x.fxt", "--color", "blue"]);
}
