//! Checks of fxtrec for a machine that may be broken by them: `guest CHECK [ARGS]`. `scripts/vm` runs them in virtual machines.
//!
//! The last line gives the reason, after the word `why`. The exit status is 0 on success, 3 if the kernel refuses and fxtrec reports that
//! before anything was recorded, and another value if the check failed.

mod facts;
mod recordings;
mod rights;
mod upheaval;

use std::process::ExitCode;

/// The result of a check that found no fault. A check that finds a fault panics.
#[derive(Debug)]
enum Outcome {
    /// The compared items.
    Fine(String),
    /// The message of fxtrec.
    Refused(String),
}

fn check(name: &str, args: &[&str]) -> Outcome {
    match (name, args) {
        ("doctor", []) => recordings::doctor(),
        ("switches", [source]) => recordings::switches(source),
        ("brief", []) => recordings::brief(),
        ("hotplug", [source]) => recordings::hotplug(source),
        ("provider", []) => recordings::provider(),
        ("scope", [source]) => recordings::scope(source),
        ("renames", [source]) => recordings::renames(source),
        ("span", []) => recordings::span(),
        ("usdt", []) => recordings::usdt(),
        ("trigger", []) => recordings::trigger(),
        ("facts", [source]) => facts::facts(source),
        ("why", [scene]) => facts::why(scene),
        ("wakers", []) => facts::wakers(),
        ("quota", [version]) => facts::quota(version),
        ("locks", []) => facts::locks(),
        ("fallback", []) => recordings::fallback(),
        ("limits", []) => recordings::limits(),
        ("offline-at-start", [source]) => upheaval::offline_at_start(source),
        ("partition", [source]) => upheaval::partition(source),
        ("clock", [source]) => upheaval::clock(source),
        ("suspend", []) => upheaval::suspend(),
        ("capabilities", []) => rights::capabilities(),
        ("paranoid", [level]) => rights::paranoid(level),
        ("without", [what]) => rights::without(what),
        _ => panic!("no check {name} {args:?}"),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((name, args)) = words.split_first() else {
        eprintln!("usage: guest CHECK [ARGS]");
        return ExitCode::from(2);
    };
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        eprintln!("{text}");
        println!("why {}", one_line(&text));
    }));
    match std::panic::catch_unwind(|| check(name, args)) {
        Ok(Outcome::Fine(text)) => {
            println!("why {}", one_line(&text));
            ExitCode::SUCCESS
        }
        Ok(Outcome::Refused(text)) => {
            println!("why {}", one_line(&text));
            ExitCode::from(3)
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// The first line of a text of several lines.
fn one_line(text: &str) -> String {
    /// The number of characters that fit into a table.
    const MOST: usize = 300;
    let line: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    line.join(" / ").chars().take(MOST).collect()
}
