//! Traces for commands: traces of other recorders are first converted to a temporary file, and input from a pipe is copied to one if it is
//! read more than once.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write, stderr, stdin};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fxtrec_kernel::terminal::Terminal;
use fxtrec_units::escape::Escaping;
use fxtrec_units::text::counted;

use super::{Format, Input, Options, spool};

/// The maximum number of converted files that are kept.
const MOST_KEPT: usize = 16;

/// A trace in a temporary file, which is opened instead of its path.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    file: Arc<File>,
    /// Whether it was read from a pipe, which cannot be read again.
    of_pipe: bool,
}

/// Commands open a trace several times, and a conversion may take seconds.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find(path: &Path) -> Option<Arc<File>> {
    kept().iter().find(|known| known.path == path).map(|known| Arc::clone(&known.file))
}

fn keep_file(path: &Path, file: File, of_pipe: bool) {
    let mut kept = kept();
    let others = kept.iter().filter(|known| !known.of_pipe).count();
    if let Some(at) = kept.iter().position(|known| !known.of_pipe)
        && others >= MOST_KEPT
    {
        kept.remove(at);
    }
    kept.push(Kept { path: path.to_owned(), file: Arc::new(file), of_pipe });
}

/// Makes sure that a trace can be opened several times: input from a pipe, or from standard input for `-`, is copied to a temporary file.
///
/// # Errors
/// Returns an error if it cannot be read or converted, or the file cannot be written.
pub fn keep(path: &Path) -> io::Result<()> {
    if can_be_read_again(path) || path.is_dir() {
        return Ok(());
    }
    let pipe: Box<dyn Read + Send> = match path == Path::new("-") {
        true => Box::new(stdin()),
        false => Box::new(File::open(path)?),
    };
    let file = match from_pipe(path, pipe)? {
        FromPipe::Converted(file) => file,
        FromPipe::AsItIs(mut content) => spool::copy(&mut content)?,
    };
    keep_file(path, file, true);
    Ok(())
}

/// Whether a trace can be opened several times: files can, and so can whatever [`keep`] has kept.
pub fn can_be_read_again(path: &Path) -> bool {
    path != Path::new("-") && path.is_file() || find(path).is_some()
}

/// Opens the trace at `path`, which may be from another recorder.
///
/// # Errors
/// Returns an error if the file cannot be opened or converted.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(file) = find(path) {
        return again(&file);
    }
    let file = File::open(path)?;
    let facts = file.metadata()?;
    let is_file = facts.is_file();
    let converted = if is_file {
        let mut first = [0; 8];
        let may_be_foreign = file.read_exact_at(&mut first, 0).is_ok()
            && Format::of_content(&first) != Some(Format::Fxt);
        if !may_be_foreign {
            return Ok(file);
        }
        let mut input = Input::open(path, true).map_err(io::Error::other)?;
        let Some(from) = foreign(&mut input) else { return Ok(file) };
        convert(&mut input, from)?
    } else if facts.is_dir() {
        return Ok(file);
    } else {
        match from_pipe(path, Box::new(file))? {
            FromPipe::Converted(file) => file,
            FromPipe::AsItIs(content) => return piped(content),
        }
    };
    let opened = again(&converted)?;
    keep_file(path, converted, !is_file);
    Ok(opened)
}

/// Opens the file again, with a separate file position.
fn again(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A pipe with this content, for callers that need a file. Bytes that were read for detection cannot be put back into the original pipe.
fn piped(mut content: Box<dyn Read + Send>) -> io::Result<File> {
    let (reader, mut writer) = io::pipe()?;
    // It ends with the content, or when the reader is closed. After an error the content ends early, as with a broken pipe.
    std::thread::Builder::new().spawn(move || io::copy(&mut content, &mut writer))?;
    Ok(OwnedFd::from(reader).into())
}

/// The trace on standard input; see [`open`].
///
/// # Errors
/// Returns an error if it cannot be read or converted.
pub fn from_stdin() -> io::Result<Box<dyn Read + Send>> {
    let path = Path::new("-");
    if let Some(file) = find(path) {
        return Ok(Box::new(again(&file)?));
    }
    Ok(match from_pipe(path, Box::new(stdin()))? {
        FromPipe::Converted(mut file) => {
            file.rewind()?;
            Box::new(file)
        }
        FromPipe::AsItIs(content) => content,
    })
}

/// The trace in a pipe.
enum FromPipe {
    Converted(File),
    /// FXT, or an unknown format.
    AsItIs(Box<dyn Read + Send>),
}

fn from_pipe(path: &Path, pipe: Box<dyn Read + Send>) -> io::Result<FromPipe> {
    let source = Source(Arc::new(Mutex::new(Pipe { pipe, looked_at: Some(Vec::new()) })));
    let mut input = Input::of_source(path, true, Box::new(source.clone()), None);
    let from = input.as_mut().ok().and_then(foreign);
    let looked_at = source.parts().looked_at.take().unwrap_or_default();
    if let (Ok(mut input), Some(from)) = (input, from) {
        drop(looked_at);
        return Ok(FromPipe::Converted(convert(&mut input, from)?));
    }
    // FXT stays compressed: its reader can read truncated streams.
    Ok(FromPipe::AsItIs(Box::new(Cursor::new(looked_at).chain(source))))
}

/// A pipe, and the bytes read from it as long as they may be needed again.
struct Pipe {
    pipe: Box<dyn Read + Send>,
    looked_at: Option<Vec<u8>>,
}

#[derive(Clone)]
struct Source(Arc<Mutex<Pipe>>);

impl Source {
    fn parts(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Pipe { pipe, looked_at } = &mut *self.parts();
        let read = pipe.read(buffer)?;
        if let Some(kept) = looked_at {
            kept.extend_from_slice(&buffer[..read]);
        }
        Ok(read)
    }
}

/// The format, if it is the format of another recorder.
fn foreign(input: &mut Input) -> Option<Format> {
    input.format().ok().filter(|format| format.is_imported())
}

/// Converts a trace of another recorder to FXT, and reports that on standard error.
fn convert(input: &mut Input, from: Format) -> io::Result<File> {
    let mut output = tempfile::tempfile()?;
    let converted = super::convert(input, from, &mut output, Format::Fxt, Options::default());
    input.finish();
    let report = converted.map_err(io::Error::other)?;
    let (name, count) = (input.path().display(), counted(report.read, "event", "events"));
    // Without standard error, the message is lost.
    let _ = write!(
        Escaping::coloured(stderr(), Terminal::of_stderr().colour),
        "fxtrec: {name}: {from}, {count} read\n{report}"
    );
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    /// Yields one byte at a time.
    struct Bytewise(Cursor<Vec<u8>>);

    impl Read for Bytewise {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let one = buffer.len().min(1);
            self.0.read(&mut buffer[..one])
        }
    }

    /// A pipe that stays open without any data after its first bytes.
    struct Open(Cursor<Vec<u8>>);

    impl Read for Open {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => panic!("it waits for more"),
                read => Ok(read),
            }
        }
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(content).expect("memory");
        packer.finish().expect("memory")
    }

    #[test]
    fn a_pipe_has_its_format_in_whatever_pieces_it_comes() {
        // Packets of a Perfetto trace: the first has 300 bytes, the second has the name of a process.
        let uuid = [&[0xca, 0x05, 0xa9, 0x02][..], &[b'x'; 297]].concat();
        let tree = [18, 10, 10, 8, 8, 7, 26, 4, b's', b'h', b'o', b'p'];
        let perfetto = [&[10, 0xad, 0x02][..], &uuid, &[10, 12], &tree].concat();
        let magic = 0x0016_5478_4604_0010_u64.to_le_bytes();
        let text = b"# tracer: nop\n";
        let opened = |pipe| match from_pipe(Path::new("-"), pipe).expect("memory") {
            FromPipe::Converted(file) => Box::new(again(&file).expect("there")),
            FromPipe::AsItIs(content) => content,
        };
        let read = |pipe: Box<dyn Read + Send>| {
            let mut content = Vec::new();
            opened(pipe).read_to_end(&mut content).expect("memory");
            content
        };
        for foreign in [&perfetto[..], text] {
            for packed in
                [foreign.to_vec(), gzip(foreign), zstd::encode_all(foreign, 1).expect("memory")]
            {
                let whole = read(Box::new(Cursor::new(packed.clone())));
                assert!(whole.starts_with(&magic), "{whole:?}");
                assert!(read(Box::new(Bytewise(Cursor::new(packed)))) == whole);
            }
        }
        // FXT, and unknown formats, are passed on unchanged.
        let fxt = [&magic[..], b"rest"].concat();
        let truncated = gzip(&fxt)[..20].to_vec();
        for own in [fxt.clone(), gzip(&fxt), truncated, b"?".to_vec(), Vec::new()] {
            assert_eq!(read(Box::new(Bytewise(Cursor::new(own.clone())))), own);
        }
        assert!(
            from_pipe(Path::new("-"), Box::new(Open(Cursor::new(fxt)))).is_ok(),
            "it is not waited for"
        );
    }

    #[test]
    fn a_pipe_with_a_path_is_converted_once_or_passed_on_as_it_is() {
        let magic = 0x0016_5478_4604_0010_u64.to_le_bytes();
        // More than a pipe can hold.
        let own = [&magic[..], &[7; 300_000]].concat();
        let read = |path: &Path| {
            let mut content = Vec::new();
            open(path).and_then(|mut file| file.read_to_end(&mut content)).expect("there");
            content
        };
        for content in [own, b"?".to_vec(), Vec::new(), b"# tracer: nop\n".to_vec()] {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
            let is_text = content.starts_with(b"#");
            let copy = content.clone();
            let writing = std::thread::spawn(move || writer.write_all(&copy));
            let found = read(&path);
            writing.join().expect("no panic").expect("it is read to its end");
            if is_text {
                assert!(found.starts_with(&magic), "{found:?}");
                assert_eq!(read(&path), found, "the pipe has no more");
            } else {
                assert!(found == content);
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_pipe_is_there_as_often_as_it_is_opened() {
        let magic = 0x0016_5478_4604_0010_u64.to_le_bytes();
        let own = [&magic[..], &[7; 300_000]].concat();
        let folder = tempfile::tempdir().expect("a folder");
        for content in [own, Vec::new(), b"# tracer: nop\n".to_vec()] {
            let (reader, mut writer) = io::pipe().expect("a pipe");
            // A unique name, since another pipe may get this number next.
            let path = folder.path().join(content.len().to_string());
            let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
            std::os::unix::fs::symlink(pipe, &path).expect("room");
            assert!(!can_be_read_again(&path));
            let is_own = !content.starts_with(b"#");
            let copy = content.clone();
            let writing = std::thread::spawn(move || writer.write_all(&copy));
            keep(&path).expect("room");
            writing.join().expect("no panic").expect("it is read to its end");
            assert!(can_be_read_again(&path));
            for _ in 0..2 {
                let mut found = Vec::new();
                open(&path).and_then(|mut file| file.read_to_end(&mut found)).expect("there");
                assert!(if is_own { found == content } else { found.starts_with(&magic) });
            }
        }
        assert!(keep(folder.path()).is_ok(), "whoever opens it says that it is a directory");
        assert!(keep(&folder.path().join("none")).is_err());
    }

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
        // The file is not read again.
        std::fs::write(&other, "changed since").expect("room");
        assert_eq!(read(&other), converted);
        let own = [&magic[..], b"rest"].concat();
        assert_eq!(read(&path("b", &own)), own);
        assert_eq!(read(&path("c", b"short")), b"short");
        assert_eq!(read(&path("d", b"something else")), b"something else");
        assert!(open(&folder.path().join("none")).is_err());
    }
}
