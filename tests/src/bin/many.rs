//! A recording of a simulated machine: `scripts/bench-many` and a test run it.
//!
//! ```text
//! many record ONLINE POSSIBLE WIRING FIGURES fxtrec -a -o t.fxt .. -- many play ..
//! many play WIRING PLAYED RATE SECONDS even|uneven|overflow|filled [OUTPUT]     the COMMAND of that: writes the lanes
//! many check t.fxt PLAYED                                       holds the trace against what was played
//! ```
//!
//! `record` is fxtrec's own recording with another kernel (see `fxtrec_tests::synthetic`); it writes its measurements to FIGURES.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fxtrec::cli::{Cli, Command};
use fxtrec::commands::record;
use fxtrec_tests::synthetic::Wiring;
use fxtrec_tests::synthetic::kernel::SyntheticKernel;
use fxtrec_tests::synthetic::player::{Play, Played, Player, pin_to};
use fxtrec_tests::synthetic::verdict::judge;
use nix::sys::signal::Signal;
use serde_json::json;

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let text: Vec<&str> = words.iter().map_while(|word| word.to_str()).collect();
    let result = match &text[..] {
        ["record", online, possible, wiring, figures, line @ ..] => {
            record([online, possible], Path::new(wiring), Path::new(figures), line)
        }
        ["play", wiring, played, rest @ ..] => play(Path::new(wiring), Path::new(played), rest),
        ["check", trace, played] => check(Path::new(trace), Path::new(played)),
        _ => Err("usage: many record|play|check ... (see its source)".into()),
    };
    result.unwrap_or_else(|error| {
        eprintln!("many: {error}");
        ExitCode::FAILURE
    })
}

/// The maximum memory that this process had resident, in KiB.
fn most_resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn record(
    [online, possible]: [&str; 2],
    wiring: &Path,
    figures: &Path,
    line: &[&str],
) -> Result<ExitCode, Failure> {
    let Command::Record(args) = Cli::parse_line(line)? else { return Err("no recording".into()) };
    let kernel = SyntheticKernel::new(online, possible, wiring)?;
    let code = record::run_on(&kernel, args, &mut std::io::stderr())?;
    let found = json!({
        "cpu_ns": kernel.cpu_time(), "lane_bytes": kernel.lane_bytes(), "resident_kib": most_resident(),
    });
    fs::write(figures, found.to_string())?;
    Ok(ExitCode::from(code))
}

fn play(wiring: &Path, to: &Path, words: &[&str]) -> Result<ExitCode, Failure> {
    let ([rate, seconds, load], rest) =
        words.split_first_chunk().ok_or("usage: many play WIRING PLAYED RATE SECONDS LOAD")?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    pin_to(0)?;
    let wanted = Play {
        rate: rate.parse()?,
        duration: Duration::from_secs_f64(seconds.parse()?),
        uneven: *load == "uneven",
        output: rest.first().map(Into::into),
    };
    // SAFETY: the recorder that wrote the file started this process as its COMMAND, which uses them once.
    let mut player = unsafe { Player::new(&Wiring::read(wiring)?) }?;
    let played = match *load {
        "overflow" => player.overflow()?,
        "filled" => player.filled()?,
        _ => player.play(&wanted),
    };
    fs::write(to, played.to_json().to_string())?;
    Ok(ExitCode::SUCCESS)
}

fn check(trace: &Path, played: &Path) -> Result<ExitCode, Failure> {
    let played = serde_json::from_str(&fs::read_to_string(played)?)?;
    let played = Played::from_json(&played).ok_or("not what was played")?;
    let verdict = judge(trace, &played)?;
    println!("{}", verdict.to_json());
    Ok(ExitCode::from(u8::from(!verdict.faults.is_empty())))
}
