//! Requests about the files of recorded processes, and what happens if files never respond.
//!
//! Another process opens and reads the files: see [`Worker`], and [`super::reader`] for what it does. The recorder itself opens no such
//! file. It holds each by a descriptor that only identifies the file (`O_PATH`), and sends the descriptor along with a request.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fxtrec_kernel::code::ExecutableMapping;
use fxtrec_kernel::worker::{AnswerTimeout, Message, Start, Worker, Workers};

use super::python::layout::CodeLayout;
use super::python::objects::{self, Found};
use super::reader::{self, Described, Names};
use super::wire::{Ask, Packed};

/// How long to wait for a file.
const PATIENCE: AnswerTimeout =
    AnswerTimeout { idle: Duration::from_secs(2), most: Duration::from_secs(6) };

/// Maximum time to wait without success, for all files together; after that, no more files are read.
const MOST_LOST: Duration = Duration::from_secs(8);

/// The file did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silent;

/// The only access to files of recorded processes.
#[derive(Debug)]
pub(super) struct Files {
    workers: Workers,
    /// Files that did not answer.
    silent: u64,
    /// Counts the open maps: each contains a clone of this.
    pub(super) maps: Arc<()>,
}

impl Default for Files {
    fn default() -> Files {
        Files::started_by(|in_use| Worker::start(reader::NAME, in_use))
    }
}

impl Files {
    fn started_by(start: Start) -> Files {
        Files { workers: Workers::new(start, PATIENCE, MOST_LOST), silent: 0, maps: Arc::default() }
    }

    /// How many files did not respond.
    pub(super) fn silent(&self) -> u64 {
        self.silent
    }

    /// How many processes that earlier recordings abandoned hang, if files are not read for that reason.
    pub(super) fn left(&self) -> u64 {
        self.workers.left() as u64
    }

    /// Describes the file of a mapping, with unwind tables if they take at most `room` bytes.
    pub(super) fn describe(
        &mut self,
        pid: u32,
        mapping: &ExecutableMapping,
        room: usize,
    ) -> Result<Option<(Described, OwnedFd)>, Silent> {
        let (answer, file) = self.ask(&Ask::Describe { pid, mapping, room }, None)?;
        Ok(file.and_then(|file| Some((Described::read(&answer)?, file))))
    }

    /// Finds the functions of a file that contain these addresses; returns whether all were looked up. A file that is `kept` will be
    /// requested again soon.
    pub(super) fn names(
        &mut self,
        file: impl AsFd,
        names: &Names<'_>,
        take: impl FnMut(u64, String),
    ) -> Result<bool, Silent> {
        let (answer, _) = self.ask(&Ask::Name(names), Some(file.as_fd()))?;
        // A malformed answer contains no names.
        Ok(reader::each_name(&answer, take).unwrap_or(true))
    }

    /// Opens the perf map of a process, which names code that it compiled.
    pub(super) fn map(&mut self, pid: u32) -> Result<Option<OwnedFd>, Silent> {
        Ok(self.ask(&Ask::Map { pid }, None)?.1)
    }

    /// Finds the functions of such a map that contain these addresses: their start and end addresses, and names.
    pub(super) fn compiled(
        &mut self,
        map: impl AsFd,
        addresses: &[u64],
        take: impl FnMut(u64, u64, String),
    ) -> Result<(), Silent> {
        let (answer, _) = self.ask(&Ask::Compiled { addresses }, Some(map.as_fd()))?;
        let _ = reader::each_compiled(&answer, take);
        Ok(())
    }

    /// Opens the memory of a process, if it has this mapping.
    pub(super) fn memory(
        &mut self,
        pid: u32,
        mapping: &ExecutableMapping,
    ) -> Result<Option<OwnedFd>, Silent> {
        Ok(self.ask(&Ask::Memory { pid, mapping }, None)?.1)
    }

    /// Reads Python code objects in such memory: addresses, each with the mark of the object that was found at the address before.
    pub(super) fn python(
        &mut self,
        memory: impl AsFd,
        (code_type, layout): (u64, &CodeLayout),
        codes: &[u64],
    ) -> Result<Vec<Found>, Silent> {
        let ask = Ask::Python { code_type, layout, codes };
        let (answer, _) = self.ask(&ask, Some(memory.as_fd()))?;
        Ok(objects::each_found(&answer).collect())
    }

    fn ask(&mut self, ask: &Ask<'_>, file: Option<BorrowedFd<'_>>) -> Result<Message, Silent> {
        let answer = self.workers.ask(Packed::of(ask).bytes(), file);
        self.silent += u64::from(answer.is_none());
        answer.ok_or(Silent)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::os::unix::net::UnixStream;

    use fxtrec_kernel::code::executable_mappings;
    use fxtrec_kernel::worker::serve;

    use super::super::reader::Reader;
    use super::*;

    /// A worker that is a thread of this process.
    fn thread(_: u64) -> io::Result<Worker> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::spawn(move || {
            let mut reader = Reader::default();
            serve(&theirs, |question, file| reader.answer(question, file))
        });
        Ok(Worker::at(ours))
    }

    /// A worker that ends at the first request, as if by a damaged file.
    fn ending(_: u64) -> io::Result<Worker> {
        Ok(Worker::at(UnixStream::pair()?.0))
    }

    pub(in super::super) fn in_this_process() -> Files {
        Files::started_by(thread)
    }

    fn own_program() -> ExecutableMapping {
        let own = executable_mappings(std::process::id()).expect("its own");
        let exe = std::env::current_exe().expect("it has one");
        own.into_iter().find(|it| it.path == exe).expect("this test is in one")
    }

    #[test]
    fn a_file_describes_itself_and_names_its_functions() {
        let mut files = in_this_process();
        let (own, mapping) = (std::process::id(), own_program());
        let found = files.describe(own, &mapping, 64 << 20).expect("it answers");
        let (described, file) = found.expect("an ELF file");
        assert!(!described.segments.is_empty() && described.symbols > 0, "{described:?}");
        assert_eq!(described.rights.uid, nix::unistd::geteuid().as_raw());
        assert!(described.tables.is_some(), "Rust's programs have tables to unwind by");
        let segment = described.segments.iter().find(|it| it.executable).expect("it has code");
        let here = own_program as fn() -> ExecutableMapping as usize as u64;
        let address = here - mapping.start + mapping.offset - segment.offset + segment.address;
        for keep in [false, true] {
            let (path, rights) = (&mapping.path, &described.rights);
            let addresses = &[1, address, address + 1][..];
            let names = Names { image: 0, path, rights, keep, time: PATIENCE.most, addresses };
            let mut named = Vec::new();
            files.names(&file, &names, |at, name| named.push((at, name))).expect("answers");
            assert!(named.iter().any(|(at, _)| *at == address), "{named:?}");
            assert!(named.iter().all(|(_, name)| name.ends_with("own_program")), "{named:?}");
        }
        assert_eq!(files.silent(), 0);
    }

    #[test]
    fn files_that_do_not_answer_are_counted() {
        let mut files = Files::started_by(ending);
        for count in 1..4 {
            let found = files.describe(std::process::id(), &own_program(), 0);
            assert_eq!((found.map(drop), files.silent()), (Err(Silent), count));
        }
    }

    #[test]
    fn a_file_has_no_tables_where_there_is_no_room() {
        let mut files = in_this_process();
        let found = files.describe(std::process::id(), &own_program(), 0).expect("it answers");
        assert!(found.is_some_and(|(described, _)| described.tables.is_none()), "no room for them");
    }
}
