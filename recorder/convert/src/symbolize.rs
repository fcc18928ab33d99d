//! Adds function names to stacks that were recorded on another machine, or without names.
//!
//! A trace has the path and the build id of each file with frames, and its mappings. A file is used only if its build id matches, because
//! the file at the recorded path may have been replaced since.
//!
//! ```text
//!   first pass     files and mappings, including those after the stacks, as in a part of a recording; existing names
//!   second pass    the addresses of each file without a name
//!   then           one file after the other: its build id, its symbols in pieces
//!   third pass     each record unchanged, each stack preceded by the names of its functions; rewritten blobs for Perfetto
//! ```
//!
//! Memory holds mappings, and each distinct address with its name: at most 512 Ki addresses and 16 MiB of names.

mod code;
mod files;
mod reader;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fxt_reader::{Error, Item, Reader, Record};
use fxt_writer::record::{Blob, BlobType, UserspaceObject};
use fxt_writer::{Arg, Text, ThreadName, Value, WriteError, text};
use fxtrec_capture::stacks::perfetto::{self, Renamer};
use fxtrec_kernel::progress::Progress;
use fxtrec_kernel::worker::Start;
use fxtrec_sched::backtrace::NAME_MODULE;

use super::error::ConvertError;
use super::report::Report;
use super::traces;
use code::{Code, KERNEL, Process};
use files::Files;
#[cfg(test)]
pub(crate) use reader::in_this_process;
pub use reader::serve;

/// Where to look for files, in addition to the recorded paths and `/usr/lib/debug`.
#[derive(Clone, Debug)]
pub struct Where {
    /// Directories with the same layout as `/usr/lib/debug`.
    pub debug_folders: Vec<PathBuf>,
    /// A kernel image with symbols.
    pub vmlinux: Option<PathBuf>,
    /// The time limit for all files together.
    pub time: Duration,
    /// Whether to show the progress in a line on standard error, if that is a terminal.
    pub show_progress: bool,
    /// Starts a process that calls [`serve`].
    pub start: Start,
}

/// Gets debug files that are not on this machine.
pub trait Fetch {
    /// Where they are stored, with the layout of `/usr/lib/debug`.
    fn folder(&self) -> &Path;

    /// Gets the debug file of a build; returns whether it exists now but did not before.
    fn fetch(&mut self, id: &[u8]) -> bool;

    /// The results, counted by file.
    fn tell(&self) -> Vec<(&'static str, u64)>;
}

/// Bytes to collect before they are written.
const PIECE_BYTES: usize = 64 * 1024;

/// Writes the trace at `path` to `out`, and adds the function names of its stacks that can be found or for which `fetch` gets files.
///
/// # Errors
/// Returns an error if the trace cannot be read, has no stacks, or the output cannot be written.
pub fn symbolize(
    path: &Path,
    places: &Where,
    fetch: Option<&mut dyn Fetch>,
    out: &mut dyn Write,
) -> Result<Report, ConvertError> {
    let mut code = Code::default();
    let mut has_stacks = false;
    each(path, places, |item| {
        has_stacks |= matches!(item.record, Record::Backtrace(_));
        code.learn(item.provider, &item.record);
        Ok(())
    })?;
    if !has_stacks {
        return Err(ConvertError::NoStacks { path: path.to_owned() });
    }
    let mut renamer = Renamer::default();
    each(path, places, |item| {
        code.follow(item.provider, &item.record);
        match &item.record {
            Record::Backtrace(stack) => {
                let process = (item.provider, stack.thread.process);
                code.want(process, stack.frames.iter());
            }
            Record::Blob(blob) if blob.name == perfetto::BLOB => {
                renamer.rename(blob.payload, |place| {
                    code.want_place(&place);
                    None
                });
            }
            _ => {}
        }
        Ok(())
    })?;
    let mut report = Report::default();
    let mut files = Files::new(places, fetch);
    code.name_all(|file, addresses, take| files.look(file, addresses, take));
    files.tell(&mut report);
    code.tell(&mut report);
    let mut writer = Named { code, renamer: Renamer::default(), bytes: Vec::new(), out, named: 0 };
    let damaged = each(path, places, |item| {
        report.read += 1;
        writer.take(item)
    })?;
    writer.flush()?;
    report.add("functions named", writer.named);
    report.add("damaged records, skipped", damaged);
    Ok(report)
}

/// Passes each record of the trace to `take`. Returns the number of damaged records.
fn each(
    path: &Path,
    places: &Where,
    mut take: impl FnMut(&Item<'_>) -> Result<(), ConvertError>,
) -> Result<u64, ConvertError> {
    let open = |source| ConvertError::Open { path: path.to_owned(), source };
    let file = traces::open(path).map_err(open)?;
    let progress = match places.show_progress {
        true => Progress::shown(file.metadata().ok().map(|it| it.len())),
        false => Progress::hidden(),
    };
    let mut reader = Reader::from_file(file, |file| progress.of(file));
    let mut damaged = 0;
    loop {
        match reader.next() {
            Ok(Some(item)) => take(&item)?,
            Ok(None) => break,
            Err(Error::Damaged(_)) => damaged += 1,
            Err(error) => return Err(error.into()),
        }
    }
    progress.finish();
    Ok(damaged)
}

/// The new trace.
struct Named<'o> {
    code: Code,
    renamer: Renamer,
    /// Bytes that are not written yet.
    bytes: Vec<u8>,
    out: &'o mut dyn Write,
    named: u64,
}

impl Named<'_> {
    fn take(&mut self, item: &Item<'_>) -> Result<(), ConvertError> {
        // Records are copied unchanged, so none may have another byte order.
        let first = item.raw.bytes().first_chunk().map(|&word| u64::from_le_bytes(word));
        if first != Some(item.raw.header()) {
            return Err(ConvertError::BigEndian);
        }
        self.code.follow(item.provider, &item.record);
        match &item.record {
            Record::Backtrace(stack) => {
                let process = (item.provider, stack.thread.process);
                for address in stack.frames.iter() {
                    self.name(process, address)?;
                }
                self.copy(item);
            }
            Record::Blob(blob) if blob.name == perfetto::BLOB => {
                let code = &self.code;
                let name =
                    |place: perfetto::FrameLocation<'_>| code.name_at(&place).map(str::to_owned);
                match self.renamer.rename(blob.payload, name) {
                    Some(blobs) => {
                        for payload in &blobs {
                            let name = Text::Inline(perfetto::BLOB);
                            let blob_type = BlobType::Perfetto;
                            self.put(&Blob { name, blob_type, payload })?;
                        }
                    }
                    None => self.copy(item),
                }
            }
            _ => self.copy(item),
        }
        if self.bytes.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the name of an address of a process, if it is known and not in the trace yet.
    fn name(&mut self, process: Process, address: u64) -> Result<(), ConvertError> {
        let Some((process, module, name)) = self.code.take_name(process, address) else {
            return Ok(());
        };
        let args = module.map(|id| [Arg::new(Text::Inline(NAME_MODULE), Value::uint(id.into()))]);
        let args = args.as_ref().map_or(&[][..], |args| &args[..]);
        let name = text::clean(name.as_bytes()).into_owned();
        let thread = ThreadName::Inline { process, thread: process };
        let name = Text::Inline(&name);
        self.put(&UserspaceObject { pointer: address, process: thread, name, args })?;
        self.named += 1;
        Ok(())
    }

    fn copy(&mut self, item: &Item<'_>) {
        self.bytes.extend_from_slice(item.raw.bytes());
    }

    fn put(&mut self, record: &impl fxt_writer::record::Record) -> Result<(), ConvertError> {
        match record.write(&mut self.bytes) {
            Ok(()) => Ok(()),
            Err(WriteError::Encode(error)) => Err(error.into()),
            Err(WriteError::Full(full)) => match full {},
        }
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        self.out.write_all(&self.bytes).map_err(ConvertError::Write)?;
        self.bytes.clear();
        Ok(())
    }
}

/// Whether an address is in the kernel: programs have addresses in the lower half.
const fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// The process whose mappings explain an address.
const fn explains(process: Process, address: u64) -> Process {
    if is_kernel(address) { (process.0, KERNEL) } else { process }
}
