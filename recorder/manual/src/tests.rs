//! The pages by what they say, and the examples by the command line's own parser.

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
        for heading in ["NAME", "SYNOPSIS", "EXIT STATUS", "EXAMPLES"] {
            let quoted = format!(".SH \"{heading}\"");
            let found = page.contains(&quoted) || page.contains(&format!(".SH {heading}\n"));
            assert!(found, "{name} has no {heading}");
        }
    }
    assert_eq!(pages.len(), subcommands().len(), "fxtrec.1 in the place of help");
}

#[test]
fn the_examples_are_command_lines_that_fxtrec_takes() {
    let subs = subcommands().iter().filter(|sub| **sub != "help").map(|sub| Some(*sub));
    for (line, _) in subs.chain([None]).flat_map(sections::examples) {
        let words = words(line.strip_prefix("sudo ").unwrap_or(line));
        if let Err(error) = Cli::parse_line(&words) {
            panic!("{line}: {error}");
        }
    }
}

/// The words of a shell's line, as far as the examples need it.
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
