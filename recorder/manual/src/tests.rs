//! Checks the text of the pages, and parses the examples with the command line's own parser.

use std::path::Path;
use std::process::Command;

use clap::CommandFactory;
use fxtrec::cli::{Cli, subcommands};

use super::{pages, sections, write};

fn pages() -> Vec<(String, String)> {
    let pages = pages::all(Cli::command()).expect("memory takes every page");
    pages.into_iter().map(|(name, text)| (name, String::from_utf8(text).expect("text"))).collect()
}

#[test]
fn every_subcommand_has_a_page_with_its_sections() {
    let pages = pages();
    for sub in subcommands().iter().filter(|sub| **sub != "help") {
        let name = format!("fxtrec-{sub}.1");
        let (_, page) = pages.iter().find(|(page, _)| *page == name).expect("a page");
        assert!(page.len() > 500, "{name}");
    }
    let headings =
        ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"];
    for (name, page) in &pages {
        for heading in headings {
            let quoted = format!(".SH \"{heading}\"");
            let found = page.contains(&quoted) || page.contains(&format!(".SH {heading}\n"));
            assert!(found, "{name} has no {heading}");
        }
    }
    let of_ctl = pages.iter().filter(|(name, _)| name.starts_with("fxtrec-ctl-")).count();
    // fxtrec.1 replaces the page for help.
    assert_eq!(pages.len() - of_ctl, subcommands().len());
    assert_eq!(of_ctl, 7, "status, providers, categories, start, stop, snapshot, watch");
}

#[test]
fn the_examples_are_command_lines_that_fxtrec_takes() {
    let pages = pages();
    let names = pages.iter().filter_map(|(name, _)| name.strip_suffix(".1"));
    for name in names {
        let examples = sections::examples(name.strip_prefix("fxtrec-"));
        assert!(!examples.is_empty(), "{name}");
        for (line, _) in examples {
            let words = words(line.strip_prefix("sudo ").unwrap_or(line));
            if let Err(error) = Cli::parse_line(&words) {
                panic!("{line}: {error}");
            }
        }
    }
}

/// The words of a shell command line, as far as the examples need it.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            character => words.last_mut().expect("there is one").push(character),
        }
    }
    words
}

#[test]
fn pages_and_completions_of_three_shells_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path()).expect("it can be written to");
    for file in ["man/fxtrec.1", "man/fxtrec-report.1", "completions/fxtrec.bash"] {
        assert!(folder.path().join(file).metadata().expect(file).len() > 1000, "{file}");
    }
    let completions = ["completions/_fxtrec", "completions/fxtrec.fish"];
    for file in completions {
        let text = std::fs::read_to_string(folder.path().join(file)).expect(file);
        assert!(text.contains("fail-if") && text.contains("report"), "{file}");
    }
}

/// The completions of bash for this line, with a program `fxtrec` that prints the output of `of`.
fn offered(folder: &Path, line: &str) -> Vec<String> {
    let script = r#"
        . completions/fxtrec.bash
        COMP_LINE=$LINE COMP_POINT=${#LINE}
        # As readline does: the separators are words of their own.
        read -ra COMP_WORDS <<<"${LINE//:/ : }"
        [[ $LINE != *' ' ]] || COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        function=$(complete -p fxtrec) function=${function##*-F } function=${function%% *}
        $function fxtrec "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script]).env("LINE", line).env("PATH", path).current_dir(folder);
    let output = bash.output().expect("bash runs");
    assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// Creates a program `fxtrec` that knows two probes.
fn program(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;

    let path = folder.join("fxtrec");
    let names =
        "#!/bin/sh\n[ \"$*\" = \"probes --names libc mal*\" ] && printf 'mallinfo\\nmalloc\\n'\n";
    std::fs::write(&path, names).expect("room");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("its own file");
}

#[test]
fn bash_completes_values_that_only_this_machine_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path()).expect("it can be written to");
    program(folder.path());
    let offered = |line: &str| offered(folder.path(), line);

    let own = std::process::id().to_string();
    assert!(offered("fxtrec -p ").contains(&own));
    assert_eq!(offered(&format!("fxtrec -p {own}")).iter().filter(|it| **it == own).count(), 1);
    assert!(offered("fxtrec record --pid=1,").contains(&format!("1,{own}")));
    assert_eq!(offered("fxtrec -u @"), ["@sudo"]);
    assert!(offered("fxtrec -u roo").contains(&"root".to_owned()));
    assert_eq!(offered("fxtrec --categories app,sys"), ["app,syscall"]);
    assert_eq!(offered("fxtrec --categories sched:"), ["waking"]);
    // Bash replaces the text after the colon.
    assert_eq!(offered("fxtrec -P libc:mal"), ["mallinfo", "malloc"]);
    assert_eq!(offered("fxtrec -a -P n=libc:mal"), ["mallinfo", "malloc"]);
    assert_eq!(offered("fxtrec probes libc mal"), ["mallinfo", "malloc"]);
    // clap's own completions are there as well.
    assert_eq!(offered("fxtrec report --fail-i"), ["--fail-if"]);
    assert!(offered("fxtrec rep").contains(&"report".to_owned()));
    assert!(!offered("fxtrec -- kill -p ").contains(&own), "words of COMMAND are its own");
}

#[test]
fn zsh_and_fish_know_the_same_values() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path()).expect("it can be written to");
    let read = |file: &str| {
        std::fs::read_to_string(folder.path().join("completions").join(file)).expect(file)
    };
    let zsh = read("_fxtrec");
    for function in ["pids", "users", "events", "probes", "categories"] {
        let uses = format!(":_fxtrec_{function}'");
        assert!(zsh.contains(&uses), "{function} in\n{zsh}");
        assert!(zsh.contains(&format!("_fxtrec_{function}() {{")));
    }
    assert!(zsh.starts_with("#compdef fxtrec"));
    let fish = read("fxtrec.fish");
    assert!(fish.contains("complete -c fxtrec -s P -l probe -r -a '(__fxtrec_probes)'"));
    // Fish can be queried without a terminal.
    program(folder.path());
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let asked = ["-P libc:mal", "--categories app,sys", "-u @su"];
    let asked = asked.map(|line| format!("complete -C 'fxtrec {line}'")).join("; ");
    let script = format!("source completions/fxtrec.fish; {asked}");
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", &script]).env("PATH", path).current_dir(folder.path());
    if let Ok(output) = fish.output() {
        let offered = String::from_utf8_lossy(&output.stdout);
        let expected = "libc:mallinfo\nlibc:malloc\napp,syscall\n@sudo\n";
        assert_eq!(offered, expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
    for (shell, file) in [("zsh", "_fxtrec"), ("fish", "fxtrec.fish")] {
        // The shells that are installed parse the scripts without executing anything.
        let path = folder.path().join("completions").join(file);
        if let Ok(output) = Command::new(shell).arg("-n").arg(&path).output() {
            assert!(
                output.status.success(),
                "{shell}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn an_option_is_no_folder() {
    use clap::Parser;
    use clap::error::ErrorKind;

    let parse = |word: &str| super::Args::try_parse_from(["fxtrec-manual", word]);
    for (word, kind) in [
        ("--help", ErrorKind::DisplayHelp),
        ("-h", ErrorKind::DisplayHelp),
        ("--version", ErrorKind::DisplayVersion),
        ("--folder", ErrorKind::UnknownArgument),
    ] {
        assert_eq!(parse(word).map(|args| args.folder).expect_err(word).kind(), kind);
    }
    assert_eq!(parse("out").expect("a folder").folder, Path::new("out"));
}
