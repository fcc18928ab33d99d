//! Debug files from debuginfod servers, by build id, in a cache of the user.
//!
//! Requests go through curl(1), which most systems have, with the system's certificates and proxies. Its options limit protocols,
//! redirections, time and size. The downloaded file is not trusted: it is first an unnamed file, gets a name in the cache only if it is an
//! ELF file of the requested build, and is read by another process, like any other file.
//!
//! ```text
//!   DEBUGINFOD_URLS   URL/buildid/abcdef…/debuginfo   -->   ~/.cache/fxtrec/debuginfod/.build-id/ab/cdef….debug
//! ```
//!
//! The cache has the layout of `/usr/lib/debug`, so it is one more directory of debug files. The file for a build id never changes, so a
//! cached file is never fetched again; the files that were fetched first are removed when the cache is full.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::convert::symbolize::Fetch;
use crate::kernel::directory::{Directory, Facts, Fresh, Trusted, WalkError};
use crate::kernel::user::Account;
use crate::probe::elf::{Elf, data_of};

/// The variable with the servers, shared with other tools: URLs, separated by spaces.
const SERVERS: &str = "DEBUGINFOD_URLS";

/// How to query the servers.
const CURL: &str = "curl";

/// The shortest and the longest build id that is requested, in bytes.
const SHORTEST_ID: usize = 8;
const LONGEST_ID: usize = 64;

/// The permissions of files in the cache: other users must not see what the user examines.
const FILE_MODE: u32 = 0o600;

/// The limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of a file, in bytes.
    pub file: u64,
    /// Maximum size of the cache, in bytes.
    pub cache: u64,
    /// Time limit for one request to one server.
    pub each: Duration,
    /// Time limit for all requests.
    pub total: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file: 512 << 20,
            cache: 4 << 30,
            each: Duration::from_secs(60),
            total: Duration::from_secs(180),
        }
    }
}

/// The reason why servers cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebuginfodError {
    #[error(
        "--debuginfod: {SERVERS} is not set: set it to the URLs of servers, for example that of your distribution"
    )]
    NoServers,
    #[error("--debuginfod: {SERVERS}: '{0}' is not a URL that begins with http:// or https://")]
    BadServer(String),
    #[error("--debuginfod: cannot run {CURL}: {0}; install it (apt install curl)")]
    NoCurl(#[source] io::Error),
    #[error("--debuginfod: no directory for the cache: set XDG_CACHE_HOME or HOME")]
    NoHome,
    #[error("--debuginfod: cannot use the cache {}: {source}", path.display())]
    Cache { path: PathBuf, source: WalkError },
    #[error("--debuginfod: cannot use the cache {}: it belongs to another user", .0.display())]
    ForeignCache(PathBuf),
}

/// The outcomes of the requests, counted by file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    fetched: u64,
    not_found: u64,
    /// The file was of another build, or not an ELF file.
    wrong: u64,
    too_large: u64,
    /// No server could be reached, or answered in time.
    unanswered: u64,
    /// The file could not be written to the cache.
    unwritten: u64,
}

/// Servers of debug files, and the cache.
#[derive(Debug)]
pub struct Debuginfod {
    servers: Vec<String>,
    path: PathBuf,
    cache: Directory,
    limits: Limits,
    spent: Duration,
    /// The builds that were requested; none occurs twice.
    asked: HashSet<Vec<u8>>,
    counts: Counts,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    NotFound,
    Wrong,
    TooLarge,
    None,
    Unwritten,
}

impl Fetch for Debuginfod {
    fn folder(&self) -> &Path {
        &self.path
    }

    fn fetch(&mut self, id: &[u8]) -> bool {
        (SHORTEST_ID..=LONGEST_ID).contains(&id.len())
            && self.asked.insert(id.to_owned())
            && self.request(id)
    }

    fn tell(&self) -> Vec<(&'static str, u64)> {
        let Counts { fetched, not_found, wrong, too_large, unanswered, unwritten } = self.counts;
        let all = [
            ("debug files fetched by debuginfod", fetched),
            ("debug files that no server has", not_found),
            ("debug files of another build, not used", wrong),
            ("debug files that are too large, not fetched", too_large),
            ("debug files not fetched: no answer in time", unanswered),
            ("debug files not fetched: the cache could not be written", unwritten),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl Debuginfod {
    /// The servers and the cache that the environment names.
    ///
    /// # Errors
    /// Returns [`DebuginfodError`].
    pub fn find() -> Result<Debuginfod, DebuginfodError> {
        let servers = env::var(SERVERS).unwrap_or_default();
        let own = own_folder(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"));
        // With sudo, the variables may be those of the user who called it.
        let cache = match geteuid().is_root() {
            true => own
                .filter(|folder| is_of_user(folder))
                .or_else(|| Account::by_uid(0).ok().map(|root| root.home.join(".cache"))),
            false => own,
        };
        Debuginfod::new(&servers, &cache.ok_or(DebuginfodError::NoHome)?, Limits::default())
    }

    /// Queries these servers, and keeps files below `folder`, which is created if missing.
    ///
    /// # Errors
    /// Returns [`DebuginfodError`].
    pub fn new(
        servers: &str,
        folder: &Path,
        limits: Limits,
    ) -> Result<Debuginfod, DebuginfodError> {
        let servers: Vec<String> =
            servers.split_whitespace().map(|it| it.trim_end_matches('/').to_owned()).collect();
        let is_url = |url: &&String| url.starts_with("http://") || url.starts_with("https://");
        if let Some(bad) = servers.iter().find(|url| !is_url(url)) {
            return Err(DebuginfodError::BadServer(bad.clone()));
        }
        if servers.is_empty() {
            return Err(DebuginfodError::NoServers);
        }
        let mut probe = Command::new(CURL);
        probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().map_err(DebuginfodError::NoCurl)?;
        let path = folder.join("fxtrec/debuginfod");
        let failed = |source| DebuginfodError::Cache { path: path.clone(), source };
        // The user's own directory, on a path that the user has named.
        std::fs::create_dir_all(folder).map_err(|error| failed(error.into()))?;
        let top = Directory::open(folder, Trusted::with(None)).map_err(failed)?;
        let parts = ["fxtrec", "debuginfod", ".build-id"];
        let cache = parts.iter().try_fold(top, |at, name| inside(&at, name.as_ref()));
        let cache = cache.map_err(failed)?;
        if !is_own(&cache) {
            return Err(DebuginfodError::ForeignCache(path));
        }
        let (spent, asked, counts) = Default::default();
        Ok(Debuginfod { servers, path, cache, limits, spent, asked, counts })
    }

    /// Requests the debug file of a build from the servers; returns whether it is in the cache now.
    fn request(&mut self, id: &[u8]) -> bool {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut last = Answer::NotFound;
        let mut at = 0;
        while let Some(server) = self.servers.get(at) {
            let left = self.limits.total.saturating_sub(self.spent);
            if left.is_zero() {
                last = Answer::None;
                break;
            }
            let (begun, url) = (Instant::now(), format!("{server}/buildid/{hex}/debuginfo"));
            last = self.fetch_from(&url, left, (id, &hex)).unwrap_or(Answer::Unwritten);
            self.spent += begun.elapsed();
            match last {
                Answer::Taken => break,
                // A failing server is not asked again: each file would take as long.
                Answer::None => drop(self.servers.remove(at)),
                _ => at += 1,
            }
        }
        let counts = &mut self.counts;
        let count = match last {
            Answer::Taken => &mut counts.fetched,
            Answer::NotFound => &mut counts.not_found,
            Answer::Wrong => &mut counts.wrong,
            Answer::TooLarge => &mut counts.too_large,
            Answer::None => &mut counts.unanswered,
            Answer::Unwritten => &mut counts.unwritten,
        };
        *count += 1;
        last == Answer::Taken
    }

    /// Fetches the file at a URL, and gives it a name if it belongs to this build.
    fn fetch_from(
        &self,
        url: &str,
        left: Duration,
        (id, hex): (&[u8], &str),
    ) -> Result<Answer, WalkError> {
        let (first, rest) = hex.split_at(2);
        let folder = inside(&self.cache, first.as_ref())?;
        if !is_own(&folder) {
            return Ok(Answer::Unwritten);
        }
        let mut file = Fresh::new(&folder, FILE_MODE)?;
        let time = self.limits.each.min(left).as_secs_f64();
        let mut curl = Command::new(CURL);
        curl.args(["--disable", "--silent", "--fail", "--globoff"])
            .args(["--location", "--max-redirs", "5"])
            .args(["--proto", "=http,https", "--proto-redir", "=http,https"])
            .args(["--connect-timeout", "10", "--max-time", &format!("{time:.3}")])
            .args(["--max-filesize", &self.limits.file.to_string(), "--", url])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut curl = curl.spawn()?;
        // A server need not send the length of its response.
        let copied = match curl.stdout.take() {
            Some(from) => io::copy(&mut from.take(self.limits.file + 1), &mut file.file),
            None => Ok(0),
        };
        let is_too_large = copied.as_ref().is_ok_and(|bytes| *bytes > self.limits.file);
        if copied.is_err() || is_too_large {
            // The process may have ended on its own.
            let _ = curl.kill();
        }
        let status = curl.wait()?.code();
        let bytes = copied?;
        match status {
            _ if is_too_large => return Ok(Answer::TooLarge),
            Some(0) => {}
            // See EXIT CODES in curl(1).
            Some(22) => return Ok(Answer::NotFound),
            Some(63) => return Ok(Answer::TooLarge),
            _ => return Ok(Answer::None),
        }
        let data = data_of(file.file.try_clone()?);
        if !Elf::parse(&data).is_ok_and(|elf| elf.build_id() == Some(id)) {
            return Ok(Answer::Wrong);
        }
        self.make_room(bytes)?;
        file.put_over(format!("{rest}.debug").as_ref())?;
        Ok(Answer::Taken)
    }

    /// Removes the oldest files until there is space for `bytes` more.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut all: Vec<(SystemTime, u64, Directory, OsString)> = Vec::new();
        for first in self.cache.names()? {
            let Ok(folder) = self.cache.walk(Path::new(&first), Trusted::with(None), &mut 0) else {
                continue;
            };
            if !is_own(&folder) {
                continue;
            }
            for name in folder.names()? {
                let file = folder.open_file(&name, OFlag::O_RDONLY);
                let Ok(facts) = file.and_then(|file| file.metadata()) else { continue };
                let time = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                all.push((time, facts.len(), folder.clone(), name));
            }
        }
        let mut taken: u64 = all.iter().map(|file| file.1).sum();
        all.sort_by_key(|file| Reverse(file.0));
        while taken.saturating_add(bytes) > self.limits.cache
            && let Some((_, length, folder, name)) = all.pop()
        {
            folder.remove(&name)?;
            taken -= length;
        }
        Ok(())
    }
}

/// The directory of this name, created if missing.
fn inside(at: &Directory, name: &OsStr) -> Result<Directory, WalkError> {
    match at.make(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => at.walk(Path::new(name), Trusted::with(None), &mut 0),
    }
}

/// The user's directory for data that can be fetched again.
fn own_folder(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".cache")))
}

fn is_of_user(folder: &Path) -> bool {
    Directory::open(folder, Trusted::with(None)).is_ok_and(|folder| is_own(&folder))
}

fn is_own(folder: &Directory) -> bool {
    Facts::of_file(folder).is_ok_and(|facts| facts.uid == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::mpsc;

    use super::*;

    const LIMITS: Limits = Limits {
        file: 64 << 20,
        cache: 256 << 20,
        each: Duration::from_secs(20),
        total: Duration::from_secs(60),
    };

    /// Whether the tools to query servers are installed; prints a message if not. In CI they must be installed.
    fn has_curl() -> bool {
        let is_there = Command::new(CURL).arg("--version").output().is_ok();
        assert!(is_there || env::var_os("CI").is_none(), "CI has curl");
        if !is_there {
            eprintln!("skipped: needs curl (apt install curl)");
        }
        is_there
    }

    /// A file with a build id, and the id.
    fn file() -> (Vec<u8>, Vec<u8>) {
        let alone = concat!(env!("CARGO_MANIFEST_DIR"), "/probe/fuzz/corpus/elf/alone.debug");
        let bytes = std::fs::read(alone).expect("it is there");
        let id = Elf::parse(&*bytes).expect("sound").build_id().expect("it has one").to_vec();
        (bytes, id)
    }

    /// A server that answers each request with the result of `answer` for its path, or never answers if that is `None`, and reports the
    /// paths.
    fn server(
        answer: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static,
    ) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (reported, paths) = mpsc::channel();
        std::thread::spawn(move || {
            // Connections that are not answered stay open.
            let mut silent = Vec::new();
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { return };
                let mut asked = [0; 4096];
                let length = connection.read(&mut asked).unwrap_or(0);
                let text = String::from_utf8_lossy(&asked[..length]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                match answer(&path) {
                    // The other end may have closed.
                    Some(bytes) => drop(connection.write_all(&bytes)),
                    None => silent.push(connection),
                }
                if reported.send(path).is_err() {
                    return;
                }
            }
        });
        (url, paths)
    }

    fn found(body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    fn not_found() -> Vec<u8> {
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()
    }

    fn hex(id: &[u8]) -> String {
        id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_file_is_fetched_once_by_its_build_id_and_kept_for_the_next_time() {
        if !has_curl() {
            return;
        }
        let (bytes, id) = file();
        let place = format!("/buildid/{}/debuginfo", hex(&id));
        let (sent, known) = (bytes.clone(), place.clone());
        let (url, paths) =
            server(move |path| Some(if path == known { found(&sent) } else { not_found() }));
        let home = tempfile::tempdir().expect("a folder");
        // Two servers; the first has no file.
        let (empty, _) = server(|_| Some(not_found()));
        let mut own =
            Debuginfod::new(&format!("{empty}/ {url}"), home.path(), LIMITS).expect("it can");
        assert!(own.fetch(&id) && !own.fetch(&id), "once");
        assert!(!own.fetch(b"unknown build"));
        assert_eq!(own.counts, Counts { fetched: 1, not_found: 1, ..Counts::default() });
        assert_eq!(paths.recv().expect("asked"), place);
        let debug =
            crate::probe::elf::debug_file_of(&id, own.folder()).expect("it is in the cache");
        assert_eq!(Elf::parse(&debug).expect("sound").build_id(), Some(&id[..]));
        let kept = home.path().join("fxtrec/debuginfod/.build-id").join(&hex(&id)[..2]);
        let entry = std::fs::read_dir(&kept).expect("made").next().expect("one").expect("it");
        assert_eq!(std::fs::read(entry.path()).expect("ours"), bytes);
        assert_eq!(entry.metadata().expect("ours").permissions().mode() & 0o777, FILE_MODE);
    }

    #[test]
    fn a_file_of_another_build_is_not_kept() {
        if !has_curl() {
            return;
        }
        let (bytes, _) = file();
        let (url, _paths) = server(move |_| Some(found(&bytes)));
        let (text, _texts) = server(|_| Some(found(b"<html>welcome</html>")));
        let home = tempfile::tempdir().expect("a folder");
        for server in [url, text] {
            let mut own = Debuginfod::new(&server, home.path(), LIMITS).expect("it can");
            assert!(!own.fetch(&[7; 20]));
            assert_eq!(own.counts, Counts { wrong: 1, ..Counts::default() });
        }
        assert_eq!(files(home.path()), 0);
    }

    /// How many files are in the cache.
    fn files(home: &Path) -> usize {
        let all = std::fs::read_dir(home.join("fxtrec/debuginfod/.build-id")).expect("made");
        all.map(|entry| std::fs::read_dir(entry.expect("it").path()).expect("ours").count()).sum()
    }

    #[test]
    fn a_server_that_does_not_answer_is_not_asked_again() {
        if !has_curl() {
            return;
        }
        let (url, paths) = server(|_| None);
        let home = tempfile::tempdir().expect("a folder");
        let limits = Limits { each: Duration::from_millis(300), ..LIMITS };
        let mut own = Debuginfod::new(&url, home.path(), limits).expect("it can");
        assert!(!own.fetch(&[1; 20]));
        assert_eq!(own.counts, Counts { unanswered: 1, ..Counts::default() });
        assert!(own.spent < limits.total);
        assert!(!own.fetch(&[2; 20]));
        assert_eq!(own.counts.not_found, 1);
        assert_eq!(paths.try_iter().count(), 1);
        // When the time is used up, no server is queried either.
        let mut own = Debuginfod::new(&url, home.path(), limits).expect("it can");
        own.spent = limits.total;
        assert!(!own.fetch(&[1; 20]));
        assert_eq!((own.counts.unanswered, paths.try_iter().count()), (1, 0));
    }

    #[test]
    fn what_is_too_large_is_not_kept_whether_the_server_says_how_large_it_is_or_not() {
        if !has_curl() {
            return;
        }
        let (mut bytes, id) = file();
        bytes.resize(100_000, 0);
        let limits = Limits { file: 50_000, ..LIMITS };
        for says in [true, false] {
            let body = bytes.clone();
            let (url, _paths) = server(move |_| {
                Some(if says {
                    found(&body)
                } else {
                    [b"HTTP/1.0 200 OK\r\n\r\n", &body[..]].concat()
                })
            });
            let home = tempfile::tempdir().expect("a folder");
            let mut own = Debuginfod::new(&url, home.path(), limits).expect("it can");
            assert!(!own.fetch(&id), "{says}");
            assert_eq!(own.counts, Counts { too_large: 1, ..Counts::default() }, "{says}");
            assert_eq!(files(home.path()), 0);
        }
    }

    #[test]
    fn the_oldest_files_make_room_for_a_new_one() {
        if !has_curl() {
            return;
        }
        let (bytes, id) = file();
        let length = bytes.len() as u64;
        let (url, _paths) = server(move |_| Some(found(&bytes)));
        let home = tempfile::tempdir().expect("a folder");
        let limits = Limits { cache: 3 * length, ..LIMITS };
        let mut own = Debuginfod::new(&url, home.path(), limits).expect("it can");
        let folder = home.path().join("fxtrec/debuginfod/.build-id/00");
        std::fs::create_dir(&folder).expect("room");
        for age in 1..=3 {
            let path = folder.join(format!("{age}.debug"));
            let old = std::fs::File::create(&path).expect("room");
            old.set_len(length).expect("room");
            old.set_modified(SystemTime::now() - Duration::from_secs(age * 1000)).expect("ours");
        }
        assert!(own.fetch(&id));
        let left = |age: u64| folder.join(format!("{age}.debug")).exists();
        assert_eq!([left(1), left(2), left(3)], [true, true, false]);
    }

    #[test]
    fn servers_and_caches_that_cannot_be_used_are_refused_with_a_reason() {
        if !has_curl() {
            return;
        }
        let home = tempfile::tempdir().expect("a folder");
        let refused = |servers: &str| {
            Debuginfod::new(servers, home.path(), LIMITS).expect_err("refused").to_string()
        };
        assert!(refused("  ").contains("DEBUGINFOD_URLS is not set"));
        assert!(refused("http://127.0.0.1 file:///etc").contains("'file:///etc' is not a URL"));
        // The path of the cache leads into another user's directory.
        std::os::unix::fs::symlink("/proc/self", home.path().join("fxtrec")).expect("room");
        assert!(refused("http://127.0.0.1").contains("cannot use the cache"));
    }

    #[test]
    fn the_cache_is_where_the_users_is() {
        let of = |xdg: &str, home: &str| own_folder(Some(xdg.into()), Some(home.into()));
        assert_eq!(of("/tmp/own", "/home/a"), Some("/tmp/own".into()));
        assert_eq!(of("", "/home/a"), Some("/home/a/.cache".into()));
        assert_eq!(of("relative", "relative"), None);
        assert_eq!(own_folder(None, None), None);
    }
}
