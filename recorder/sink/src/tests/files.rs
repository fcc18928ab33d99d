//! Real files, fifos and devices.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use tempfile::TempDir;

use super::super::*;
use super::{records, unpack, unpack_what_is_there};
use fxt_format::walk::whole_records;
use fxtrec_kernel::user::Owner;

fn output(path: &Path, compression: Compression) -> Output {
    Output { target: Target::Path(path.to_owned()), compression, named: true }
}

const ALL: [(Compression, &str); 3] = [
    (Compression::None, "t.fxt"),
    (Compression::Gzip, "t.fxt.gz"),
    (Compression::Zstd, "t.fxt.zst"),
];

#[test]
fn every_format_gives_back_what_was_written() {
    let dir = TempDir::new().unwrap();
    let piece = records(5000);
    for (compression, name) in ALL {
        let path = dir.path().join(name);
        let mut sink = open(&output(&path, compression), None).unwrap().sink;
        sink.write(&piece).unwrap();
        sink.flush_point().unwrap();
        sink.write(&piece).unwrap();
        let totals = sink.finish().unwrap();
        let content = fs::read(&path).unwrap();
        assert_eq!(unpack(compression, &content).unwrap(), piece.repeat(2), "{name}");
        assert_eq!(totals.record_bytes, 2 * piece.len() as u64);
        assert_eq!(totals.output_bytes, content.len() as u64);
    }
}

#[test]
fn a_zstd_file_can_be_read_with_a_window_that_fits_into_a_small_cache() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.fxt.zst");
    let mut sink = open(&output(&path, Compression::Zstd), None).unwrap().sink;
    let all = records(20_000);
    sink.write(&all).unwrap();
    sink.finish().unwrap();
    let packed = fs::read(&path).unwrap();
    let read = |window_log| {
        let mut decoder = zstd::stream::read::Decoder::new(&packed[..]).unwrap();
        decoder.window_log_max(window_log).unwrap();
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).map(|_| plain)
    };
    assert!(read(17).unwrap() == all);
    read(16).expect_err("it looks as far back as it may");
}

#[test]
fn an_empty_trace_is_a_valid_file_in_every_format() {
    let dir = TempDir::new().unwrap();
    for (compression, name) in ALL {
        let path = dir.path().join(name);
        open(&output(&path, compression), None).unwrap().sink.finish().unwrap();
        assert!(unpack(compression, &fs::read(&path).unwrap()).unwrap().is_empty(), "{name}");
    }
}

#[test]
fn after_a_flush_point_everything_can_be_read_though_the_sink_is_never_finished() {
    let dir = TempDir::new().unwrap();
    let piece = records(300);
    for (compression, name) in ALL {
        let path = dir.path().join(name);
        let mut sink = open(&output(&path, compression), None).unwrap().sink;
        sink.write(&piece).unwrap();
        sink.flush_point().unwrap();
        // Simulates SIGKILL: none of the sink's code runs after this.
        std::mem::forget(sink);
        assert_eq!(unpack_what_is_there(compression, &fs::read(&path).unwrap()), piece, "{name}");
    }
}

#[test]
fn an_earlier_file_is_kept_as_old_and_an_earlier_old_replaced() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.fxt");
    let old = dir.path().join("t.fxt.old");
    for (content, expected_old) in
        [("first", None), ("second", Some("first")), ("", Some("second"))]
    {
        let opened = open(&output(&path, Compression::None), None).unwrap();
        assert_eq!(opened.kept_old.as_deref(), expected_old.map(|_| old.as_path()));
        assert_eq!(fs::read_to_string(&old).ok().as_deref(), expected_old);
        assert_eq!(fs::read(&path).unwrap(), b"");
        fs::write(&path, content).unwrap();
    }
}

#[test]
fn a_symbolic_link_is_moved_aside_and_its_target_left_alone() {
    let dir = TempDir::new().unwrap();
    let (path, target) = (dir.path().join("t.fxt"), dir.path().join("precious"));
    fs::write(&target, "precious").unwrap();
    for target in [&target, &dir.path().join("dangling")] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        let opened = open(&output(&path, Compression::None), None).unwrap();
        assert!(opened.kept_old.is_some());
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(!dir.path().join("dangling").exists());
}

#[test]
fn what_cannot_be_created_is_named_and_the_earlier_file_stays() {
    let dir = TempDir::new().unwrap();
    let refused =
        |path: &Path| open(&output(path, Compression::None), None).unwrap_err().to_string();
    let text = refused(&dir.path().join("missing/t.fxt"));
    assert!(
        text.contains("missing/t.fxt: No such file or directory (create the directory"),
        "{text}"
    );
    let text = refused(dir.path());
    assert!(text.contains("Is a directory"), "{text}");

    let path = dir.path().join("t.fxt");
    fs::write(&path, "earlier").unwrap();
    fs::create_dir(dir.path().join("t.fxt.old")).unwrap();
    let text = refused(&path);
    assert!(text.contains("t.fxt.old"), "{text}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
}

#[test]
fn a_device_is_opened_as_it_is() {
    let path = Path::new("/dev/full");
    let opened = open(&output(path, Compression::None), None).unwrap();
    assert_eq!(opened.kept_old, None);
    let mut sink = opened.sink;
    let error = sink.write(&records(3)).unwrap_err();
    assert_eq!(
        error,
        SinkError::Write { name: "/dev/full".into(), source: OsError(libc::ENOSPC), saved: 0 }
    );
    assert!(!Path::new("/dev/full.old").exists());
    let mut sink = open(&output(Path::new("/dev/null"), Compression::Zstd), None).unwrap().sink;
    sink.write(&records(3)).unwrap();
    sink.finish().unwrap();
}

#[test]
fn a_fifo_without_a_reader_is_refused_and_what_a_reader_that_leaves_did_not_take_is_counted() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let to = output(&path, Compression::None);
    assert!(matches!(open(&to, None), Err(SinkError::NoReader { .. })));

    let reading = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut start = vec![0; 1000];
            fs::File::open(path).unwrap().read_exact(&mut start).unwrap();
            start
        }
    });
    let mut sink = loop {
        match open(&to, None) {
            Ok(opened) => break opened.sink,
            Err(SinkError::NoReader { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    // More than a pipe holds, so the sink has to wait for the reader, which then exits.
    let trace = records(100_000);
    let name = path.display().to_string();
    assert_eq!(sink.write(&trace), Err(SinkError::ReaderGone { name }));
    assert_eq!(reading.join().unwrap(), trace[..1000]);
    // Data that waited in the pipe is missing as well.
    let rest = &trace[whole_records(&trace, 1000)..];
    let mut missing = Unsaved { records: count_records(rest), bytes: rest.len() as u64 };
    assert_eq!(sink.unsaved(), missing);
    assert_eq!(sink.write(&trace), Err(SinkError::AlreadyFailed));
    missing.add(&trace);
    assert_eq!(sink.unsaved(), missing);
}

/// The report of a sink that writes `trace` to a pipe, and the data of its reader, which reads this many bytes, or all of them, and exits
/// before the end.
fn into_a_pipe(
    compression: Compression,
    trace: &[u8],
    taken: Option<usize>,
) -> (Result<Totals, SinkError>, Unsaved, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut options = fs::OpenOptions::new();
    let mut reader = options.read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    let mut sink = open(&output(&path, compression), None).unwrap().sink;
    let mut got = Vec::new();
    for piece in [&trace[..trace.len() / 2], &trace[trace.len() / 2..]] {
        sink.write(piece).unwrap();
        sink.flush_point().unwrap();
    }
    match taken {
        Some(bytes) => {
            got.resize(bytes, 0);
            reader.read_exact(&mut got).unwrap();
        }
        // To a reader that does not wait, an empty pipe is an error.
        None => drop(reader.read_to_end(&mut got)),
    }
    drop(reader);
    let finished = sink.finish();
    (finished, sink.unsaved(), got)
}

#[test]
fn a_reader_that_has_taken_every_record_may_leave_before_the_end() {
    let trace = records(1000);
    let (finished, unsaved, got) = into_a_pipe(Compression::None, &trace, None);
    assert!(finished.is_ok(), "{finished:?}");
    assert_eq!((unsaved, got), (Unsaved::default(), trace));
}

#[test]
fn what_is_left_in_a_pipe_without_a_reader_is_missing() {
    // Pieces of whole records.
    let trace = records(1000).repeat(2);
    for (compression, _) in ALL {
        let (finished, unsaved, got) = into_a_pipe(compression, &trace, Some(3000));
        assert!(matches!(finished, Err(SinkError::ReaderGone { .. })), "{finished:?}");
        let saved = trace.len() - unsaved.bytes as usize;
        let readable = unpack_what_is_there(compression, &got);
        assert!(trace.starts_with(&readable[..saved]), "{compression:?}");
        assert_eq!(unsaved.records, count_records(&trace[saved..]), "{compression:?}");
        assert!(saved > 0 || compression != Compression::None);
    }
}

#[test]
fn a_new_file_belongs_to_the_given_owner_and_a_refusal_is_reported() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.fxt");
    let owner = Owner { uid: 65_534, gid: 65_534 };
    let opened = open(&output(&path, Compression::None), Some(owner)).unwrap();
    let file = fs::metadata(&path).unwrap();
    if nix::unistd::geteuid().is_root() {
        assert!(opened.owner_error.is_none());
        assert_eq!((file.uid(), file.gid()), (owner.uid, owner.gid));
    } else {
        assert_eq!(opened.owner_error.unwrap().raw_os_error(), Some(libc::EPERM));
        assert_eq!(file.uid(), nix::unistd::geteuid().as_raw());
    }
}

#[test]
fn memory_keeps_the_trace_and_the_black_hole_counts_it() {
    let memory = Memory::default();
    let mut sink: Box<dyn Sink> = Box::new(memory.clone());
    sink.write(&records(3)).unwrap();
    sink.flush_point().unwrap();
    let bytes = records(3).len() as u64;
    assert_eq!(sink.finish(), Ok(Totals { record_bytes: bytes, output_bytes: bytes }));
    assert_eq!(memory.bytes(), records(3));

    let mut sink: Box<dyn Sink> = Box::new(BlackHole::default());
    sink.write(&records(3)).unwrap();
    assert_eq!(sink.finish(), Ok(Totals { record_bytes: bytes, output_bytes: 0 }));
}
