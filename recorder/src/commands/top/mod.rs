//! `fxtrec top`: shows which threads wait for a CPU now, by counts in the kernel.
//!
//! The same programs count as for `fxtrec daemon --metrics`, by thread or by cgroup. The programs write no records, so this only has to
//! read a table once per interval.
//!
//! The screen is one table and a line below it, which fxtrec's own tables can show: a terminal crate would bring more code than this has.

mod screen;
mod table;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::live::{self, LiveError, groups::Groups, history::History};
use crate::cli::{TopArgs, TopBy, TopSort};
use crate::kernel::bpf::counts::{KeyBy, Missing, Row, SchedCounts};
use crate::kernel::cgroups::Hierarchy;
use crate::kernel::signals::Signals;
use crate::kernel::terminal::Terminal;
use crate::units::escape::Escaping;
use crate::units::fold::Fold;
use crate::units::look::Look;
use screen::Screen;
use table::Table;

/// Maximum number of threads and cgroups with their own figures between two updates.
const SLOTS: usize = 4096;

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(100);

/// The reason why `top` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("cannot read the counts: {0}")]
    Take(#[source] io::Error),
    #[error("cannot use the terminal: {0}")]
    Terminal(#[source] io::Error),
    #[error("cannot start the history (--history): {0}")]
    History(#[source] io::Error),
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
}

/// The content of the display, and its options.
#[derive(Clone, Debug)]
struct View {
    by: TopBy,
    sort: TopSort,
    filter: String,
    /// Whether a filter is being typed.
    typing: bool,
    paused: bool,
}

/// The data to show.
struct Shown {
    rows: Vec<Row>,
    during: Duration,
    missing: Missing,
    /// Whether stolen and throttled time is known.
    tells: (bool, bool),
}

/// Shows figures until asked to end.
///
/// Must be called before the process starts a second thread.
///
/// # Errors
/// Returns [`TopError`].
pub fn run(args: &TopArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), TopError> {
    let mut signals = Signals::catch_resizes_too().map_err(TopError::Terminal)?;
    let history = match args.history {
        true => Some(History::start(&args.output, &[]).map_err(TopError::History)?),
        false => None,
    };
    let (hierarchy, groups) = Groups::new(None);
    let mut top = Top {
        view: View {
            by: args.by,
            sort: args.sort,
            filter: args.filter.clone(),
            typing: false,
            paused: false,
        },
        counts: start(args.by, hierarchy)?,
        hierarchy,
        groups,
        interval: args.interval.duration().max(SHORTEST),
        since: Instant::now(),
        history,
        note: String::new(),
    };
    let terminal = Terminal::of_stdout();
    let result = match terminal.can_redraw && Screen::has_keyboard() {
        true => top.interactive(args, &mut signals),
        false => top.lines(args, &mut signals, terminal.look(), out),
    };
    if let Some(history) = top.history.take() {
        // The recorder writes them when it ends, for whatever reason.
        let text = match history.finish() {
            Ok(path) => format!("the last seconds are in {}", path.display()),
            Err(error) => format!("the last seconds were not written: {error}"),
        };
        // Standard error may be closed.
        let _ = writeln!(err, "fxtrec: {text}");
    }
    match result {
        // The reader has closed the output.
        Err(TopError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn start(by: TopBy, hierarchy: Hierarchy) -> Result<SchedCounts, LiveError> {
    let key = match by {
        TopBy::Thread => KeyBy::Thread,
        TopBy::Cgroup => KeyBy::Cgroup,
    };
    live::start(key, hierarchy, SLOTS)
}

struct Top {
    view: View,
    counts: SchedCounts,
    hierarchy: Hierarchy,
    groups: Groups,
    interval: Duration,
    since: Instant,
    history: Option<History>,
    /// The effect of the last key.
    note: String,
}

/// The result of a wait.
enum Woken {
    Time,
    Key,
    /// The terminal has a new size.
    Resize,
    End,
}

impl Top {
    fn take(&mut self) -> Result<Shown, TopError> {
        let rows = self.counts.take().map_err(TopError::Take)?;
        let during = std::mem::replace(&mut self.since, Instant::now()).elapsed();
        Ok(Shown {
            rows,
            during,
            missing: self.counts.missing(),
            tells: (self.counts.reports_steal(), self.counts.reports_throttles()),
        })
    }

    /// A table for each interval, for pipes and files.
    fn lines(
        &mut self,
        args: &TopArgs,
        signals: &mut Signals,
        look: Look,
        out: &mut dyn Write,
    ) -> Result<(), TopError> {
        let mut left = args.count;
        while left != Some(0) {
            let until = Instant::now() + self.interval;
            loop {
                match wait(signals, None, Some(until)).map_err(TopError::Terminal)? {
                    Woken::End => return Ok(()),
                    // A table in a pipe or file may have any width.
                    Woken::Resize => {}
                    Woken::Time | Woken::Key => break,
                }
            }
            let shown = self.take()?;
            let table = Table::of(&shown, &self.view, &mut self.groups);
            writeln!(out, "{}", table.headline(look.columns))?;
            table.write(args.rows, look, out)?;
            writeln!(out)?;
            out.flush()?;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    fn interactive(&mut self, args: &TopArgs, signals: &mut Signals) -> Result<(), TopError> {
        let mut screen = Screen::open().map_err(TopError::Terminal)?;
        let mut shown: Option<Shown> = None;
        let mut left = args.count;
        let mut due = Instant::now() + self.interval;
        while left != Some(0) {
            self.draw(&mut screen, shown.as_ref())?;
            let until = (!self.view.paused).then_some(due);
            match wait(signals, Some(screen.keyboard()), until).map_err(TopError::Terminal)? {
                Woken::End => return Ok(()),
                // The table is redrawn.
                Woken::Resize => {}
                Woken::Time => {
                    shown = Some(self.take()?);
                    due = Instant::now() + self.interval;
                    left = left.map(|left| left - 1);
                }
                Woken::Key => {
                    for key in screen.keys().map_err(TopError::Terminal)? {
                        if !self.press(key, &mut screen, signals)? {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self, screen: &mut Screen, shown: Option<&Shown>) -> Result<(), TopError> {
        let terminal = Terminal::of_stdout();
        let lines = terminal.lines().unwrap_or(24);
        let mut text = Vec::new();
        // Other users choose the names of threads and cgroups.
        let mut page = Escaping::coloured(&mut text, terminal.colour);
        match shown {
            None => {
                writeln!(page, "counting ...")?;
                if let Some(history) = &self.history {
                    let path = history.output().display();
                    writeln!(
                        page,
                        "keeping the last seconds; at the end they are written to {path}"
                    )?;
                }
            }
            Some(shown) => {
                let table = Table::of(shown, &self.view, &mut self.groups);
                writeln!(page, "{}", table.headline(terminal.look().columns))?;
                // Everything around the rows: the headline, the headings with their line, the rule below, and the line of keys.
                table.write(lines.saturating_sub(6), terminal.look(), &mut page)?;
            }
        }
        page.flush()?;
        drop(page);
        let status = self.status(terminal.look().columns.unwrap_or(80));
        screen.draw(&text, &status, lines, terminal.look().columns).map_err(TopError::Write)
    }

    /// The last line of the page.
    fn status(&self, columns: usize) -> String {
        if self.view.typing {
            return format!("filter: {}_", self.view.filter);
        }
        let space = if self.view.paused { "PAUSED" } else { "pause" };
        if !self.note.is_empty() {
            return if self.view.paused {
                format!("{space}  {}", self.note)
            } else {
                self.note.clone()
            };
        }
        keys(&self.view, self.history.is_some(), columns)
    }

    /// Whether to continue.
    fn press(
        &mut self,
        key: char,
        screen: &mut Screen,
        signals: &mut Signals,
    ) -> Result<bool, TopError> {
        const ESCAPE: char = '\u{1b}';
        self.note.clear();
        if self.view.typing {
            match key {
                '\r' | '\n' => self.view.typing = false,
                ESCAPE => (self.view.typing, self.view.filter) = (false, String::new()),
                '\u{7f}' | '\u{8}' => drop(self.view.filter.pop()),
                other if !other.is_control() => self.view.filter.push(other),
                _ => {}
            }
            return Ok(true);
        }
        match key {
            'q' => return Ok(false),
            'w' => self.view.sort = TopSort::Wait,
            'p' => self.view.sort = TopSort::P99,
            'm' => self.view.sort = TopSort::Max,
            'r' => self.view.sort = TopSort::Run,
            'b' => self.view.sort = TopSort::Blocked,
            's' => self.view.sort = TopSort::Stolen,
            't' => self.view.sort = TopSort::Throttled,
            '/' => self.view.typing = true,
            ' ' => self.view.paused = !self.view.paused,
            'g' => self.change()?,
            'd' => {
                self.note = self.dump().map_or_else(|why| why, |path| format!("written: {path}"));
            }
            'y' => {
                let (text, end) = self.explain().unwrap_or_else(|why| (why, KEY.to_owned()));
                // Until a key is pressed.
                let mut woken = Woken::Resize;
                while let Woken::Resize = woken {
                    let terminal = Terminal::of_stdout();
                    let size = (terminal.lines().unwrap_or(24), terminal.look().columns);
                    screen.page(&page(&text, &end, size)).map_err(TopError::Terminal)?;
                    woken =
                        wait(signals, Some(screen.keyboard()), None).map_err(TopError::Terminal)?;
                }
                screen.keys().map_err(TopError::Terminal)?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// Switches between threads and cgroups; counting restarts.
    fn change(&mut self) -> Result<(), TopError> {
        self.view.by = match self.view.by {
            TopBy::Thread => TopBy::Cgroup,
            TopBy::Cgroup => TopBy::Thread,
        };
        self.counts = start(self.view.by, self.hierarchy)?;
        self.since = Instant::now();
        self.note = "counting restarts".to_owned();
        Ok(())
    }

    fn dump(&mut self) -> Result<String, String> {
        let history = self.history.as_mut().ok_or("needs --history")?;
        let path = history.dump().map_err(|error| format!("not written: {error}"))?;
        Ok(path.display().to_string())
    }

    /// Explains the worst delay of the last seconds, and the text for the line below.
    fn explain(&mut self) -> Result<(String, String), String> {
        let path = self.dump()?;
        let mut text = Vec::new();
        let mut page = Escaping::new(&mut text);
        super::why::worst_of_others(path.as_ref(), &mut page).map_err(|error| error.to_string())?;
        page.flush().map_err(|error| error.to_string())?;
        drop(page);
        let end = format!("{KEY} The recording is {path}");
        Ok((String::from_utf8_lossy(&text).into_owned(), end))
    }
}

const KEY: &str = "Any key goes back.";

/// The part that fits on a page: the first lines of a text, and this line below.
fn page(text: &str, end: &str, (lines, columns): (usize, Option<usize>)) -> String {
    let mut folded = Vec::new();
    let mut fold = Fold::new(&mut folded, columns);
    // The first paragraph is a sentence that was wrapped for another width.
    let (sentence, rest) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
    let sentence = sentence.replace('\n', " ");
    let written = writeln!(fold, "{sentence}\n\n{rest}").and_then(|()| fold.flush());
    debug_assert!(written.is_ok(), "memory takes everything");
    drop(fold);
    let folded = String::from_utf8_lossy(&folded);
    let end: String = end.chars().take(columns.unwrap_or(usize::MAX)).collect();
    let shown = folded.trim_end().lines().take(lines.saturating_sub(2));
    shown.chain(["", &*end]).collect::<Vec<_>>().join("\n")
}

/// The keys, in one line; the filter gets the remaining space.
fn keys(view: &View, has_history: bool, columns: usize) -> String {
    let others = match view.by {
        TopBy::Thread => "cgroups",
        TopBy::Cgroup => "threads",
    };
    let space = if view.paused { "PAUSED" } else { "pause" };
    let of_history = if has_history { "d dump  y why" } else { "d y: --history" };
    let line = |filter: &str| {
        format!("q quit  w p m r b s t sort  space {space}  g {others}  / {filter}  {of_history}")
    };
    if view.filter.is_empty() {
        return line("filter");
    }
    // The last column stays free.
    let room = columns.saturating_sub(1 + line("").chars().count());
    let long = format!("filter: {}", view.filter);
    if long.chars().count() <= room {
        return line(&long);
    }
    let most = room.saturating_sub(2);
    let short: String = match view.filter.chars().count() <= most {
        true => view.filter.clone(),
        false => view.filter.chars().take(most.saturating_sub(2)).chain("..".chars()).collect(),
    };
    line(&format!("'{short}'"))
}

/// Waits for a key, the timeout, a new terminal size, or a signal that ends the program.
fn wait(
    signals: &mut Signals,
    keyboard: Option<BorrowedFd<'_>>,
    until: Option<Instant>,
) -> io::Result<Woken> {
    loop {
        while let Some(caught) = signals.read()? {
            let ends = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
            if ends.contains(&caught.signal) {
                return Ok(Woken::End);
            }
            if caught.signal == Signal::SIGWINCH {
                return Ok(Woken::Resize);
            }
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(Woken::Time);
        }
        let timeout = match left {
            // Rounded up: below a millisecond, the loop would spin.
            Some(left) => PollTimeout::try_from(left + Duration::from_millis(1)),
            None => Ok(PollTimeout::NONE),
        };
        let mut polled = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        polled.extend(keyboard.map(|keyboard| PollFd::new(keyboard, PollFlags::POLLIN)));
        match poll(&mut polled, timeout.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if polled.get(1).is_some_and(|keyboard| keyboard.any().unwrap_or(false)) {
            return Ok(Woken::Key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_keys_has_all_keys_whatever_else_it_says() {
        let line = |filter: &str, paused: bool| {
            let filter = filter.to_owned();
            let view =
                View { by: TopBy::Thread, sort: TopSort::Wait, filter, typing: false, paused };
            let alone = keys(&view, false, 80);
            assert!(alone.ends_with("  d y: --history") && alone.chars().count() < 80, "{alone}");
            keys(&view, true, 80)
        };
        for filter in ["", "audio", "a-long-name-of-a-thread", "\u{4e2d}\u{6587}\u{540d}\u{5b57}"] {
            for paused in [false, true] {
                let line = line(filter, paused);
                assert!(line.chars().count() < 80, "{line}");
                for key in ["q quit", "space ", "g cgroups", "/ ", "d dump", "y why"] {
                    assert!(line.contains(key), "{key} in {line}");
                }
            }
        }
        assert!(line("audio", true).contains("PAUSED  g cgroups  / 'audio'  d"));
        assert!(
            line("a-long-name", false).contains("/ 'a-long..'  d"),
            "{}",
            line("a-long-name", false)
        );
    }

    #[test]
    fn an_explanation_begins_with_its_sentence_and_fits_the_page() {
        let text =
            format!("{}\nwoke it.\n\nWhere it went:\n{}", "word ".repeat(19), "x\n".repeat(40));
        let page = page(&text, "Any key goes back. The recording is top.1.fxt", (24, Some(80)));
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines.len(), 24, "{page}");
        assert!(lines.iter().all(|line| line.len() <= 80), "{page}");
        assert!(lines[0].starts_with("word word") && lines[1].ends_with("woke it."), "{page}");
        assert_eq!((lines[2], lines[3]), ("", "Where it went:"));
        assert_eq!(lines[23], "Any key goes back. The recording is top.1.fxt");
    }
}
