//! Reads, in a separate process, files that other users may have written, and whose file system may hang.
//!
//! That process is this program, started under the name [`READER_PROCESS`] with a word for its task, as for a recording. See [`Workers`].

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::capture::stacks::{READER_PROCESS, run_reader_process};
use crate::convert::symbolize;
use crate::kernel::regular::Regular;
use crate::kernel::worker::{AnswerTimeout, Worker, Workers, serve_as};
use crate::probe::spec::{Binary, Spec};
use crate::probe::{self, Context, FileVersion, ListedFunction, Listing, Site};
use crate::report::stacks::Line;

mod lines;

/// The process's task: names for `fxtrec symbolize`, or answers to a [`Question`].
const NAMES: &str = "names";
const QUESTIONS: &str = "questions";

/// How long to wait for a file.
const PATIENCE: AnswerTimeout =
    AnswerTimeout { idle: Duration::from_secs(5), most: Duration::from_secs(60) };

/// The total time that files which do not respond may cost.
const MOST_LOST: Duration = Duration::from_secs(90);

/// The process's memory limit, in bytes. It holds all functions of a file at once, which takes 0.9 GiB for 800 000 functions with long
/// names.
const MOST_MEMORY: u64 = 1536 << 20;

const SERVED: &str = "it is on a file system that a user's process serves (FUSE), or on an overlay \
 that may include one: if that process hung, no process on this machine could start; copy the file \
 to another file system";

const EXCHANGED: &str = "it was replaced or changed while fxtrec looked up its functions: no probe \
 was placed; run fxtrec again";

/// The number of functions in an answer.
const PIECE: usize = 10_000;

/// Runs the process that reads files, for the task `word`.
///
/// # Errors
/// Returns an error if this is not such a process, or its parent has exited.
pub fn run(word: Option<&OsStr>) -> io::Result<()> {
    match word.and_then(OsStr::to_str) {
        None => run_reader_process(),
        Some(NAMES) => symbolize::serve(),
        Some(QUESTIONS) => {
            let mut reader = Reader::default();
            serve_as(MOST_MEMORY, |question, _| reader.answer(question))
        }
        Some(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Starts a process that names functions.
///
/// # Errors
/// Errors of fork(2) and execve(2).
pub fn start_for_names(in_use: u64) -> io::Result<Worker> {
    Worker::start_for(READER_PROCESS, NAMES, in_use)
}

#[derive(Debug, Serialize, Deserialize)]
enum Question<'a> {
    /// The places that a spec names.
    Sites { spec: Cow<'a, str>, context: Cow<'a, Context> },
    /// Places for probes; the functions follow.
    List { binary: Cow<'a, Binary>, pattern: Cow<'a, str>, context: Cow<'a, Context> },
    /// More functions of the file whose functions are being listed.
    More,
    /// Hold a file that the kernel may read at any time.
    Hold { path: OsString, version: FileVersion },
    /// The source lines of an address in a file.
    Lines { path: Cow<'a, str>, build_id: Cow<'a, [u8]>, folders: Vec<OsString>, address: u64 },
    /// Look again for a file with line information, because a file was added to the directories.
    Again { build_id: Cow<'a, [u8]> },
}

/// The answer, or the error text of [`crate::probe`].
type Answer<T> = Result<T, String>;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileWorkerError {
    /// The error text of the answer.
    #[error("{0}")]
    Answer(String),
    /// There is none.
    #[error(
        "{0} did not answer, or reading it took more than a minute or too much memory: check that \
         its file system responds"
    )]
    Silent(String),
    /// Too many processes hang.
    #[error(
        "{0} was not read: {1} processes (fxtrec-files) still wait for file systems that do not \
         answer: end the processes that serve these, or unmount them"
    )]
    Left(String, usize),
}

/// The files that a command examines.
#[derive(Debug)]
pub struct Files(Workers);

impl Default for Files {
    fn default() -> Files {
        let start = |in_use| Worker::start_for(READER_PROCESS, QUESTIONS, in_use);
        Files(Workers::new(start, PATIENCE, MOST_LOST))
    }
}

impl Files {
    /// Finds the places that a spec names; see [`probe::resolve`].
    ///
    /// # Errors
    /// As for [`probe::list`], and when a file does not respond.
    pub fn sites(&mut self, spec: &Spec, context: &Context) -> Result<Vec<Site>, FileWorkerError> {
        let (spec, context) = (Cow::Borrowed(&*spec.text), Cow::Borrowed(context));
        let silent = || format!("probe '{}': a file", spec);
        Ok(self.ask(&Question::Sites { spec: spec.clone(), context }, silent)?.0)
    }

    /// Lists the places for probes: see [`probe::list`].
    ///
    /// # Errors
    /// As for [`probe::resolve`], and when a file does not respond.
    pub fn list(
        &mut self,
        binary: &Binary,
        pattern: &str,
        context: &Context,
    ) -> Result<Vec<Listing>, FileWorkerError> {
        let name = || match binary {
            Binary::Path(path) => path.display().to_string(),
            Binary::Name(name) => name.clone(),
            Binary::Command => "COMMAND".to_owned(),
        };
        let (binary, context) = (Cow::Borrowed(binary), Cow::Borrowed(context));
        let pattern = Cow::Borrowed(pattern);
        let question = Question::List { binary: binary.clone(), pattern, context };
        let (mut listings, _): (Vec<Listing>, _) = self.ask(&question, name)?;
        for listing in &mut listings {
            loop {
                let (more, _): (Vec<ListedFunction>, _) = self.ask(&Question::More, name)?;
                if more.is_empty() {
                    break;
                }
                listing.functions.extend(more);
            }
        }
        Ok(listings)
    }

    /// Holds the file of a site through a descriptor that only identifies it.
    ///
    /// # Errors
    /// Returns an error when the file differs from the version that the site was found in, does not respond, or may hang the kernel.
    pub fn hold(&mut self, site: &Site) -> Result<File, FileWorkerError> {
        let silent = || site.binary.display().to_string();
        let question = Question::Hold { path: (&*site.binary).into(), version: site.version };
        let ((), file) = self.ask(&question, silent)?;
        file.map(File::from).ok_or_else(|| FileWorkerError::Silent(silent()))
    }

    /// The source lines of an address in the file that was at `path`, or in a file from `folders`; empty if no file of this build has line
    /// information.
    pub fn lines(
        &mut self,
        path: &str,
        build_id: &[u8],
        folders: &[PathBuf],
        address: u64,
    ) -> Result<Option<Vec<Line>>, FileWorkerError> {
        let (name, build_id) = (Cow::Borrowed(path), Cow::Borrowed(build_id));
        let folders = folders.iter().map(OsString::from).collect();
        let question = Question::Lines { path: name, build_id, folders, address };
        Ok(self.ask(&question, || path.to_owned())?.0)
    }

    /// Looks for a file of this build again at the next request for lines.
    pub fn look_again(&mut self, build_id: &[u8]) -> Result<(), FileWorkerError> {
        let question = Question::Again { build_id: Cow::Borrowed(build_id) };
        let ((), _) = self.ask(&question, || "a debug file".to_owned())?;
        Ok(())
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        question: &Question<'_>,
        name: impl Fn() -> String,
    ) -> Result<(T, Option<OwnedFd>), FileWorkerError> {
        let question = serde_json::to_vec(question).unwrap_or_default();
        let answer = self.0.ask(&question, None).and_then(|(answer, file)| {
            Some((serde_json::from_slice::<Answer<T>>(&answer).ok()?, file))
        });
        match answer {
            Some((Ok(answer), file)) => Ok((answer, file)),
            Some((Err(text), _)) => Err(FileWorkerError::Answer(text)),
            None if self.0.left() > 0 => Err(FileWorkerError::Left(name(), self.0.left())),
            None => Err(FileWorkerError::Silent(name())),
        }
    }
}

/// What reads files.
#[derive(Debug, Default)]
struct Reader {
    /// The functions that are still missing for each file whose functions are being listed.
    listed: Vec<std::vec::IntoIter<ListedFunction>>,
    sources: lines::Sources,
}

impl Reader {
    fn answer(&mut self, question: &[u8]) -> (Vec<u8>, Option<OwnedFd>) {
        match serde_json::from_slice(question) {
            Ok(Question::Hold { path, version }) => {
                let path = PathBuf::from(path);
                match hold(&path, version) {
                    Ok(file) => (written(&Ok(())), Some(file.into())),
                    Err(error) => (written::<()>(&Err(error.to_string())), None),
                }
            }
            Ok(Question::Sites { spec, context }) => {
                let sites =
                    |spec: Spec| probe::resolve(&spec, &context).map_err(|it| it.to_string());
                let spec = spec.parse::<Spec>().map_err(|error| error.to_string());
                (written(&spec.and_then(sites)), None)
            }
            Ok(Question::List { binary, pattern, context }) => {
                let mut listings = probe::list(&binary, &pattern, &context);
                let all = listings.iter_mut().flatten();
                self.listed = all.map(|it| std::mem::take(&mut it.functions).into_iter()).collect();
                (written(&listings.map_err(|error| error.to_string())), None)
            }
            Ok(Question::More) => {
                let Some(first) = self.listed.first_mut() else {
                    return (written(&Ok([0; 0])), None);
                };
                let piece: Vec<ListedFunction> = first.take(PIECE).collect();
                if piece.is_empty() {
                    self.listed.remove(0);
                }
                (written(&Ok(piece)), None)
            }
            Ok(Question::Lines { path, build_id, folders, address }) => {
                let folders: Vec<PathBuf> = folders.into_iter().map(PathBuf::from).collect();
                let lines = self.sources.at(&path, &build_id, &folders, address);
                (written(&Ok(lines)), None)
            }
            Ok(Question::Again { build_id }) => {
                self.sources.forget(&build_id);
                (written(&Ok(())), None)
            }
            Err(_) => (Vec::new(), None),
        }
    }
}

/// Holds a file for probes. The kernel reads the file while it places them, and every fork and exec on the machine waits for that, so files
/// that may hang are rejected.
fn hold(path: &Path, version: FileVersion) -> io::Result<Regular> {
    let file = Regular::hold(path)?;
    if file.is_served_by_others()? {
        return Err(io::Error::other(SERVED));
    }
    // In one file, an offset is in the middle of an instruction; in the other file it is not.
    if FileVersion::of(&file)? != version {
        return Err(io::Error::other(EXCHANGED));
    }
    Ok(file)
}

fn written<T: Serialize>(answer: &Answer<T>) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const FUNCTION: &str = "malloc";

    fn ask<T: DeserializeOwned>(question: &Question<'_>) -> (Answer<T>, Option<OwnedFd>) {
        let question = serde_json::to_vec(question).expect("written");
        let (answer, file) = Reader::default().answer(&question);
        (serde_json::from_slice(&answer).expect("an answer"), file)
    }

    #[test]
    fn a_file_that_was_exchanged_since_its_functions_were_read_is_not_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("app"), folder.path().join("other"));
        // A smaller file than this program.
        let maps = fs::read_to_string("/proc/self/maps").expect("its mappings");
        let is_small =
            |path: &&str| path.rsplit('/').next().is_some_and(|it| it.starts_with("libc."));
        let mapped = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let own = mapped.into_iter().find(is_small).map(PathBuf::from);
        let own = own.unwrap_or_else(|| std::env::current_exe().expect("this program"));
        let found = || {
            fs::copy(&own, &path).expect("copied");
            let spec = Cow::Owned(format!("{}:{FUNCTION}", path.display()));
            let context = Cow::Owned(Context::new(None, &[]));
            let (sites, _): (Answer<Vec<Site>>, _) = ask(&Question::Sites { spec, context });
            sites.expect("found").pop().expect("one").version
        };
        let held = |version| ask::<()>(&Question::Hold { path: path.clone().into(), version });

        let (answer, file) = held(found());
        assert_eq!((answer, file.is_some()), (Ok(()), true));

        let version = found();
        fs::copy(&own, &other).expect("copied");
        fs::rename(&other, &path).expect("exchanged");
        let (answer, file) = held(version);
        assert_eq!((answer, file.is_some()), (Err(EXCHANGED.to_owned()), false));

        let version = found();
        fs::OpenOptions::new().append(true).open(&path).expect("own").set_len(1).expect("cut");
        let (answer, file) = held(version);
        assert_eq!((answer, file.is_some()), (Err(EXCHANGED.to_owned()), false));
    }
}
