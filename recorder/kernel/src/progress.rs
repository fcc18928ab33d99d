//! Shows the progress of reading on the terminal: a bar for files, and the amount so far for pipes.
//!
//! ```text
//!   [===========>                  ]  38% 210.3 MiB/s, 4 s left
//!   | 1.2 GiB 190.0 MiB/s
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fxtrec_units::text::bytes;

use crate::terminal::{LiveLine, Terminal};

/// How often it is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Reading that is shorter than this shows no line.
const PATIENCE: Duration = Duration::from_secs(1);

const BAR: usize = 30;

/// Progress of reading, and the line that shows it. Without a line it does nothing. The line disappears with the last copy of this.
///
/// Any reading thread may update the count, and any thread may remove the line; afterwards nothing is drawn.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Mutex<Option<Meter>>>);

#[derive(Debug)]
struct Meter {
    line: LiveLine,
    begun: Instant,
    read: u64,
    /// How much there is to read, if known.
    length: Option<u64>,
    drawings: usize,
}

impl Progress {
    /// Progress that is not shown.
    pub fn hidden() -> Progress {
        Progress(Arc::default())
    }

    /// Progress on standard error, if that is a terminal.
    pub fn shown(length: Option<u64>) -> Progress {
        let terminal = Terminal::of_stderr();
        let line = LiveLine::new(terminal, REDRAW);
        let meter = Meter { line, begun: Instant::now(), read: 0, length, drawings: 0 };
        Progress(Arc::new(Mutex::new(terminal.can_redraw.then_some(meter))))
    }

    /// Counts the bytes that are read from `source`.
    pub fn of<R: Read>(&self, source: R) -> Counted<R> {
        Counted { source, progress: self.clone(), alone: false }
    }

    /// Starts again, for another pass over `length` bytes.
    pub fn restart(&self, length: u64) {
        if let Some(meter) = self.meter().as_mut() {
            (meter.begun, meter.read, meter.length) = (Instant::now(), 0, Some(length));
        }
    }

    /// Removes the line permanently.
    pub fn finish(&self) {
        drop(self.meter().take());
    }

    fn meter(&self) -> MutexGuard<'_, Option<Meter>> {
        // A thread that panicked has left valid data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that were read.
    pub fn add(&self, read: usize) {
        let mut meter = self.meter();
        let Some(meter) = meter.as_mut() else { return };
        meter.read += read as u64;
        let now = Instant::now();
        if now.duration_since(meter.begun) >= PATIENCE && meter.line.is_due(now) {
            let text = meter.text(now.duration_since(meter.begun));
            meter.drawings += 1;
            // If the terminal is gone, the line is gone too.
            let _ = meter.line.draw(now, &text);
        }
    }
}

impl Meter {
    fn text(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(0.001);
        let rate = self.read as f64 / seconds;
        let per_second = bytes(rate as u64);
        let Some(length) = self.length else {
            let spinner = ['|', '/', '-', '\\'][self.drawings % 4];
            return format!("{spinner} {} {per_second}/s", bytes(self.read));
        };
        // A growing file reaches its end more than once.
        let part = (self.read as f64 / length.max(1) as f64).min(1.0);
        let done = (part * BAR as f64) as usize;
        let head = if done < BAR { ">" } else { "" };
        let bar = "=".repeat(done) + head;
        let left = match rate > 0.0 {
            true => format!(", {:.0} s left", length.saturating_sub(self.read) as f64 / rate),
            false => String::new(),
        };
        format!("[{bar:BAR$}] {:>3.0}% {per_second}/s{left}", (part * 100.0).floor())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to clear.
        let _ = self.line.clear();
    }
}

/// A reader whose bytes are counted.
#[derive(Debug)]
pub struct Counted<R> {
    source: R,
    progress: Progress,
    /// Whether the line belongs to this source only, and ends with it.
    alone: bool,
}

/// Reads `file`; shows the progress on a line of its own on standard error, if that is a terminal and reading takes over a second.
pub fn watch(file: File) -> Counted<File> {
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|facts| facts.len());
    Counted { alone: true, ..Progress::shown(length).of(file) }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        match read {
            // The data that was read is about to be printed.
            0 if self.alone && !buffer.is_empty() => self.progress.finish(),
            _ => self.progress.add(read),
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn meter(length: Option<u64>) -> Progress {
        let line = LiveLine::new(Terminal::NONE, REDRAW);
        let meter = Meter { line, begun: Instant::now(), read: 0, length, drawings: 0 };
        Progress(Arc::new(Mutex::new(Some(meter))))
    }

    fn text(progress: &Progress, read: u64, seconds: u64) -> String {
        let mut meter = progress.meter();
        let meter = meter.as_mut().expect("it is shown");
        meter.read = read;
        meter.drawings += 1;
        meter.text(Duration::from_secs(seconds))
    }

    #[test]
    fn of_a_file_the_bar_says_how_much_how_fast_and_how_long_still() {
        let file = meter(Some(100 * MIB));
        let empty = format!("[>{}]   0% 0 B/s", " ".repeat(29));
        assert_eq!(text(&file, 0, 1), empty);
        let half = format!("[{}>{}]  50% 10.0 MiB/s, 5 s left", "=".repeat(15), " ".repeat(14));
        assert_eq!(text(&file, 50 * MIB, 5), half);
        let whole = format!("[{}] 100% 10.0 MiB/s, 0 s left", "=".repeat(30));
        assert_eq!(text(&file, 100 * MIB, 10), whole);
        assert!(text(&file, 300 * MIB, 10).contains("] 100% "), "it has grown");
    }

    #[test]
    fn of_a_pipe_there_is_what_came_so_far_and_something_that_moves() {
        let pipe = meter(None);
        assert_eq!(text(&pipe, 3 * MIB, 2), "/ 3.0 MiB 1.5 MiB/s");
        assert_eq!(text(&pipe, 4 * MIB, 2), "- 4.0 MiB 2.0 MiB/s");
    }

    #[test]
    fn what_is_read_comes_through_and_is_counted_until_the_end() {
        let progress = meter(None);
        let mut all = String::new();
        progress.of(&b"some bytes"[..]).read_to_string(&mut all).expect("memory");
        assert_eq!(all, "some bytes");
        assert_eq!(progress.meter().as_ref().map(|meter| meter.read), Some(10));
        progress.restart(40);
        progress.add(30);
        assert!(text(&progress, 30, 1).contains("]  75% 30 B/s, 0 s left"), "of the second pass");
        progress.finish();
        assert!(progress.meter().is_none());
        progress.add(10);
        assert!(Progress::hidden().meter().is_none());
        let mut alone = Counted { alone: true, ..meter(Some(1)).of(&b"x"[..]) };
        io::copy(&mut alone, &mut io::sink()).expect("memory");
        assert!(alone.progress.meter().is_none(), "it ends with what is read");
    }
}
