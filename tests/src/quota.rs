//! Cgroups with a quota.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::programs::succeed;

/// A separate cgroup with a quota. Removed when dropped.
#[derive(Debug)]
pub struct Quota {
    folder: PathBuf,
    /// Its name in the trace.
    pub name: String,
    is_first_version: bool,
}

impl Quota {
    /// One that may use that many microseconds of each tenth of a second; `None` if there is no controller for it.
    ///
    /// # Panics
    /// When the cgroup takes no quota.
    #[must_use]
    pub fn new(label: &str, micros: u32) -> Option<Quota> {
        let first = Path::new("/sys/fs/cgroup/cpu");
        let second = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(second.join("cgroup.subtree_control"));
        let has_cpu = |list: String| list.split_whitespace().any(|word| word == "cpu");
        let root = match controllers.is_ok_and(has_cpu) {
            true => second,
            false if first.join("cpu.cfs_quota_us").exists() => first,
            false => return None,
        };
        Quota::below(root, &format!("fxtrec-{label}-{}", std::process::id()), micros)
    }

    /// Creates one below this directory, whose version of cgroups is determined from the files in it; `None` if none can be created.
    ///
    /// # Panics
    /// When the cgroup does not accept a quota.
    #[must_use]
    pub fn below(root: &Path, name: &str, micros: u32) -> Option<Quota> {
        let folder = root.join(name);
        fs::create_dir(&folder).ok()?;
        let is_first_version = folder.join("cpu.cfs_quota_us").exists();
        let quota = Quota { folder, name: format!("/{name}"), is_first_version };
        // No other threads use up its quota.
        match is_first_version {
            true => {
                quota.write("cpu.cfs_period_us", "100000");
                quota.write("cpu.cfs_quota_us", &micros.to_string());
                quota.write("cpu.shares", "262144");
            }
            false => {
                quota.write("cpu.max", &format!("{micros} 100000"));
                quota.write("cpu.weight", "10000");
            }
        }
        Some(quota)
    }

    /// Gives it the CPU before other groups, while it has quota left.
    ///
    /// # Panics
    /// When the cgroup does not accept a weight.
    pub fn prefer(&self) {
        match self.is_first_version {
            true => self.write("cpu.shares", "262144"),
            false => self.write("cpu.weight", "10000"),
        }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).expect("the cgroup is ours");
    }

    /// Nanoseconds for which its queues were throttled, summed over CPUs.
    ///
    /// # Panics
    /// When the kernel does not count that.
    #[must_use]
    pub fn throttled(&self) -> u64 {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).expect("cpu.stat");
        let (name, unit) =
            if self.is_first_version { ("throttled_time", 1) } else { ("throttled_usec", 1_000) };
        let value =
            stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        value.expect("a figure") * unit
    }

    /// The command that runs another one in the cgroup.
    #[must_use]
    pub fn words(&self, command: &[&str]) -> Vec<String> {
        let procs = self.folder.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
        let shell = ["sh", "-c", &script, "sh"];
        shell.iter().chain(command).map(|word| (*word).to_owned()).collect()
    }

    /// Runs a command in it to its end.
    ///
    /// # Panics
    /// When the command fails.
    pub fn run(&self, command: &[&str]) {
        let words = self.words(command);
        succeed(Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()));
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
