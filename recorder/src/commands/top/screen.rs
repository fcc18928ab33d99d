//! The terminal while it shows figures: alternate screen, no echo, unbuffered keys.

use std::io::{self, IsTerminal, Stdin, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::termios::{
    LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use nix::unistd::read;

use crate::units::escape;

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Dropping it restores the terminal.
pub(super) struct Screen {
    input: Stdin,
    before: Termios,
}

impl Screen {
    /// Whether keys can be read from standard input.
    pub(super) fn has_keyboard() -> bool {
        stdin().is_terminal()
    }

    pub(super) fn open() -> io::Result<Screen> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        // Signals have their usual effect on the terminal: Ctrl-C ends the program.
        raw.local_flags &= !(LocalFlags::ICANON | LocalFlags::ECHO);
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(stdin(), SetArg::TCSANOW, &raw)?;
        let screen = Screen { input: stdin(), before };
        stdout().write_all(ENTER.as_bytes())?;
        stdout().flush()?;
        Ok(screen)
    }

    pub(super) fn keyboard(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// The keys pressed since the last call. The end of the input counts as `q`.
    pub(super) fn keys(&mut self) -> io::Result<Vec<char>> {
        let mut bytes = [0; 64];
        let got = read(&self.input, &mut bytes)?;
        if got == 0 {
            return Ok(vec!['q']);
        }
        let text = String::from_utf8_lossy(&bytes[..got]).into_owned();
        // Arrow keys and the like send sequences, which are ignored here.
        let is_sequence = text.len() > 1 && text.starts_with('\u{1b}');
        Ok(if is_sequence { Vec::new() } else { text.chars().collect() })
    }

    /// Replaces the content of the page. The last line has the status.
    pub(super) fn draw(
        &mut self,
        text: &[u8],
        status: &str,
        lines: usize,
        columns: Option<usize>,
    ) -> io::Result<()> {
        let mut page = b"\x1b[H".to_vec();
        for line in text.split(|&byte| byte == b'\n').take(lines.saturating_sub(1)) {
            page.extend_from_slice(line);
            page.extend_from_slice(b"\x1b[K\r\n");
        }
        page.extend_from_slice(format!("\x1b[J\x1b[{lines};1H").as_bytes());
        let most = columns.unwrap_or(80).saturating_sub(1);
        let status: String = escape::line(status).chars().take(most).collect();
        page.extend_from_slice(status.as_bytes());
        let mut out = stdout().lock();
        out.write_all(&page)?;
        out.flush()
    }

    /// Shows another text in its place.
    pub(super) fn page(&mut self, text: &str) -> io::Result<()> {
        let mut out = stdout().lock();
        write!(out, "\x1b[H\x1b[J{}", text.replace('\n', "\r\n"))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = stdout().write_all(LEAVE.as_bytes()).and_then(|()| stdout().flush());
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.before);
    }
}
