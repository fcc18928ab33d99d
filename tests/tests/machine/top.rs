//! `fxtrec top`: in a pipe, and on a terminal with somebody at the keyboard.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::{Process, spawn, with_usual_signals};
use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};

const PINGPONG: &str = env!("CARGO_BIN_EXE_pingpong");

fn pingpong() -> Process {
    Process::start_ready(Command::new(PINGPONG).arg("forever"))
}

#[test]
fn in_a_pipe_it_prints_a_table_for_each_interval() {
    if !may_record() {
        return;
    }
    let _busy = pingpong();
    let folder = Folder::new();
    let done = folder.fxtrec(["top", "-n", "2", "-i", "400ms", "--filter", "pingpong"]).expect(0);
    let tables: Vec<&str> = done.stdout.split("\n\n").filter(|it| !it.is_empty()).collect();
    assert_eq!(tables.len(), 2, "{}", done.stdout);
    for table in tables {
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].contains(" slices per second, "), "{table}");
        assert!(lines[1].contains("Thread") && lines[1].contains("Wait ms"), "{table}");
        let rows: Vec<&&str> = lines.iter().filter(|line| line.contains("pingpong:")).collect();
        assert!(rows.len() >= 2, "both threads of it: {table}");
        assert_eq!(rows.len(), lines.len() - 3, "and nothing else: {table}");
    }
    let by = folder.fxtrec(["top", "-n", "1", "-i", "200ms", "--by", "cgroup"]).expect(0).stdout;
    assert!(by.contains("Cgroup") && by.lines().any(|line| line.starts_with("  / ")), "{by}");
}

/// A terminal with fxtrec on it.
struct Terminal {
    master: File,
    slave: File,
    seen: Arc<Mutex<String>>,
    fxtrec: std::process::Child,
}

impl Terminal {
    fn start(folder: &Folder, options: &[&str]) -> Terminal {
        let size = Winsize { ws_row: 30, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a terminal");
        let (master, slave) = (File::from(pty.master), File::from(pty.slave));
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command = binary::command();
        command.args(["top", "-i", "200ms"]).args(options).env("TERM", "xterm");
        command.current_dir(folder.path(".")).stdin(end()).stdout(end()).stderr(end());
        let fxtrec = spawn(with_usual_signals(&mut command));
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut from, to) = (master.try_clone().expect("a descriptor"), seen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(got @ 1..) = from.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..got]).into_owned();
                to.lock().expect("nobody panics").push_str(&text);
            }
        });
        Terminal { master, slave, seen, fxtrec }
    }

    /// Whether this text came since the last key.
    fn shows(&self, text: &str) -> bool {
        self.seen.lock().expect("nobody panics").contains(text)
    }

    fn until(&self, text: &str) {
        wait::until(text, || self.shows(text));
    }

    /// The word that follows this text.
    fn word_behind(&self, text: &str) -> Option<String> {
        let seen = self.seen.lock().expect("nobody panics");
        let (_, rest) = seen.split_once(text)?;
        rest.split(|c: char| c.is_whitespace() || c == '\u{1b}').next().map(str::to_owned)
    }

    /// Forgets what was shown, and presses keys.
    fn press(&mut self, keys: &str) {
        self.seen.lock().expect("nobody panics").clear();
        self.master.write_all(keys.as_bytes()).expect("sent");
    }

    fn echoes(&self) -> bool {
        let settings = tcgetattr(&self.slave).expect("it is a terminal");
        settings.local_flags.contains(LocalFlags::ECHO | LocalFlags::ICANON)
    }

    fn finish(mut self) {
        assert!(self.fxtrec.wait().expect("it ends").success());
        assert!(self.echoes(), "the terminal is as it was");
        self.until("\u{1b}[?1049l");
    }
}

#[test]
fn on_a_terminal_keys_sort_filter_pause_and_end_it() {
    if !may_record() {
        return;
    }
    let _busy = pingpong();
    let folder = Folder::new();
    let mut terminal = Terminal::start(&folder, &[]);
    terminal.until("pingpong:");
    assert!(!terminal.echoes(), "keys are read one by one");
    terminal.press("/no-such-thread\n");
    terminal.until("filter: no-such-thread  ");
    terminal.until(", 0 threads,");
    terminal.press("/\u{1b}");
    terminal.until("pingpong:");
    terminal.press(" ");
    terminal.until("PAUSED");
    terminal.press(" g");
    terminal.until("Cgroup");
    terminal.press("d");
    terminal.until("kept with --history");
    terminal.press("q");
    terminal.finish();
}

#[test]
fn a_key_writes_the_last_seconds_and_another_explains_the_worst_of_them() {
    if !may_record() {
        return;
    }
    let _turn = machine::quiet();
    let _busy = pingpong();
    let folder = Folder::new();
    let mut terminal = Terminal::start(&folder, &["--history", "-o", "last.fxt"]);
    terminal.until("pingpong:");
    // The recorder may not have begun yet, which the answer says.
    let mut written = None;
    wait::until("the last seconds are written", || {
        terminal.press("d");
        wait::until("an answer", || terminal.shows("written: "));
        written = terminal.word_behind("written: ").filter(|word| word.ends_with(".fxt"));
        written.is_some()
    });
    let written = written.expect("just seen");
    let report = folder.fxtrec(["report", &written, "--show", "threads"]).expect(0).stdout;
    assert!(report.contains("pingpong"), "{report}");
    terminal.press("y");
    terminal.until("Any key goes back. The recording is last.");
    terminal.press("x");
    terminal.until("pingpong:");
    terminal.press("q");
    terminal.finish();
}
