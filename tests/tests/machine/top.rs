//! `fxtrec top`: in a pipe, and on a terminal with key presses.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::machine;
use fxtrec_tests::process::{Process, spawn, with_usual_signals};
use fxtrec_tests::root::may_record;
use fxtrec_tests::wait;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{FlowArg, LocalFlags, tcflow, tcgetattr};

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
        assert!(lines[0].contains(" slices/s, "), "{table}");
        assert!(lines[1].contains("Thread") && lines[1].contains("Wait ms *"), "{table}");
        let rows: Vec<&&str> = lines.iter().filter(|line| line.contains("pingpong:")).collect();
        assert!(rows.len() >= 2, "both threads of it: {table}");
        assert_eq!(rows.len(), lines.len() - 3, "and nothing else: {table}");
    }
    let by = folder.fxtrec(["top", "-n", "1", "-i", "200ms", "--by", "cgroup"]).expect(0).stdout;
    assert!(by.contains("Cgroup") && by.lines().any(|line| line.starts_with("  / ")), "{by}");
}

nix::ioctl_write_ptr_bad!(set_size, nix::libc::TIOCSWINSZ, Winsize);
nix::ioctl_write_int_bad!(controlling_terminal, nix::libc::TIOCSCTTY);

fn winsize((ws_row, ws_col): (u16, u16)) -> Winsize {
    Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }
}

/// A line as it is shown: without escape sequences.
fn without_codes(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    let ends = |c: char| c.is_ascii_alphabetic();
    let rest = pieces.map(|piece| piece.split_once(ends).map_or("", |(_, text)| text));
    first + &rest.collect::<String>()
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
        Terminal::start_sized(folder, options, (30, 160))
    }

    fn start_sized(folder: &Folder, options: &[&str], size: (u16, u16)) -> Terminal {
        let size = winsize(size);
        let pty = openpty(&size, None).expect("a terminal");
        let (master, slave) = (File::from(pty.master), File::from(pty.slave));
        // A terminal stays while a program has its other end.
        fcntl(&master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a descriptor");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command = binary::command();
        command.args(["top", "-i", "200ms"]).args(options).env("TERM", "xterm");
        command.current_dir(folder.path(".")).stdin(end()).stdout(end()).stderr(end());
        let lead = || {
            nix::unistd::setsid()?;
            // SAFETY: the descriptor is the child's standard input, which is a terminal at this point.
            unsafe { controlling_terminal(0, 0) }?;
            Ok(())
        };
        // SAFETY: this makes only two system calls.
        unsafe { command.pre_exec(lead) };
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

    /// Whether this text has appeared since the last key.
    fn shows(&self, text: &str) -> bool {
        self.seen.lock().expect("nobody panics").contains(text)
    }

    fn until(&self, text: &str) {
        wait::until(text, || self.shows(text));
    }

    /// Changes the size of the terminal, which the kernel reports to the programs on it.
    fn resize(&self, size: (u16, u16)) {
        // SAFETY: the kernel reads one structure, which outlives the call.
        unsafe { set_size(self.master.as_raw_fd(), &winsize(size)) }.expect("a terminal");
    }

    /// The lines of the last complete page, as a terminal shows them: without colours, in their places.
    fn page(&self) -> Option<Vec<String>> {
        let seen = self.seen.lock().expect("nobody panics");
        let whole = seen.rsplit_once("\u{1b}[H")?.0;
        let page = whole.rsplit_once("\u{1b}[H")?.1;
        let (table, status) = page.split_once("\u{1b}[J")?;
        let (at, status) = status.strip_prefix("\u{1b}[")?.split_once(";1H")?;
        let mut lines: Vec<String> = table.split("\r\n").map(without_codes).collect();
        lines.resize(at.parse::<usize>().expect("a line") - 1, String::new());
        lines.push(without_codes(status));
        Some(lines)
    }

    /// The last page, as soon as `is_it` holds for one.
    fn page_when(&self, what: &str, is_it: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut found = None;
        wait::until(what, || {
            found = self.page().filter(|page| is_it(page));
            found.is_some()
        });
        found.expect("just seen")
    }

    /// The word that follows this text.
    fn word_behind(&self, text: &str) -> Option<String> {
        let seen = self.seen.lock().expect("nobody panics");
        let (_, rest) = seen.split_once(text)?;
        rest.split(|c: char| c.is_whitespace() || c == '\u{1b}').next().map(str::to_owned)
    }

    fn forget(&self) {
        self.seen.lock().expect("nobody panics").clear();
    }

    /// Forgets the earlier output, and presses keys.
    fn press(&mut self, keys: &str) {
        self.forget();
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
    terminal.until("needs --history");
    terminal.press("q");
    terminal.finish();
}

/// Checks that a page fits: the header is in one line, a column is marked, and all keys are in the last line.
fn assert_fits(page: &[String], (rows, columns): (usize, usize), marked: &str) {
    let text = page.join("\n");
    assert_eq!(page.len(), rows, "{text}");
    let width = |line: &String| line.trim_end_matches('\r').chars().count();
    assert!(page.iter().all(|line| width(line) <= columns), "{text}");
    let headline = &page[0];
    assert!(headline.contains(" slices/s, ") && headline.contains(" ms"), "{text}");
    let headings = &page[1];
    assert!(headings.contains(&format!("{marked} *")), "{text}");
    assert_eq!(headings.matches('*').count(), 1, "{text}");
    let keys = page.last().expect("a line");
    assert!(keys.starts_with("q quit") && keys.ends_with("  d y: --history"), "{text}");
    assert!(
        page[3..rows - 1].iter().any(|line| line.contains(" ms") || line.contains(':')),
        "{text}"
    );
}

#[test]
fn it_fits_a_small_and_a_large_terminal_and_is_drawn_again_when_that_changes_while_paused() {
    if !may_record() {
        return;
    }
    let _busy = pingpong();
    let folder = Folder::new();
    let mut terminal = Terminal::start_sized(&folder, &[], (24, 80));
    terminal.until("pingpong:");
    let small = (24, 80);
    assert_fits(&terminal.page_when("a page", |page| page[1].contains('*')), small, "Wait ms");
    for (key, marked) in [("m", "Max wait ms"), ("b", "Blocked ms"), ("p", "Wakeup p99 ms")] {
        terminal.press(key);
        let is_marked = |page: &[String]| page[1].contains(&format!("{marked} *"));
        assert_fits(&terminal.page_when("a marked column", is_marked), small, marked);
    }
    terminal.press(" ");
    terminal.until("PAUSED");
    // Nothing else makes it draw: the last page is complete when the next one begins, so the terminal is resized twice.
    terminal.resize((50, 200));
    terminal.until("\u{1b}[50;1H");
    terminal.resize((50, 199));
    let large = terminal.page_when("a large page", |page| page.len() == 50);
    assert_fits(&large, (50, 200), "Wakeup p99 ms");
    assert!(large[49].contains("PAUSED"), "{large:?}");
    assert!(large[1].contains("Uninterr. ms"), "there is room for all columns: {large:?}");
    terminal.forget();
    terminal.resize((24, 80));
    terminal.until("\u{1b}[24;1H");
    terminal.press("q");
    terminal.finish();
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_it_from_ending() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let terminal = Terminal::start(&folder, &[]);
    terminal.until("slices/s");
    // Like Ctrl-S.
    tcflow(&terminal.slave, FlowArg::TCOOFF).expect("a terminal");
    let before = terminal.seen.lock().expect("nobody panics").len();
    thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(terminal.seen.lock().expect("nobody panics").len(), before, "it takes nothing");
    let Terminal { mut fxtrec, .. } = terminal;
    let pid = nix::unistd::Pid::from_raw(fxtrec.id().cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGTERM).expect("it runs");
    wait::until("it ends", || fxtrec.try_wait().expect("a child").is_some());
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
    // The recorder may not have started yet; the answer reports that.
    let mut written = None;
    wait::until("the last seconds are written", || {
        terminal.press("d");
        wait::until("an answer", || terminal.shows("written: "));
        written = terminal.word_behind("written: ").filter(|word| word.ends_with(".fxt"));
        written.is_some()
    });
    let written = written.expect("just seen");
    // The sentence is what a small terminal shows.
    terminal.resize((24, 80));
    terminal.press("y");
    terminal.until("Any key goes back. The recording is last.");
    let page = terminal.seen.lock().expect("nobody panics").clone();
    let page = page.rsplit_once("\u{1b}[H\u{1b}[J").expect("a page").1.replace('\r', "");
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80), "{page}");
    let sentence = page.split("\n\n").next().expect("a paragraph");
    // It may be why another program was late.
    let (_, who) = sentence.split_once("Z  ").expect("the time of day");
    assert!(sentence.trim_end().ends_with('.') && !who.starts_with("fxtrec["), "{page}");
    // Not earlier: what waits for this process would be explained.
    let report = folder.fxtrec(["report", &written, "--show", "threads"]).expect(0).stdout;
    assert!(report.contains("pingpong"), "{report}");
    terminal.press("x");
    terminal.until("pingpong:");
    terminal.press("q");
    // The remaining ones are reported.
    terminal.until("fxtrec: the last seconds are in last.fxt");
    terminal.finish();
    assert!(folder.path("last.fxt").exists());
}
