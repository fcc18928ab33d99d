//! The report of a recording that was just made.
//!
//! A file is read again when it is complete: that costs nothing while the machine is recorded, the
//! file is in the page cache still, and a reader takes a fraction of the time that recording took.
//! What goes into a pipe cannot be read again. Then a thread of its own analyses a copy of the
//! records as the drain thread writes them; when it falls behind, it gives up, so that neither the
//! capture nor the output ever waits for it. Nothing of this is done unless somebody wants it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;

use fxt_reader::Reader;

use crate::report::analysis::analyse_alone;
use crate::report::{self, Options, Report};
use crate::sink::tee::{Copy, tee};
use crate::sink::{Sink, Target};

/// For the short form alone a longer trace is not read again, in bytes of records.
const BRIEF_BYTES: u64 = 256 << 20;

/// What a report of a recording is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    None,
    /// The short form, which a long trace may go without.
    Brief,
    /// A verdict, which needs it however long the trace is.
    Verdict,
}

/// What the report will be made of.
#[derive(Debug)]
pub struct Source {
    purpose: Purpose,
    from: From,
}

#[derive(Debug)]
enum From {
    Nothing,
    File(PathBuf),
    Copy(JoinHandle<Option<Report>>),
}

/// Why there is no report of a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// Nobody wanted one, or the output was a device.
    #[error("the output was not kept, so there is no report")]
    Nothing,
    /// The trace is long, and only the short form was wanted.
    #[error("the trace is long: for waits and latencies, run fxtrec report {}", .0.display())]
    Long(PathBuf),
    /// The trace could not be read again.
    #[error("cannot read the trace again: {0}")]
    Unreadable(#[from] fxt_reader::Error),
    /// The analysis of a pipe fell behind, or the output failed.
    #[error(
        "the analysis is incomplete: the reader of the trace closed it, or events came too fast to analyse"
    )]
    Incomplete,
}

/// Arranges for a report of what will be written to `sink`. The sink to write to instead is returned.
///
/// # Errors
/// When no thread can be made.
pub fn prepare(
    sink: Box<dyn Sink>,
    target: &Target,
    purpose: Purpose,
) -> io::Result<(Box<dyn Sink>, Source)> {
    use std::os::unix::fs::FileTypeExt;
    let path = match target {
        Target::Stdout => PathBuf::from("/proc/self/fd/1"),
        Target::Path(path) => path.clone(),
    };
    let kind = fs::metadata(&path).map(|metadata| metadata.file_type());
    let is_device = kind.as_ref().is_ok_and(FileTypeExt::is_char_device);
    let from = match target {
        _ if purpose == Purpose::None || is_device => From::Nothing,
        Target::Path(path) if kind.is_ok_and(|kind| kind.is_file()) => From::File(path.clone()),
        _ => {
            let (tee, copy) = tee(sink);
            let thread = std::thread::Builder::new().name("fxtrec-report".to_owned());
            let thread = thread.spawn(move || analyse_copy(copy))?;
            return Ok((Box::new(tee), Source { purpose, from: From::Copy(thread) }));
        }
    };
    Ok((sink, Source { purpose, from }))
}

fn analyse_copy(mut copy: Copy) -> Option<Report> {
    // While the machine is being recorded, one thread is enough.
    let report = analyse_alone(Reader::new(&mut copy), Options::default()).ok();
    report.filter(|_| copy.is_whole())
}

impl Source {
    /// The report, once the trace is complete. `record_bytes` is how long it is without compression.
    ///
    /// # Errors
    /// [`Missing`] says why there is none.
    pub fn report(self, record_bytes: u64) -> Result<Report, Missing> {
        match self.from {
            From::Nothing => Err(Missing::Nothing),
            From::File(path) if self.purpose == Purpose::Brief && record_bytes > BRIEF_BYTES => {
                Err(Missing::Long(path))
            }
            From::File(path) => Ok(report::analyse(Reader::open(path)?, Options::default())?),
            From::Copy(thread) => thread.join().ok().flatten().ok_or(Missing::Incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::scene::{Leaves, Scene};
    use crate::sink::{BlackHole, Memory};

    fn trace() -> Vec<u8> {
        let mut scene = Scene::new();
        scene.wake(10, 0, 101);
        scene.switch(15, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::S, 0);
        scene.bytes().to_vec()
    }

    #[test]
    fn a_file_is_read_again_unless_it_is_too_long_for_the_purpose() {
        let file = tempfile::NamedTempFile::new().expect("a place for a file");
        fs::write(file.path(), trace()).expect("room");
        let target = Target::Path(file.path().to_path_buf());
        let prepared =
            |purpose| prepare(Box::new(Memory::default()), &target, purpose).expect("no thread").1;
        let switches = |purpose, bytes| prepared(purpose).report(bytes).map(|r| r.switches());
        assert!(matches!(switches(Purpose::Brief, BRIEF_BYTES), Ok(2)));
        assert!(matches!(switches(Purpose::Brief, BRIEF_BYTES + 1), Err(Missing::Long(_))));
        assert!(matches!(switches(Purpose::Verdict, BRIEF_BYTES + 1), Ok(2)));
        assert!(matches!(switches(Purpose::None, 0), Err(Missing::Nothing)));
    }

    #[test]
    fn a_pipe_is_analysed_while_it_is_written() {
        let fifo = tempfile::tempdir().expect("a folder");
        let path = fifo.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let target = Target::Path(path);
        let start = || prepare(Box::new(BlackHole::default()), &target, Purpose::Brief);
        let (mut sink, source) = start().expect("a thread");
        sink.write(&trace()).expect("a black hole");
        sink.finish().expect("a black hole");
        assert_eq!(source.report(0).expect("it was read to its end").switches(), 2);
        let (sink, source) = start().expect("a thread");
        drop(sink);
        assert!(matches!(source.report(0), Err(Missing::Incomplete)));
    }

    #[test]
    fn a_device_keeps_nothing() {
        let target = Target::Path(PathBuf::from("/dev/null"));
        let prepared = prepare(Box::new(BlackHole::default()), &target, Purpose::Brief);
        assert!(matches!(prepared.expect("no thread").1.report(0), Err(Missing::Nothing)));
    }
}
