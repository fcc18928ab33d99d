//! Many traces: finds them in directories, and processes them on all CPUs.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

/// The endings of trace files in directories. A file that is named on the command line may have any ending.
const ENDINGS: [&str; 9] = [
    ".fxt",
    ".fxt.gz",
    ".fxt.zst",
    ".pftrace",
    ".pftrace.gz",
    ".pftrace.zst",
    ".perfetto-trace",
    ".perfetto-trace.gz",
    ".perfetto-trace.zst",
];

/// The deepest nesting of directories.
const DEPTH: usize = 32;

/// A path has no traces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManyError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: no trace in this directory: names of traces end in .fxt, .pftrace or .perfetto-trace, also with .gz or .zst", .0.display())]
    Nothing(PathBuf),
}

/// The traces at the given paths: files, and all traces in directories, in the order of their names. Links in a directory
/// are followed to files, not to directories.
///
/// # Errors
/// Returns an error when a directory cannot be read, or has no trace.
pub fn expand(named: &[PathBuf]) -> Result<Vec<PathBuf>, ManyError> {
    let mut traces = Vec::new();
    for path in named {
        if !path.is_dir() {
            traces.push(path.clone());
            continue;
        }
        let before = traces.len();
        let mut folders = VecDeque::from([(path.clone(), 0)]);
        while let Some((folder, depth)) = folders.pop_front() {
            let failed = |source| ManyError::Read { path: folder.clone(), source };
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let inside = entry.path();
                let is_folder = entry.file_type().map_err(failed)?.is_dir();
                let is_named = || {
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    ENDINGS.iter().any(|ending| name.ends_with(ending))
                };
                if is_folder && depth < DEPTH {
                    folders.push_back((inside, depth + 1));
                } else if !is_folder && is_named() && inside.is_file() {
                    traces.push(inside);
                }
            }
        }
        traces[before..].sort_unstable();
        if traces.len() == before {
            return Err(ManyError::Nothing(path.clone()));
        }
    }
    Ok(traces)
}

/// Runs `work` on all traces, on all CPUs, and passes each result with the trace's number to `take` in this thread, in order of completion.
/// Only a few results are held at a time, so memory does not grow with the number of traces.
///
/// # Errors
/// Among the traces that failed before the work stopped, the error of the first one in order.
pub fn each<T: Send, E: Send>(
    traces: &[PathBuf],
    work: impl Fn(&Path) -> Result<T, E> + Sync,
    mut take: impl FnMut(usize, T),
) -> Result<(), E> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut failed: Option<(usize, E)> = None;
    std::thread::scope(|scope| {
        let (results, taken) = sync_channel(cpus);
        for _ in 0..cpus.min(traces.len()) {
            let results = results.clone();
            let (next, stop, work) = (&next, &stop, &work);
            scope.spawn(move || {
                // The threads share only the index of the next trace; results are sent through the channel.
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = traces.get(number) else { return };
                    if results.send((number, work(path))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (number, result) in taken {
            match result {
                Ok(result) if failed.is_none() => take(number, result),
                Ok(_) => {}
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    if failed.as_ref().is_none_or(|first| number < first.0) {
                        failed = Some((number, error));
                    }
                }
            }
        }
    });
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_stand_for_the_traces_in_them_and_files_for_themselves() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("day")).expect("room");
        for name in ["b.fxt", "a.fxt.zst", "notes.txt", "day/c.fxt.gz"] {
            fs::write(path(name), "").expect("room");
        }
        let named = [path("notes.txt"), folder.path().to_owned()];
        let all = expand(&named).expect("traces");
        let expected = ["notes.txt", "a.fxt.zst", "b.fxt", "day/c.fxt.gz"].map(path);
        assert_eq!(all, expected);
        fs::create_dir(path("empty")).expect("room");
        assert!(matches!(expand(&[path("empty")]), Err(ManyError::Nothing(_))));
    }

    #[test]
    fn each_is_taken_once_and_the_first_failure_is_reported() {
        let traces: Vec<PathBuf> =
            (0..100).map(|number| PathBuf::from(number.to_string())).collect();
        let number = |path: &Path| path.to_string_lossy().parse::<usize>().expect("a number");
        let mut seen = vec![0; traces.len()];
        each(
            &traces,
            |path| Ok::<_, ()>(number(path)),
            |at, same| {
                assert_eq!(at, same);
                seen[at] += 1;
            },
        )
        .expect("none fails");
        assert_eq!(seen, vec![1; traces.len()]);
        let fails = |path: &Path| if number(path) == 0 { Err("zero") } else { Ok(()) };
        assert_eq!(each(&traces, fails, |_, ()| ()), Err("zero"));
    }
}
