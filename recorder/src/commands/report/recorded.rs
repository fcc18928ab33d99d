//! The report of a recording that has just ended.
//!
//! A file is read again when it is complete: that costs nothing during the recording, the file is still in the page cache, and reading
//! takes a fraction of the recording time. It is read through the descriptor that it was written with, because COMMAND may have put another
//! file in its place. Output to a pipe cannot be read again. In that case, a separate thread analyses a copy of the records as the drain
//! thread writes them; if it falls behind, it gives up, so that neither the capture nor the output ever waits for it. All of this is done
//! only if needed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use fxt_reader::Reader;

use crate::report::analysis::analyse_alone;
use crate::report::spans::Room;
use crate::report::{self, Options, Report, Selection, spans};
use crate::sink::Sink;
use crate::sink::outfile::{FromStart, Hold};
use crate::sink::tee::{Copy, tee};

/// The longest trace that is read again only for the summary, in bytes of records.
const BRIEF_BYTES: u64 = 256 << 20;

/// The memory limit for strings and threads that programs register, in bytes. A long trace is analysed by two threads, each with this
/// limit.
const MAX_TABLE_BYTES: usize = 16 << 20;

/// The purpose of a report about a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    None,
    /// The summary, which is left out for a long trace.
    Brief,
    /// A verdict, which needs a report of a trace of any length.
    Verdict,
}

/// The source of the report.
#[derive(Debug)]
pub struct Source {
    purpose: Purpose,
    /// Whether the recorder's own threads count.
    recorder: bool,
    from: From,
}

#[derive(Debug)]
enum From {
    Nothing,
    File(PathBuf, Arc<Hold>),
    Copy(JoinHandle<Option<Report>>),
}

/// The reason why there is no report of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// No report was requested, or the output was a device.
    #[error("the output was not kept, so there is no report")]
    Nothing,
    /// The trace is long, and only the summary was requested.
    #[error("the trace is long: for waits and latencies, run fxtrec report {}", .0.display())]
    Long(PathBuf),
    /// The trace could not be read again.
    #[error("cannot read the trace again: {0}")]
    Unreadable(#[from] fxt_reader::Error),
    /// The analysis of a pipe fell behind, or the output failed.
    #[error(
        "the analysis is incomplete: the reader of the trace closed the pipe, or events came too fast to analyse"
    )]
    Incomplete,
}

/// The output that a report is about, as opened.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// Its name in messages.
    pub path: &'a Path,
    pub hold: Option<Arc<Hold>>,
    pub is_device: bool,
}

/// Prepares a report of the data that will be written to `sink`. Returns the sink to write to instead.
///
/// # Errors
/// Returns an error when no thread can be started.
pub fn prepare(
    sink: Box<dyn Sink>,
    output: &Output<'_>,
    purpose: Purpose,
    recorder: bool,
) -> io::Result<(Box<dyn Sink>, Source)> {
    let from = match &output.hold {
        _ if purpose == Purpose::None || output.is_device => From::Nothing,
        Some(hold) if hold.is_ours() => From::File(output.path.to_owned(), hold.clone()),
        _ => {
            let (tee, copy) = tee(sink);
            let thread = std::thread::Builder::new().name("fxtrec-report".to_owned());
            let thread = thread.spawn(move || analyse_copy(copy, recorder))?;
            return Ok((Box::new(tee), Source { purpose, recorder, from: From::Copy(thread) }));
        }
    };
    Ok((sink, Source { purpose, recorder, from }))
}

/// Reads the recording from its beginning.
///
/// # Errors
/// Returns an error when too many files are open.
pub fn read_again(path: &Path, hold: &Hold) -> Result<Reader<'static>, fxt_reader::Error> {
    let unreadable = |source| fxt_reader::Error::Open { path: path.to_owned(), source };
    let reader = Reader::from_file(hold.content().map_err(unreadable)?, FromStart::of);
    Ok(reader.max_table_bytes(MAX_TABLE_BYTES))
}

fn options(recorder: bool) -> Options {
    let selection = Selection { recorder, ..Selection::default() };
    Options { selection, ..Options::default() }
}

fn analyse_copy(mut copy: Copy, recorder: bool) -> Option<Report> {
    // While the machine is being recorded, one thread is enough.
    let reader = Reader::new(&mut copy).max_table_bytes(MAX_TABLE_BYTES);
    let report = analyse_alone(reader, options(recorder)).ok();
    report.filter(|_| copy.is_whole())
}

impl Source {
    /// The report, once the trace is complete. `record_bytes` is its uncompressed length.
    ///
    /// # Errors
    /// [`Missing`] is the reason why there is none.
    pub fn report(self, record_bytes: u64) -> Result<Report, Missing> {
        match self.from {
            From::Nothing => Err(Missing::Nothing),
            From::File(path, _) if self.purpose == Purpose::Brief && record_bytes > BRIEF_BYTES => {
                Err(Missing::Long(path))
            }
            From::File(path, hold) => {
                let open = || read_again(&path, &hold);
                let mut report = report::analyse(open()?, options(self.recorder))?;
                if report.has_app_spans {
                    let spans = Room::OF_RECORDER.collect(open()?)?;
                    report.worst_span = spans::worst(&spans, &report, |_| true);
                    report.too_many_spans = spans.too_many;
                }
                Ok(report)
            }
            From::Copy(thread) => thread.join().ok().flatten().ok_or(Missing::Incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scene::{Leaves, Scene};
    use crate::sink::{self, BlackHole, Compression, Opened, Target};

    fn trace() -> Vec<u8> {
        let mut scene = Scene::new();
        scene.wake(10, 0, 101);
        scene.switch(15, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::S, 0);
        scene.bytes().to_vec()
    }

    /// A new file in `folder` with this content, as a recording leaves it.
    fn recorded(folder: &Path, content: &[u8]) -> Opened {
        let target = Target::Path(folder.join("t.fxt"));
        let output = sink::Output { target, compression: Compression::None, named: false };
        let mut opened = sink::open(&output, None).expect("a file");
        opened.sink.write(content).expect("room");
        opened.sink.finish().expect("room");
        opened
    }

    fn prepared(opened: &Opened, purpose: Purpose) -> (Box<dyn Sink>, Source) {
        let (hold, is_device) = (opened.hold.clone(), opened.is_device);
        let output = Output { path: Path::new("t.fxt"), hold, is_device };
        prepare(Box::new(BlackHole::default()), &output, purpose, false).expect("a thread")
    }

    #[test]
    fn a_file_is_read_again_unless_it_is_too_long_for_the_purpose() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = recorded(folder.path(), &trace());
        let switches = |purpose, bytes| {
            prepared(&opened, purpose).1.report(bytes).map(|report| report.switches())
        };
        assert!(matches!(switches(Purpose::Brief, BRIEF_BYTES), Ok(2)));
        assert!(matches!(switches(Purpose::Brief, BRIEF_BYTES + 1), Err(Missing::Long(_))));
        assert!(matches!(switches(Purpose::Verdict, BRIEF_BYTES + 1), Ok(2)));
        assert!(matches!(switches(Purpose::None, 0), Err(Missing::Nothing)));
    }

    #[test]
    fn what_was_put_in_the_place_of_a_recording_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = recorded(folder.path(), &trace());
        let path = folder.path().join("t.fxt");
        let mut longer = Scene::new();
        for at in 1..20 {
            longer.switch(10 * at, 0, at % 2 * 101, Leaves::R, (at + 1) % 2 * 101);
        }
        std::fs::write(folder.path().join("good"), longer.bytes()).expect("room");
        std::fs::rename(folder.path().join("good"), &path).expect("the same folder");
        let switches = || prepared(&opened, Purpose::Verdict).1.report(0).map(|r| r.switches());
        assert!(matches!(switches(), Ok(2)));
        std::fs::remove_file(&path).expect("there");
        // Opening it would wait for a peer.
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert!(matches!(switches(), Ok(2)));
    }

    #[test]
    fn a_pipe_is_analysed_while_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let _reader = std::fs::File::options().read(true).write(true).open(&path).expect("a pipe");
        let target = Target::Path(path);
        let output = sink::Output { target, compression: Compression::None, named: true };
        let opened = sink::open(&output, None).expect("a reader is there");
        let (mut sink, source) = prepared(&opened, Purpose::Brief);
        sink.write(&trace()).expect("a black hole");
        sink.finish().expect("a black hole");
        assert_eq!(source.report(0).expect("it was read to its end").switches(), 2);
        let (sink, source) = prepared(&opened, Purpose::Brief);
        drop(sink);
        assert!(matches!(source.report(0), Err(Missing::Incomplete)));
    }

    #[test]
    fn a_device_keeps_nothing() {
        let target = Target::Path(PathBuf::from("/dev/null"));
        let output = sink::Output { target, compression: Compression::None, named: true };
        let opened = sink::open(&output, None).expect("a device");
        let (_, source) = prepared(&opened, Purpose::Brief);
        assert!(matches!(source.report(0), Err(Missing::Nothing)));
    }
}
