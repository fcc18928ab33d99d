//! Shows a long text page by page, like git: text that does not fit on the terminal is passed to another program.
//!
//! ```text
//!   text -> held until the screen is full -+- ended before: all to the terminal, no program is started
//!                                          +- full: the program is started, and gets this and the rest
//! ```
//!
//! The program is `FXTREC_PAGER`, or else the configured one, or else `PAGER`, or else `less -FRX`; an empty variable and `cat` mean no
//! pager. A pager may start a shell, so it must not get rights that its user does not have: under sudo it runs as the caller, and
//! `LESSSECURE=1` disables shells and editors in less when fxtrec runs as root.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::geteuid;

use crate::terminal::Terminal;
use crate::user::Owner;

/// The default pager: it ends if everything fits on the screen, shows colours, and does not clear the screen at its end.
const DEFAULT: &str = "less -FRX";

/// Characters that are special to a shell.
const FOR_A_SHELL: &str = "|&;<>()$`\\\"'*?[#~=%!{}";

/// How much fits on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    lines: usize,
    columns: usize,
}

/// The destination of the text.
#[derive(Debug)]
enum Stage {
    /// Text is kept in memory as long as it may fit on the screen.
    Held(Vec<u8>),
    /// To the program.
    Paged(Child),
    /// To the terminal.
    Straight,
}

/// An output that starts a pager if more is written than fits on the screen. Dropping it shows the rest, and waits until the user has left
/// the pager.
#[derive(Debug)]
pub struct Pager<W: Write> {
    out: W,
    program: Vec<OsString>,
    room: Room,
    /// Used lines of the screen, and used columns of the line after them.
    taken: Room,
    stage: Stage,
}

impl<W: Write> Pager<W> {
    /// A pager before `out`, which is standard output; `None` if that is not a terminal that can show pages, or no pager is wanted. `usual`
    /// is the pager that the user has configured, which takes precedence over `PAGER`.
    pub fn of_stdout(out: W, usual: Option<&str>) -> Option<Pager<W>> {
        let terminal = Terminal::of_stdout();
        let [own, general] = ["FXTREC_PAGER", "PAGER"].map(std::env::var_os);
        let program = program(&[own, usual.map(OsString::from), general]);
        let room = Room { lines: terminal.lines()?, columns: terminal.look().columns? };
        terminal.can_redraw.then_some(Pager::new(out, program?, room))
    }

    fn new(out: W, program: Vec<OsString>, room: Room) -> Pager<W> {
        let taken = Room { lines: 0, columns: 0 };
        Pager { out, program, room, taken, stage: Stage::Held(Vec::new()) }
    }

    /// Counts how much of the screen `bytes` take. Colours are counted too, so a pager may start a line too early.
    fn count(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.taken = Room { lines: self.taken.lines + 1, columns: 0 },
                // Second and later bytes of a character.
                0x80..=0xbf => {}
                _ if self.taken.columns == self.room.columns => {
                    self.taken = Room { lines: self.taken.lines + 1, columns: 1 };
                }
                _ => self.taken.columns += 1,
            }
        }
    }

    /// Starts the program; if that fails, the text is written to the terminal.
    fn start(&mut self) -> io::Result<()> {
        let Stage::Held(held) = std::mem::replace(&mut self.stage, Stage::Straight) else {
            return Ok(());
        };
        if let Ok(child) = command(&self.program).stdin(Stdio::piped()).spawn() {
            // Ctrl-C is for the pager, which still shows the text; after a pager has ended, the next write fails.
            for interrupt in [Signal::SIGINT, Signal::SIGQUIT] {
                // SAFETY: ignoring a signal installs no handler, so no code of ours runs at a signal.
                let _ = unsafe { signal(interrupt, SigHandler::SigIgn) };
            }
            self.stage = Stage::Paged(child);
        }
        self.pass(&held)
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stage {
            Stage::Held(held) => held.extend_from_slice(bytes),
            Stage::Paged(child) => match &mut child.stdin {
                Some(pipe) => return pipe.write_all(bytes),
                None => return Err(io::ErrorKind::BrokenPipe.into()),
            },
            Stage::Straight => return self.out.write_all(bytes),
        }
        Ok(())
    }
}

impl<W: Write> Write for Pager<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.stage, Stage::Held(_)) {
            self.count(bytes);
            // The last line is the shell's prompt.
            if self.taken.lines >= self.room.lines {
                self.start()?;
            }
        }
        self.pass(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stage {
            Stage::Straight => self.out.flush(),
            // More may follow; the pipe has no buffer here.
            Stage::Held(_) | Stage::Paged(_) => Ok(()),
        }
    }
}

impl<W: Write> Drop for Pager<W> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Straight) {
            Stage::Held(held) => {
                // If the terminal is gone, no one reads the output.
                let _ = self.out.write_all(&held).and_then(|()| self.out.flush());
            }
            Stage::Paged(mut child) => {
                drop(child.stdin.take());
                // The exit status of a pager is irrelevant for the output.
                let _ = child.wait();
            }
            Stage::Straight => {}
        }
    }
}

/// The program and its arguments, by the first that is set.
fn program(variables: &[Option<OsString>]) -> Option<Vec<OsString>> {
    let wanted = variables.iter().flatten().next();
    let line = wanted.cloned().unwrap_or_else(|| DEFAULT.into());
    let Some(text) = line.to_str() else {
        // A path with bytes that are not text.
        return Some(vec![line]);
    };
    if text.contains(|c| FOR_A_SHELL.contains(c)) {
        return Some(["/bin/sh", "-c", text].map(OsString::from).to_vec());
    }
    let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
    (!words.is_empty() && words != ["cat"]).then_some(words)
}

fn command(program: &[OsString]) -> Command {
    let (name, arguments) = program.split_first().map_or((None, &[][..]), |(a, b)| (Some(a), b));
    let mut command = Command::new(name.cloned().unwrap_or_default());
    command.args(arguments);
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    if geteuid().is_root() {
        command.env("LESSSECURE", "1");
    }
    if let Some(caller) = Owner::sudo_caller() {
        // It drops root's groups as well.
        command.gid(caller.gid).uid(caller.uid);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { lines: 4, columns: 10 };

    fn words(line: &str) -> Vec<OsString> {
        program(&[Some(line.into())]).expect("a pager")
    }

    /// The part of `text` that is shown directly, and the part that the pager got.
    fn shown(text: &[u8]) -> (String, Option<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("paged");
        let mut out = Vec::new();
        let mut pager = Pager::new(&mut out, words(&format!("cat > {}", file.display())), ROOM);
        for piece in text.chunks(3) {
            pager.write_all(piece).expect("it takes all");
        }
        drop(pager);
        let paged = std::fs::read_to_string(file).ok();
        (String::from_utf8(out).expect("text"), paged)
    }

    #[test]
    fn what_fits_on_the_screen_goes_straight_to_the_terminal() {
        for text in ["", "a\nb\nc\n", "a\nb\nc\nd", "äöüäöüäöüä\nb\nc\n"] {
            assert_eq!(shown(text.as_bytes()), (text.to_owned(), None), "{text:?}");
        }
    }

    #[test]
    fn what_does_not_fit_goes_to_the_pager_from_its_beginning() {
        for text in ["a\nb\nc\nd\n", "1\n2\n3\n4\n5\n6\n7", "0123456789a\nb\nc\n"] {
            assert_eq!(shown(text.as_bytes()), (String::new(), Some(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn a_pager_that_is_not_there_changes_nothing() {
        let mut out = Vec::new();
        let mut pager = Pager::new(&mut out, words("/nowhere/a-pager"), ROOM);
        pager.write_all(b"a\nb\nc\nd\ne\n").expect("straight");
        pager.write_all(b"f\n").expect("straight");
        drop(pager);
        assert_eq!(out, b"a\nb\nc\nd\ne\nf\n");
    }

    #[test]
    fn who_leaves_the_pager_early_ends_the_output() {
        let mut pager = Pager::new(io::sink(), words("true"), ROOM);
        let line = [b'\n'; 4096];
        let error = (0..1000).find_map(|_| pager.write_all(&line).err()).expect("a closed pipe");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_pager() {
        let of = |own: Option<&str>, usual: Option<&str>| {
            program(&[own.map(OsString::from), usual.map(OsString::from)])
        };
        let some = |words: &[&str]| Some(words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(None, None), some(&["less", "-FRX"]));
        assert_eq!(of(None, Some("more")), some(&["more"]));
        assert_eq!(of(Some("most -s"), Some("more")), some(&["most", "-s"]));
        assert_eq!(of(Some("a | b"), None), some(&["/bin/sh", "-c", "a | b"]));
        assert_eq!(of(Some(""), Some("more")), None);
        assert_eq!(of(None, Some(" cat ")), None);
    }
}
