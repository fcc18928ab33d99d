//! Names of functions that a program has compiled at run time, from the map that its runtime writes for perf.
//!
//! The map grows while the program runs, so it is read when names are needed, at the end of a file. Until then it is kept open: the process
//! may have ended, and its `/tmp` may no longer be accessible. Only lines about addresses that stacks have are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::files::Files;
use super::frames::MOST_FRAMES;

/// The shortest time between two attempts to get a process's map.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of bytes of a map that are read; the rest is unknown.
const MOST_BYTES: u64 = 64 << 20;

/// The maximum number of bytes of a line that are used.
const LINE_BYTES: usize = 4096;

/// The maximum number of bytes for the names of all programs, including the overhead of each function.
pub(super) const MOST_MADE: usize = 8 << 20;
const FUNCTION_BYTES: usize = 64;

/// The maximum number of maps that are held at a time. Functions of further programs have no names.
const MOST_MAPS: usize = 256;

/// The most addresses of a program that get names: no fewer than of all programs together, so that each one without a name is counted.
const MOST_ADDRESSES: usize = MOST_FRAMES;

/// Whether a mapping of this path is memory that a program has filled itself.
pub(super) fn is_made(path: &Path) -> bool {
    let path = path.to_str().unwrap_or("?");
    path.is_empty()
        || ["[anon:", "[heap]", "[stack", "/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage"]
            .iter()
            .any(|start| path.starts_with(start))
}

/// The functions that a program has compiled and that stacks contain.
#[derive(Debug, Default)]
pub(super) struct JitCode {
    /// The map that is held, with the token that counts it.
    map: Option<(OwnedFd, Arc<()>)>,
    /// Whether its file did not respond.
    is_silent: bool,
    /// When the process's map was last looked for.
    asked: Option<Instant>,
    addresses: BTreeSet<u64>,
    /// Whether there is an address for which the map was not read yet.
    is_new: bool,
    /// By beginning: end and name of each function. No two overlap.
    functions: Functions,
    /// Bytes that they take.
    bytes: usize,
}

impl JitCode {
    /// Remembers that a stack of the process has this address.
    pub(super) fn want(&mut self, files: &mut Files, pid: u32, address: u64) {
        if self.addresses.len() >= MOST_ADDRESSES || !self.addresses.insert(address) {
            return;
        }
        self.is_new = true;
        if self.map.is_none() && self.asked.is_none_or(|asked| asked.elapsed() >= PATIENCE) {
            self.hold(files, pid);
        }
    }

    pub(super) fn has(&self, address: u64) -> bool {
        self.addresses.contains(&address)
    }

    /// Whether its file did not respond.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    fn hold(&mut self, files: &mut Files, pid: u32) {
        if self.is_silent {
            return;
        }
        self.asked = Some(Instant::now());
        let counted = files.maps.clone();
        // One clone is in `counted`, one is in `files`.
        if Arc::strong_count(&counted) > MOST_MAPS + 1 {
            return;
        }
        match files.map(pid) {
            Ok(map) => self.map = map.map(|map| (map, counted)),
            Err(_) => self.is_silent = true,
        }
    }

    /// Bytes that names take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the map will be read when a function is requested.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The function that contains an address, by the current map of the process. `within` is the address, or that of the call before it. If
    /// the map is read, names may take `room` more bytes.
    pub(super) fn function(
        &mut self,
        files: &mut Files,
        (pid, room): (u32, usize),
        within: u64,
    ) -> Option<&str> {
        if std::mem::take(&mut self.is_new) {
            if self.map.is_none() {
                self.hold(files, pid);
            }
            if let Some((map, _)) = &self.map {
                let addresses: Vec<u64> = self.addresses.iter().copied().collect();
                let mut functions = BTreeMap::new();
                let most = self.bytes + room;
                self.bytes = 0;
                let take = |start, end, name: String| {
                    let bytes = FUNCTION_BYTES + name.len();
                    if self.bytes + bytes <= most {
                        self.bytes += bytes;
                        functions.insert(start, (end, name));
                    }
                };
                if files.compiled(map, &addresses, take).is_err() {
                    (self.map, self.is_silent) = (None, true);
                }
                self.functions = functions;
            }
        }
        let (_, (end, name)) = self.functions.range(..=within).next_back()?;
        (within < *end).then_some(name)
    }
}

/// By beginning: end and name of each function.
type Functions = BTreeMap<u64, (u64, String)>;

/// The functions of a map that contain these addresses.
pub(super) fn functions_in(map: impl Read, addresses: &BTreeSet<u64>) -> Functions {
    let mut functions = Functions::new();
    let mut map = BufReader::new(map.take(MOST_BYTES));
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut map).take(LINE_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return functions,
            Ok(_) => {}
        }
        let is_whole = line.ends_with(b"\n");
        if let Some((start, end, name)) = function(&line)
            // A call may be the last instruction of a function: then its return address is just after the function.
            && addresses.range(start..=end).next().is_some()
        {
            add(&mut functions, start, end, name);
        }
        if !is_whole && map.skip_until(b'\n').is_err() {
            return functions;
        }
    }
}

/// Adds a function, which replaces those that had its addresses before.
fn add(functions: &mut Functions, start: u64, end: u64, name: String) {
    let is_over =
        |(&begin, (behind, _)): (&u64, &(u64, String))| (*behind > start).then_some(begin);
    let over: Vec<u64> = functions.range(..end).rev().map_while(is_over).collect();
    for begin in over {
        functions.remove(&begin);
    }
    functions.insert(start, (end, name));
}

/// Parses a line: beginning, end and name of a function.
fn function(line: &[u8]) -> Option<(u64, u64, String)> {
    let text = String::from_utf8_lossy(line);
    let (start, rest) = text.trim().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let (start, size, name) = (number(start)?, number(size)?, name.trim());
    let end = start.checked_add(size)?;
    (size > 0 && !name.is_empty()).then(|| (start, end, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::in_this_process;
    use super::*;

    fn made(addresses: &[u64], map: &str) -> JitCode {
        let addresses = addresses.iter().copied().collect();
        let functions = functions_in(map.as_bytes(), &addresses);
        JitCode { addresses, functions, ..JitCode::default() }
    }

    fn name(made: &mut JitCode, within: u64) -> Option<&str> {
        made.function(&mut in_this_process(), (u32::MAX >> 1, MOST_MADE), within)
    }

    #[test]
    fn addresses_are_in_the_function_that_was_compiled_there_last() {
        let map = "1000 100 first\n0x1100 0x10 LazyCompile:*f /app.js:1:2 \nnonsense\n\
                   1000 80 again\n1180 0 empty\n2000 10 unwanted\n10 zz bad\nffffffffffffffff 2 lie\n";
        let mut made = made(&[0x1010, 0x10c0, 0x1110], map);
        assert_eq!(made.functions.len(), 2, "{made:?}");
        assert_eq!(name(&mut made, 0x1010), Some("again"));
        assert_eq!(name(&mut made, 0x10c0), None, "the first is gone");
        assert_eq!(name(&mut made, 0x110f), Some("LazyCompile:*f /app.js:1:2"));
        assert_eq!(name(&mut made, 0x2000), None);
        assert_eq!(name(&mut made, 0), None);
    }

    #[test]
    fn long_lines_are_cut_and_the_next_line_is_whole() {
        let long = "n".repeat(3 * LINE_BYTES);
        let mut made = made(&[0x1000, 0x2000], &format!("1000 10 {long}\n2000 10 next"));
        let long = name(&mut made, 0x1000).expect("a name");
        assert!(long.len() < LINE_BYTES && long.starts_with("nnn"));
        assert_eq!(name(&mut made, 0x2000), Some("next"));
    }

    #[test]
    fn memory_is_bounded_by_the_addresses_that_are_wanted() {
        let map: String = (0..100_000_u64).map(|at| format!("{:x} 10 f{at}\n", at * 16)).collect();
        let mut made = made(&[0x1000, 0x5008], &map);
        assert_eq!(made.functions.len(), 3, "one ends where the other begins");
        assert_eq!(name(&mut made, 0x5008), Some("f1280"));
        let mut files = in_this_process();
        for address in 0..MOST_ADDRESSES as u64 + 10 {
            made.want(&mut files, u32::MAX >> 1, address);
        }
        assert!(made.addresses.len() <= MOST_ADDRESSES + 2);
    }

    #[test]
    fn what_programs_fill_themselves_is_distinguished_from_files() {
        for path in ["", "[anon:v8]", "[heap]", "/memfd:doublemapper (deleted)"] {
            assert!(is_made(Path::new(path)), "{path}");
        }
        for path in ["/usr/lib/libc.so.6", "[vdso]", "[vsyscall]", "/tmp/x (deleted)"] {
            assert!(!is_made(Path::new(path)), "{path}");
        }
    }
}
