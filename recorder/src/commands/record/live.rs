//! The status line: one line on the terminal about the recording's progress.

use std::io;
use std::time::{Duration, Instant};

use super::round::Progress;
use crate::capture::stacks::Named;
use crate::cli;
use crate::kernel::terminal::{LiveLine, Terminal, stdout_is_terminal};
use crate::sink::drain::Written;
use crate::units::text::{bytes, count};

/// How often the line is redrawn.
pub(super) const REDRAW: Duration = Duration::from_millis(250);

const BAR: usize = 20;

/// The line and its state between redraws. It shows only figures.
#[derive(Debug)]
pub(super) struct Live {
    line: LiveLine,
    begun: Instant,
    drawn: Instant,
    events: u64,
}

impl Live {
    /// The line, if it is shown.
    ///
    /// The line would interleave with the output of a COMMAND on the terminal. So with a COMMAND it is drawn only if COMMAND's standard
    /// output is not a terminal, or on request.
    pub(super) fn new(when: cli::Progress, with_command: bool) -> Option<Live> {
        let terminal = Terminal::of_stderr();
        let wanted = match when {
            cli::Progress::Always => true,
            cli::Progress::Never => false,
            cli::Progress::Auto => terminal.can_redraw && !(with_command && stdout_is_terminal()),
        };
        let now = Instant::now();
        let line = LiveLine::new(terminal, REDRAW);
        wanted.then_some(Live { line, begun: now, drawn: now, events: 0 })
    }

    /// Draws the line if it is time to do so.
    pub(super) fn draw(&mut self, progress: &Progress, written: &Written) -> io::Result<()> {
        let now = Instant::now();
        if !self.line.is_due(now) {
            return Ok(());
        }
        let events = progress.events();
        let since = now.duration_since(self.drawn).as_secs_f64().max(0.001);
        let rate = (events - self.events) as f64 / since;
        (self.drawn, self.events) = (now, events);
        let line = format!(
            "{:.1} s  {} events/s  {} written  {} lost",
            now.duration_since(self.begun).as_secs_f64(),
            count(rate as u64),
            bytes(written.bytes()),
            count(progress.lost()),
        );
        self.line.draw(now, &line)
    }

    /// Draws the progress of naming functions if it is time to do so.
    pub(super) fn draw_naming(&mut self, named: &Named) -> io::Result<()> {
        let (done, all) = named.done();
        self.draw_part("names of functions", (done, all), "frames")
    }

    /// Draws how much of a task is done if it is time to do so.
    pub(super) fn draw_part(
        &mut self,
        what: &str,
        (done, all): (u64, u64),
        unit: &str,
    ) -> io::Result<()> {
        let now = Instant::now();
        if !self.line.is_due(now) || all == 0 {
            return Ok(());
        }
        let part = done.min(all) * BAR as u64 / all;
        let bar = "=".repeat(part as usize);
        let (done, all) = (count(done.min(all)), count(all));
        self.line.draw(now, format!("[{bar:BAR$}] {what}: {done} of {all} {unit}").trim_end())
    }

    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.line.clear()
    }
}
