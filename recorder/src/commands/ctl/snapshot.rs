//! `fxtrec ctl snapshot`: writes the content of memory of the daemon's session, or of a running `fxtrec --mode circular`.

use std::io::Write;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use procfs::process::Process;
use serde::Serialize;

use super::file::TraceFile;
use super::{CtlError, connect, show};
use crate::cli::{Cli, Command, CtlCommon, CtlSnapshotArgs, Mode};
use crate::kernel::child::{open_pidfd, signal_process};
use crate::units::text::bytes;

/// The name of fxtrec's binary.
const PROGRAM: &str = "fxtrec";

#[derive(Debug, Serialize)]
struct Written<'a> {
    /// The file; null for standard output.
    output: Option<&'a Path>,
    /// The number of bytes written.
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Asked {
    /// The process that was asked.
    pid: u32,
    /// The output file of that process, next to which it writes the snapshot: `app.1.fxt` next to `app.fxt`.
    beside: PathBuf,
}

pub(super) fn snapshot(
    args: CtlSnapshotArgs,
    common: &CtlCommon,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), CtlError> {
    if let Some(pid) = args.pid {
        let asked = ask(pid)?;
        return Ok(show::answer(common.json, &asked, out, |asked, out| {
            writeln!(
                out,
                "process {} writes a snapshot next to {}",
                asked.pid,
                asked.beside.display()
            )
        })?);
    }
    let named = args.output.is_some();
    let path = args.output.unwrap_or_else(|| "snapshot.fxt".into());
    let mut client = connect(common)?;
    let file = TraceFile::create(&path, named, common)?;
    let snapped = match client.snapshot(file.descriptor()?) {
        Ok(bytes) => bytes,
        Err(error) => {
            file.discard();
            return Err(error.into());
        }
    };
    let written = Written { output: file.path(), bytes: snapped };
    let text = |written: &Written<'_>, out: &mut dyn Write| match written.output {
        Some(path) => writeln!(out, "{} written to {}", bytes(written.bytes), path.display()),
        None => writeln!(out, "{} written", bytes(written.bytes)),
    };
    // Standard output may carry the trace.
    let shown = match file.path() {
        Some(_) => show::answer(common.json, &written, out, text),
        None => show::answer(common.json, &written, err, text),
    };
    Ok(shown?)
}

/// Asks a running recorder for a snapshot, which it writes next to its own output.
pub(in crate::commands) fn snapshot_of(pid: u32) -> Result<(), CtlError> {
    ask(pid).map(drop)
}

/// SIGUSR2 would kill any other process, so this first checks that the process is a recorder; a pidfd ensures that the signal reaches the
/// same process.
fn ask(pid: u32) -> Result<Asked, CtlError> {
    let failed = |source: std::io::Error| match source.raw_os_error() {
        Some(libc::ESRCH) => CtlError::NoProcess(pid),
        _ => CtlError::Process { pid, source },
    };
    let raw = i32::try_from(pid).map_err(|_| CtlError::NoProcess(pid))?;
    let descriptor = open_pidfd(raw).map_err(failed)?;
    let beside = recorder_output(pid, raw)?;
    signal_process(&descriptor, Signal::SIGUSR2).map_err(failed)?;
    Ok(Asked { pid, beside })
}

/// The output of the process, if it is a recorder that writes snapshots.
fn recorder_output(pid: u32, raw: i32) -> Result<PathBuf, CtlError> {
    let failed = |source: procfs::ProcError| match source {
        procfs::ProcError::NotFound(_) => CtlError::NoProcess(pid),
        other => CtlError::Process { pid, source: std::io::Error::other(other) },
    };
    let no_recorder = |why: &str| CtlError::NoRecorder { pid, why: why.to_owned() };
    let process = Process::new(raw).map_err(failed)?;
    let executable = process.exe().map_err(failed)?;
    if !is_ours(&executable) {
        return Err(no_recorder(&format!("it runs {}", executable.display())));
    }
    let line = process.cmdline().map_err(failed)?;
    let Ok(Command::Record(args)) = Cli::parse_line(line) else {
        return Err(no_recorder("it is an fxtrec process that does not record"));
    };
    if args.mode != Mode::Circular {
        return Err(no_recorder(
            "it does not record with --mode circular, so it keeps no events in memory",
        ));
    }
    if args.output.as_deref() == Some(Path::new("-")) {
        return Err(no_recorder("its output is a pipe, and snapshots need an output file (-o)"));
    }
    // A recorder blocks its signals and reads them from a descriptor.
    let blocked = process.status().map_err(failed)?.sigblk;
    if blocked & signal_bit(Signal::SIGUSR2) == 0 {
        return Err(no_recorder("it does not handle SIGUSR2: it is just starting or ending"));
    }
    let directory = process.cwd().map_err(failed)?;
    Ok(directory.join(crate::commands::plan::output_path(&args)))
}

/// Whether this executable is fxtrec: this binary, or one that was replaced since.
fn is_ours(executable: &Path) -> bool {
    let name = executable.file_name().and_then(|name| name.to_str()).unwrap_or("");
    name.strip_suffix(" (deleted)").unwrap_or(name) == PROGRAM
}

/// The bit of a signal in the masks of `/proc/PID/status`, where signal 1 is bit 0.
fn signal_bit(signal: Signal) -> u64 {
    2_u64.pow((signal as i32).unsigned_abs() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_no_recorder_is_left_alone() {
        // SIGUSR2 would kill this test process.
        let error = ask(std::process::id()).expect_err("refused").to_string();
        assert!(error.contains("cannot write a snapshot: it runs /"), "{error}");
    }

    #[test]
    fn there_is_no_process_beyond_the_largest_id() {
        let error = ask(4_194_304).expect_err("refused").to_string();
        assert_eq!(error, "process 4194304 does not exist");
    }

    #[test]
    fn a_binary_that_was_replaced_is_still_ours() {
        assert!(is_ours(Path::new("/usr/bin/fxtrec")));
        assert!(is_ours(Path::new("/usr/bin/fxtrec (deleted)")));
        assert!(!is_ours(Path::new("/usr/bin/fxtrecorder")));
    }

    #[test]
    fn signals_have_the_bits_of_the_kernel() {
        assert_eq!(signal_bit(Signal::SIGHUP), 1);
        assert_eq!(signal_bit(Signal::SIGUSR2), 0x800);
    }
}
