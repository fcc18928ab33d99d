//! What standard output and standard error are connected to, and the live line on the latter.

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// The terminal on standard error, where the live line and the summary go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whether standard error is a terminal at all.
    pub is_terminal: bool,
    /// Whether the line can be redrawn: a terminal other than `TERM=dumb`.
    pub can_redraw: bool,
    /// Whether to use colour: like `can_redraw`, unless `NO_COLOR` is set.
    pub colour: bool,
}

impl Terminal {
    /// Looks at standard error and at `TERM` and `NO_COLOR`.
    pub fn of_stderr() -> Terminal {
        Terminal::judge(
            stderr().is_terminal(),
            std::env::var_os("TERM").as_deref(),
            std::env::var_os("NO_COLOR").as_deref(),
        )
    }

    fn judge(is_terminal: bool, term: Option<&OsStr>, no_color: Option<&OsStr>) -> Terminal {
        let can_redraw = is_terminal && term.is_some_and(|term| term != "dumb");
        let refused = no_color.is_some_and(|value| !value.is_empty());
        Terminal { is_terminal, can_redraw, colour: can_redraw && !refused }
    }

    /// Columns of standard error as they are now; 80 when unknown.
    pub fn columns(self) -> usize {
        columns_of(&stderr()).unwrap_or(80)
    }
}

/// A line on standard error that shows progress: each drawing replaces the last one. Where a line cannot be redrawn,
/// drawings are lines below each other. It goes to standard error as it is, since it commands the terminal.
#[derive(Debug)]
pub struct LiveLine {
    terminal: Terminal,
    every: Duration,
    drawn: Option<Instant>,
    shown: bool,
}

impl LiveLine {
    /// A line that is to be drawn this often at most.
    pub fn new(terminal: Terminal, every: Duration) -> LiveLine {
        LiveLine { terminal, every, drawn: None, shown: false }
    }

    /// Whether it is time to draw it again.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.shown || self.drawn.is_none_or(|drawn| now.duration_since(drawn) >= self.every)
    }

    /// Draws it, cut to the terminal's width.
    ///
    /// # Errors
    /// When standard error is gone.
    pub fn draw(&mut self, now: Instant, text: &str) -> io::Result<()> {
        let columns = self.terminal.columns();
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

    /// Takes it away, until it is drawn again.
    ///
    /// # Errors
    /// When standard error is gone.
    pub fn clear(&mut self) -> io::Result<()> {
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

fn columns_of(fd: &impl AsFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ fills the winsize it is given, which lives longer than the call.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use nix::pty::{Winsize, openpty};

    use super::*;

    #[test]
    fn colour_needs_a_terminal_that_can_and_a_user_who_does_not_mind() {
        let judge = |is_terminal, term: Option<&str>, no_color: Option<&str>| {
            let t = Terminal::judge(is_terminal, term.map(OsStr::new), no_color.map(OsStr::new));
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
    fn the_width_is_the_terminals_own() {
        let size = Winsize { ws_row: 24, ws_col: 132, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        assert_eq!(columns_of(&pty.slave), Some(132));
        assert_eq!(columns_of(&tempfile::tempfile().unwrap()), None);
    }

    fn drawn(can_redraw: bool) -> String {
        let terminal = Terminal { is_terminal: can_redraw, can_redraw, colour: false };
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
