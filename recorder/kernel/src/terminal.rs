//! What standard output and standard error are connected to.

use std::ffi::OsStr;
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::{AsFd, AsRawFd};

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
}
