//! The terminal while it shows figures: alternate screen, no echo, unbuffered keys.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Stdin, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::termios::{
    LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr,
};
use nix::unistd::read;

use crate::units::escape;

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The time for which a terminal may accept nothing before the rest of a page is left out, in milliseconds: signals are not read meanwhile.
const PATIENCE_MS: u16 = 1000;

/// Dropping it restores the terminal.
pub(super) struct Screen {
    input: Stdin,
    /// The terminal, opened again so that writes do not block. Standard output itself, which is shared with the shell, may block.
    output: File,
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
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
        let again = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/1");
        let output = match again {
            Ok(output) => output,
            // As after su(1): the terminal belongs to another user.
            Err(_) => File::from(stdout().as_fd().try_clone_to_owned()?),
        };
        let mut screen = Screen { input: stdin(), output, before };
        screen.put(ENTER.as_bytes())?;
        Ok(screen)
    }

    /// Writes to the terminal. Text that a stopped terminal does not accept is left out: the next page replaces all of it.
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.output.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(self.output.as_fd(), PollFlags::POLLOUT)];
                    if poll(&mut polled, PATIENCE_MS)? == 0 {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
        self.put(&page)
    }

    /// Shows another text in its place.
    pub(super) fn page(&mut self, text: &str) -> io::Result<()> {
        self.put(format!("\x1b[H\x1b[J{}", text.replace('\n', "\r\n")).as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = self.put(LEAVE.as_bytes());
        let _ = tcsetattr(stdin(), SetArg::TCSANOW, &self.before);
    }
}
