//! Output on a terminal: tables that fit, colours, and a pager for text that is longer than the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fxtrec_tests::binary;
use nix::pty::{OpenptyResult, Winsize, openpty};
use tempfile::TempDir;

use crate::page::scene::Scene;

/// A fifth of a second of four CPUs, with a loss.
const SCENE: Scene = Scene { cpus: 4, threads: 12, events: 2_000, spans: true, gap: true };

const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// A directory with a trace, t.fxt.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("t.fxt"), SCENE.trace()).expect("room");
    folder
}

fn command(folder: &TempDir, args: &[&str], variables: &[(&str, &str)]) -> std::process::Command {
    let mut command = binary::command();
    command.args(args).current_dir(folder.path());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PAGER", "FXTREC_PAGER", "LESS"] {
        command.env_remove(name);
    }
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "LESSSECURE"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").envs(variables.iter().copied());
    command
}

/// The output on a terminal of [`SIZE`], and the exit status.
fn on_terminal(
    folder: &TempDir,
    args: &[&str],
    variables: &[(&str, &str)],
) -> (String, ExitStatus) {
    let OpenptyResult { master, slave } = openpty(&SIZE, None).expect("a pseudo terminal");
    let mut command = command(folder, args, variables);
    let copy = || slave.try_clone().expect("a copy");
    let mut child =
        command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("fxtrec starts");
    // The terminal ends when its last descriptor is closed.
    drop((command, slave));
    let mut shown = Vec::new();
    // The kernel returns EIO when the other side is closed.
    let _ = File::from(master).read_to_end(&mut shown);
    let status = child.wait().expect("its own child");
    (String::from_utf8(shown).expect("text").replace("\r\n", "\n"), status)
}

fn in_pipe(folder: &TempDir, args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = command(folder, args, variables).stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The text without fxtrec's colours.
fn plain(text: &str) -> String {
    let colours = ["\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[2m", "\x1b[0m"];
    colours.iter().fold(text.to_owned(), |text, colour| text.replace(colour, ""))
}

#[test]
fn tables_fit_a_terminal_of_80_columns_and_only_a_terminal_has_colours() {
    let folder = folder();
    let report = ["report", "t.fxt", "--all", "--no-pager"];
    let (shown, status) = on_terminal(&folder, &report, &[]);
    assert!(status.success(), "{shown}");
    assert!(shown.contains("\x1b[1mTask") && shown.contains("\x1b[1;31mLOST\x1b[0m"), "{shown}");
    let text = plain(&shown);
    let tables: Vec<&str> = text.split("\n\n").filter(|part| part.contains("\n  ----")).collect();
    assert!(tables.len() >= 3, "{text}");
    for table in tables {
        let rows = table.lines().skip_while(|line| !line.starts_with("  ---"));
        for line in rows.take_while(|line| !line.contains(" hidden: ")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    assert!(text.contains(" columns hidden: widen to "), "{text}");
    let whole = in_pipe(&folder, &report, &[]);
    assert!(!whole.contains('\x1b') && !whole.contains("hidden: widen"), "{whole}");
    assert_eq!(plain(&in_pipe(&folder, &report, &[("CLICOLOR_FORCE", "1")])), whole);
    for (option, variable) in [("--color=never", "CLICOLOR"), ("--color=auto", "NO_COLOR")] {
        let line = [&report[..], &[option]].concat();
        assert_eq!(on_terminal(&folder, &line, &[(variable, "1")]).0, text);
    }
    let json = in_pipe(&folder, &["report", "t.fxt", "--json", "--color=always"], &[]);
    assert!(!json.contains('\x1b') && !json.contains("\\u001b"), "{json}");
}

#[test]
fn explanations_and_comparisons_fit_a_terminal_and_lose_no_word() {
    let folder = folder();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let span = "span(\"a-category-of-some-length:and-a-name-that-is-longer\").p99";
    let metric = ["--metric", "wakeup.p99", "--metric", span];
    let compare = [&["compare", "t.fxt", "--no-pager"], &metric[..], &["--", "t.fxt"]].concat();
    for args in [&["why", "t.fxt", "--no-pager"][..], &compare] {
        let whole = in_pipe(&folder, args, &[]);
        assert!(whole.lines().any(|line| line.chars().count() > 80), "{whole}");
        let (shown, _) = on_terminal(&folder, args, &[]);
        assert_eq!(words(&shown), words(&whole));
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

/// Converts `trace`, which arrives slowly, to the file `to`, and waits for the progress line.
fn shows_how_far_it_is(trace: &[u8], to: &str) {
    let folder = folder();
    let OpenptyResult { master, slave } = openpty(&SIZE, None).expect("a pseudo terminal");
    let mut command = command(&folder, &["convert", "-", to], &[]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(slave);
    let mut child = command.spawn().expect("fxtrec starts");
    drop(command);
    let mut input = child.stdin.take().expect("piped");
    let (shown, sees) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut whole = String::new();
        let mut piece = [0; 4096];
        let mut master = File::from(master);
        // The kernel returns EIO when the other side is closed.
        while let Ok(read @ 1..) = master.read(&mut piece) {
            whole += &String::from_utf8_lossy(&piece[..read]);
            // The reader has been closed when it has been seen.
            let _ = shown.send(whole.clone());
        }
        whole
    });
    let mut pieces = trace.chunks(trace.len() / 500);
    let mut is_seen = false;
    // As slowly as a network, until it has been seen.
    while !is_seen && let Some(piece) = pieces.next() {
        input.write_all(piece).expect("it reads");
        thread::sleep(Duration::from_millis(20));
        is_seen = sees.try_iter().any(|text| text.contains("B/s"));
    }
    assert!(is_seen, "after all of the trace");
    let rest = pieces.try_for_each(|piece| input.write_all(piece));
    drop(input);
    let status = child.wait().expect("its own child");
    let whole = reader.join().expect("it ends with the terminal");
    assert!(rest.is_ok() && status.success(), "{rest:?} {status} {whole}");
    let (_, after) = whole.rsplit_once("\r\x1b[K").expect("the line is taken away");
    assert!(after.starts_with("fxtrec: ") && !after.contains("B/s"), "{after}");
}

#[test]
fn work_that_takes_long_shows_how_far_it_is_until_it_is_done() {
    shows_how_far_it_is(&SCENE.trace(), "out.json");
}

#[test]
fn reading_a_perfetto_trace_shows_how_far_it_is_until_it_is_done() {
    let folder = folder();
    in_pipe(&folder, &["convert", "-q", "t.fxt", "t.pftrace"], &[]);
    let trace = std::fs::read(folder.path().join("t.pftrace")).expect("written");
    shows_how_far_it_is(&trace, "out.fxt");
}

#[test]
fn what_is_longer_than_the_screen_goes_to_the_pager_whole() {
    let folder = folder();
    let pager = [("FXTREC_PAGER", "cat > paged"), ("PAGER", "cat > wrong")];
    let dump = ["dump", "t.fxt"];
    let whole = in_pipe(&folder, &dump, &pager);
    let path = folder.path().join("paged");
    assert!(!path.exists(), "a pipe needs no pager");
    assert!(whole.lines().count() > 1_000);
    let (shown, status) = on_terminal(&folder, &dump, &pager);
    assert!(status.success(), "{shown}");
    assert_eq!(shown, "");
    assert_eq!(std::fs::read_to_string(&path).expect("the pager's file"), whole);
    std::fs::remove_file(&path).expect("there");
    let (shown, _) = on_terminal(&folder, &["dump", "t.fxt", "--no-pager"], &pager);
    assert_eq!(shown, whole);
    let (shown, _) = on_terminal(&folder, &["dump", "t.fxt", "--stats"], &pager);
    assert!(plain(&shown).starts_with("type "), "{shown}");
    assert!(!path.exists() && !folder.path().join("wrong").exists());
}

#[test]
fn who_leaves_the_pager_leaves_fxtrec_without_a_word() {
    let folder = folder();
    let pager = [("FXTREC_PAGER", "head -n 1")];
    let (shown, status) = on_terminal(&folder, &["dump", "t.fxt"], &pager);
    assert!(status.success(), "{status} {shown}");
    assert_eq!(shown.lines().count(), 1, "{shown}");
}

#[test]
fn a_pager_under_sudo_runs_as_the_caller_and_as_root_without_a_shell() {
    if !fxtrec_tests::root::or_skip("only root runs pagers as others") {
        return;
    }
    let folder = folder();
    let pager = ("PAGER", "id -u; id -G; echo secure=$LESSSECURE; cat > /dev/null");
    let sudo = [pager, ("SUDO_UID", "65533"), ("SUDO_GID", "65532")];
    let (shown, _) = on_terminal(&folder, &["dump", "t.fxt"], &sudo);
    assert_eq!(shown, "65533\n65532\nsecure=1\n");
    let (shown, _) = on_terminal(&folder, &["dump", "t.fxt"], &[pager]);
    assert!(shown.starts_with("0\n") && shown.ends_with("\nsecure=1\n"), "{shown}");
}
