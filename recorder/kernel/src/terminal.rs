//! The state of standard output and standard error, and the live line on the latter.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fxtrec_units::look::Look;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless the environment overrides it.
    #[default]
    Auto,
    /// Colours in all text for people.
    Always,
    /// No colours.
    Never,
}

/// Whether a line can be written to standard error without waiting for its reader.
pub fn stderr_takes_text() -> bool {
    let stderr = stderr();
    let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// How long to wait for a reader of messages, in milliseconds.
const READER_TIMEOUT_MS: u16 = 5000;

/// How long to wait for a terminal whose output was stopped (Ctrl-S), in milliseconds: the user may be reading the screen.
const TERMINAL_TIMEOUT_MS: u16 = 60_000;

/// Whether waiting for a terminal has failed: until it accepts text again, no message waits.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Standard error that waits for its reader for a limited time, even if COMMAND, which shares it, has set `O_NONBLOCK` or stopped the
/// terminal.
#[derive(Debug)]
pub struct Awaiting<W>(pub W);

impl<W: Write + AsFd> Write for Awaiting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        await_terminal(&self.0, TERMINAL_TIMEOUT_MS, &GIVEN_UP)?;
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !await_room(&self.0, READER_TIMEOUT_MS)? {
                        return Err(error);
                    }
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Waits until a terminal accepts text. Only waits for terminals.
fn await_terminal(out: &impl AsFd, timeout_ms: u16, given_up: &AtomicBool) -> io::Result<()> {
    if !nix::unistd::isatty(out).unwrap_or(false) {
        return Ok(());
    }
    let timeout_ms = if given_up.load(Ordering::Relaxed) { 0 } else { timeout_ms };
    let has_room = await_room(out, timeout_ms)?;
    given_up.store(!has_room, Ordering::Relaxed);
    if has_room { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Waits until something can be written; false if that takes too long. After a signal, the write itself shows the state.
fn await_room(out: &impl AsFd, timeout_ms: u16) -> io::Result<bool> {
    let mut polled = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut polled, PollTimeout::from(timeout_ms)) {
        Ok(ready) => Ok(ready > 0),
        Err(nix::errno::Errno::EINTR) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// The choice on the command line, for the whole process.
static CHOSEN: OnceLock<Colour> = OnceLock::new();

/// Sets when to use colours, for the whole process; the first call counts.
pub fn choose_colour(colour: Colour) {
    // After the first call, other code may already have read the value.
    let _ = CHOSEN.set(colour);
}

/// The environment's settings for colours and terminals.
#[derive(Clone, Copy, Debug, Default)]
struct Wishes<'a> {
    term: Option<&'a OsStr>,
    no_color: Option<&'a OsStr>,
    clicolor: Option<&'a OsStr>,
    clicolor_force: Option<&'a OsStr>,
}

/// Standard output or standard error, which may be a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whether it is a terminal at all.
    pub is_terminal: bool,
    /// Whether the line can be redrawn: a terminal other than `TERM=dumb`.
    pub can_redraw: bool,
    /// Whether to use colour: like `can_redraw`, unless overridden by `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` or [`choose_colour`].
    pub colour: bool,
    /// Columns, if it is a terminal that reports them.
    width: Option<usize>,
    /// Lines, if it is a terminal that reports them.
    height: Option<usize>,
}

impl Terminal {
    /// Looks at standard error and at the environment.
    pub fn of_stderr() -> Terminal {
        Terminal::of(&stderr())
    }

    /// Looks at standard output and at the environment.
    pub fn of_stdout() -> Terminal {
        Terminal::of(&stdout())
    }

    /// Not a terminal, and no colours.
    pub const NONE: Terminal = Terminal {
        is_terminal: false,
        can_redraw: false,
        colour: false,
        width: None,
        height: None,
    };

    fn of(stream: &(impl AsFd + IsTerminal)) -> Terminal {
        let [term, no_color, clicolor, clicolor_force] =
            ["TERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"].map(std::env::var_os);
        let wishes = Wishes {
            term: term.as_deref(),
            no_color: no_color.as_deref(),
            clicolor: clicolor.as_deref(),
            clicolor_force: clicolor_force.as_deref(),
        };
        let chosen = CHOSEN.get().copied().unwrap_or_default();
        let judged = Terminal::judge(stream.is_terminal(), wishes, chosen);
        let size = size_of(stream);
        let some = |number: u16| Some(usize::from(number)).filter(|number| *number > 0);
        Terminal {
            width: size.and_then(|size| some(size.ws_col)),
            height: size.and_then(|size| some(size.ws_row)),
            ..judged
        }
    }

    fn judge(is_terminal: bool, wishes: Wishes<'_>, chosen: Colour) -> Terminal {
        let can_redraw = is_terminal && wishes.term.is_some_and(|term| term != "dumb");
        let set = |value: Option<&OsStr>| value.is_some_and(|value| !value.is_empty());
        let colour = match chosen {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto if set(wishes.no_color) => false,
            Colour::Auto if set(wishes.clicolor_force) && !is_zero(wishes.clicolor_force) => true,
            Colour::Auto => can_redraw && !is_zero(wishes.clicolor),
        };
        Terminal { is_terminal, can_redraw, colour, ..Terminal::NONE }
    }

    /// How text is formatted there.
    pub fn look(self) -> Look {
        Look { colour: self.colour, columns: self.width.filter(|_| self.is_terminal) }
    }

    /// Lines of the terminal, if known.
    pub fn lines(self) -> Option<usize> {
        self.height.filter(|_| self.is_terminal)
    }
}

/// A line on standard error that shows progress: each drawing replaces the last one. If a line cannot be redrawn, each drawing is a new
/// line. It is written to standard error directly, because it contains terminal commands.
#[derive(Debug)]
pub struct LiveLine {
    terminal: Terminal,
    every: Duration,
    drawn: Option<Instant>,
    shown: bool,
}

impl LiveLine {
    /// A line that is drawn at most this often.
    pub fn new(terminal: Terminal, every: Duration) -> LiveLine {
        LiveLine { terminal, every, drawn: None, shown: false }
    }

    /// Whether enough time has passed to draw it again.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.shown || self.drawn.is_none_or(|drawn| now.duration_since(drawn) >= self.every)
    }

    /// Draws it, cut to the terminal's width, unless the terminal does not accept it now.
    ///
    /// # Errors
    /// Returns an error if standard error is gone.
    pub fn draw(&mut self, now: Instant, text: &str) -> io::Result<()> {
        if !stderr_takes_text() {
            return Ok(());
        }
        // The terminal may have been resized since.
        let columns = columns_of(&stderr()).unwrap_or(80);
        self.draw_to(&mut stderr(), now, text, columns)
    }

    fn draw_to(
        &mut self,
        out: &mut dyn Write,
        now: Instant,
        text: &str,
        columns: usize,
    ) -> io::Result<()> {
        // In the last column some terminals begin a new line.
        let text: String = text.chars().take(columns.saturating_sub(1)).collect();
        (self.shown, self.drawn) = (true, Some(now));
        match self.terminal.can_redraw {
            true => write!(out, "\r\x1b[K{text}")?,
            false => writeln!(out, "{text}")?,
        }
        out.flush()
    }

    /// Removes it until it is drawn again.
    ///
    /// # Errors
    /// Returns an error if standard error is closed.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.shown && !stderr_takes_text() {
            // The next output continues on the same line.
            self.shown = false;
            return Ok(());
        }
        self.clear_from(&mut stderr())
    }

    fn clear_from(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if std::mem::take(&mut self.shown) && self.terminal.can_redraw {
            write!(out, "\r\x1b[K")?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Whether standard output is a terminal, which a trace must not be written to.
pub fn stdout_is_terminal() -> bool {
    stdout().is_terminal()
}

fn is_zero(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value == "0")
}

fn columns_of(fd: &impl AsFd) -> Option<usize> {
    size_of(fd).map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn size_of(fd: &impl AsFd) -> Option<libc::winsize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ fills the winsize it is given, which lives longer than the call.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0).then_some(size)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use nix::pty::{Winsize, openpty};

    use super::*;

    #[test]
    fn a_message_waits_for_its_reader_though_writes_do_not() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
        nix::fcntl::fcntl(&writer, flags).expect("its own");
        // This is more than a pipe holds.
        let whole = vec![7; 1 << 20];
        let sent = whole.clone();
        let writer = std::thread::spawn(move || Awaiting(writer).write_all(&sent));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("it ends");
        writer.join().expect("no panic").expect("all is written");
        assert!(read == whole);
    }

    #[test]
    fn a_terminal_that_was_stopped_is_waited_for_once_and_again_when_it_continues() {
        use nix::sys::termios::{FlowArg, tcflow};
        let pty = openpty(None, None).expect("a terminal");
        let given_up = AtomicBool::new(false);
        let takes = |timeout| await_terminal(&pty.slave, timeout, &given_up).is_ok();
        assert!(takes(0));
        tcflow(&pty.slave, FlowArg::TCOOFF).expect("its own");
        assert!(!takes(50) && given_up.load(Ordering::Relaxed));
        // Otherwise it would wait for a minute.
        assert!(!takes(TERMINAL_TIMEOUT_MS));
        tcflow(&pty.slave, FlowArg::TCOON).expect("its own");
        assert!(takes(0) && !given_up.load(Ordering::Relaxed));
        let (_reader, pipe) = io::pipe().expect("a pipe");
        assert!(await_terminal(&pipe, 0, &AtomicBool::new(true)).is_ok());
    }

    #[test]
    fn colour_needs_a_terminal_that_can_and_a_user_who_does_not_mind() {
        let judge = |is_terminal, term: Option<&'static str>, no_color: Option<&'static str>| {
            let (term, no_color) = (term.map(OsStr::new), no_color.map(OsStr::new));
            let wishes = Wishes { term, no_color, ..Wishes::default() };
            let t = Terminal::judge(is_terminal, wishes, Colour::Auto);
            (t.can_redraw, t.colour)
        };
        assert_eq!(judge(true, Some("xterm"), None), (true, true));
        assert_eq!(judge(true, Some("xterm"), Some("")), (true, true));
        assert_eq!(judge(true, Some("xterm"), Some("1")), (true, false));
        assert_eq!(judge(true, Some("dumb"), None), (false, false));
        assert_eq!(judge(true, None, None), (false, false));
        assert_eq!(judge(false, Some("xterm"), None), (false, false));
    }

    #[test]
    fn what_is_chosen_goes_before_no_color_that_before_force_and_that_before_the_terminal() {
        let colour =
            |is_terminal, no: &'static str, force: &'static str, on: &'static str, chosen| {
                let wish = |text: &'static str| Some(OsStr::new(text)).filter(|_| text != "unset");
                let wishes = Wishes {
                    term: Some(OsStr::new("xterm")),
                    no_color: wish(no),
                    clicolor_force: wish(force),
                    clicolor: wish(on),
                };
                Terminal::judge(is_terminal, wishes, chosen).colour
            };
        use Colour::{Always, Auto, Never};
        assert!(colour(false, "1", "unset", "0", Always));
        assert!(!colour(true, "unset", "1", "1", Never));
        assert!(!colour(true, "1", "1", "1", Auto));
        assert!(colour(false, "unset", "1", "0", Auto));
        assert!(colour(false, "", "yes", "unset", Auto));
        assert!(!colour(false, "unset", "0", "1", Auto));
        assert!(!colour(false, "unset", "", "unset", Auto));
        assert!(colour(true, "unset", "0", "1", Auto));
        assert!(!colour(true, "unset", "unset", "0", Auto));
    }

    #[test]
    fn only_a_terminal_has_a_width_that_lines_must_fit() {
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let slave = std::fs::File::from(pty.slave);
        let terminal = Terminal::of(&slave);
        assert_eq!((terminal.look().columns, terminal.lines()), (Some(100), Some(24)));
        let file = Terminal::of(&tempfile::tempfile().unwrap());
        assert_eq!((file.look().columns, file.lines()), (None, None));
    }

    #[test]
    fn the_width_is_the_terminals_own() {
        let size = Winsize { ws_row: 24, ws_col: 132, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        assert_eq!(columns_of(&pty.slave), Some(132));
        assert_eq!(columns_of(&tempfile::tempfile().unwrap()), None);
    }

    fn drawn(can_redraw: bool) -> String {
        let terminal = Terminal { is_terminal: can_redraw, can_redraw, ..Terminal::NONE };
        let mut line = LiveLine::new(terminal, Duration::from_millis(100));
        let (begin, mut out) = (Instant::now(), Vec::new());
        for millis in [0, 50, 100, 199, 200] {
            let now = begin + Duration::from_millis(millis);
            if line.is_due(now) {
                line.draw_to(&mut out, now, &format!("at {millis} ms"), 9).unwrap();
            }
        }
        line.clear_from(&mut out).unwrap();
        line.clear_from(&mut out).unwrap();
        assert!(line.is_due(begin), "it is not there");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_live_line_is_redrawn_when_it_is_due_cut_to_the_width_and_cleared_once() {
        assert_eq!(drawn(true), "\r\x1b[Kat 0 ms\r\x1b[Kat 100 m\r\x1b[Kat 200 m\r\x1b[K");
        assert_eq!(drawn(false), "at 0 ms\nat 100 m\nat 200 m\n");
    }
}
