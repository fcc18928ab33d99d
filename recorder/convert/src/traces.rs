//! Traces that commands read: what another recorder wrote is converted to a temporary file first.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write, stderr, stdin};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fxtrec_kernel::terminal::Terminal;
use fxtrec_units::escape::Escaping;
use fxtrec_units::text::counted;

use super::{Format, Input, Options};

/// Bytes of standard input that tell its format, where they come at once.
const FIRST_BYTES: usize = 64 * 1024;

/// At most this many converted traces are kept.
const MOST_KEPT: usize = 16;

/// Converted traces by path. Commands open a trace several times, and a conversion may take seconds.
static CONVERTED: Mutex<Vec<(PathBuf, Arc<File>)>> = Mutex::new(Vec::new());

/// Opens the trace at `path`, which may be one that another recorder wrote.
///
/// # Errors
/// When the file cannot be opened, or not be converted.
pub fn open(path: &Path) -> io::Result<File> {
    let kept = || CONVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    let find = |(known, file): &(PathBuf, Arc<File>)| (known == path).then(|| Arc::clone(file));
    let known = kept().iter().find_map(find);
    if let Some(file) = known {
        return again(&file);
    }
    let file = File::open(path)?;
    let mut first = [0; 8];
    let may_be_foreign = file.metadata().is_ok_and(|facts| facts.is_file())
        && file.read_exact_at(&mut first, 0).is_ok()
        && Format::of_content(&first) != Some(Format::Fxt);
    if !may_be_foreign {
        return Ok(file);
    }
    let mut input = Input::open(path, true).map_err(io::Error::other)?;
    let Some(from) = foreign(&mut input) else { return Ok(file) };
    let converted = convert(&mut input, from)?;
    let opened = again(&converted)?;
    let mut kept = kept();
    if kept.len() >= MOST_KEPT {
        kept.remove(0);
    }
    kept.push((path.to_owned(), Arc::new(converted)));
    Ok(opened)
}

/// The same file with a position of its own.
fn again(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The trace on standard input, as [`open`] opens a file.
///
/// # Errors
/// When it cannot be read, or not be converted.
pub fn from_stdin() -> io::Result<Box<dyn Read + Send>> {
    let mut source = BufReader::with_capacity(FIRST_BYTES, stdin());
    // What is compressed is looked into, and stays compressed if it is FXT: its reader takes what there is of a truncated stream.
    let mut first = Input::from_bytes(source.fill_buf()?.to_vec());
    let Some(from) = first.as_mut().ok().and_then(foreign) else { return Ok(Box::new(source)) };
    let input = Input::of_source(Path::new("-"), true, Box::new(source), None);
    let mut converted = convert(&mut input.map_err(io::Error::other)?, from)?;
    converted.rewind()?;
    Ok(Box::new(converted))
}

/// The other recorder's format that it is in, if it is.
fn foreign(input: &mut Input) -> Option<Format> {
    input.format().ok().filter(|format| format.is_imported())
}

/// Makes FXT of what another recorder wrote, and says so on standard error.
fn convert(input: &mut Input, from: Format) -> io::Result<File> {
    let mut output = tempfile::tempfile()?;
    let converted = super::convert(input, from, &mut output, Format::Fxt, Options::default());
    input.finish();
    let report = converted.map_err(io::Error::other)?;
    let (name, count) = (input.path().display(), counted(report.read, "event", "events"));
    // Without standard error there is nobody to tell.
    let _ = write!(
        Escaping::coloured(stderr(), Terminal::of_stderr().colour),
        "fxtrec: {name}: {from}, {count} read\n{report}"
    );
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_converted_is_converted_once_and_read_from_its_beginning_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).expect("room");
            path
        };
        let read = |path: &Path| {
            let mut content = Vec::new();
            open(path).and_then(|mut file| file.read_to_end(&mut content)).expect("there");
            content
        };
        let magic = 0x0016_5478_4604_0010_u64.to_le_bytes();
        let other = path("a", b"# tracer: nop\n");
        let converted = read(&other);
        assert!(converted.starts_with(&magic), "{converted:?}");
        // It is not looked at again.
        std::fs::write(&other, "changed since").expect("room");
        assert_eq!(read(&other), converted);
        let own = [&magic[..], b"rest"].concat();
        assert_eq!(read(&path("b", &own)), own);
        assert_eq!(read(&path("c", b"short")), b"short");
        assert_eq!(read(&path("d", b"something else")), b"something else");
        assert!(open(&folder.path().join("none")).is_err());
    }
}
