//! A tracing instance of the kernel, next to a recording, to compare the recording with.

use std::fs;
use std::path::{Path, PathBuf};

const TRACEFS: &str = "/sys/kernel/tracing";

/// An event of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The index of the event in the requested list.
    pub event: usize,
}

/// An instance. Removed when dropped.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    events: Vec<PathBuf>,
    ids: Vec<u64>,
}

/// Whether the kernel has this event, given by its group and name.
pub fn has_event(event: &str) -> bool {
    Path::new(TRACEFS).join("events").join(event).is_dir()
}

impl Instance {
    /// An instance for these events, `GROUP/NAME` each, which are still disabled.
    ///
    /// # Panics
    /// When tracefs refuses.
    pub fn new(label: &str, events: &[String]) -> Instance {
        let name = format!("fxtrec-test-{label}-{}", std::process::id());
        let folder = Path::new(TRACEFS).join("instances").join(name);
        fs::create_dir(&folder).expect("root may make an instance");
        let paths = events.iter().map(|event| folder.join("events").join(event)).collect();
        let mut instance = Instance { folder, events: paths, ids: Vec::new() };
        instance.write("trace_clock", "mono");
        // Times in nanoseconds, and events by their ids.
        instance.write("options/raw", "1");
        instance.write("buffer_size_kb", "16384");
        let id = |event: &PathBuf| {
            let text = fs::read_to_string(event.join("id")).expect("an event has an id");
            text.trim().parse().expect("a number")
        };
        instance.ids = instance.events.iter().map(id).collect();
        instance
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).expect("the instance is ours");
    }

    /// Enables or disables the events.
    pub fn switch(&self, on: bool) {
        for event in &self.events {
            fs::write(event.join("enable"), if on { "1" } else { "0" }).expect("it is ours");
        }
    }

    /// The events of a CPU, in order.
    ///
    /// # Panics
    /// When some of it is lost.
    pub fn read(&self, cpu: u16) -> Vec<Seen> {
        let of_cpu = self.folder.join("per_cpu").join(format!("cpu{cpu}"));
        let stats = fs::read_to_string(of_cpu.join("stats")).expect("stats");
        for lost in ["overrun", "commit overrun", "dropped events"] {
            let count = stats.lines().find_map(|line| line.strip_prefix(lost)?.strip_prefix(": "));
            assert_eq!(count, Some("0"), "{stats}");
        }
        let trace = fs::read_to_string(of_cpu.join("trace")).expect("a trace");
        let lines = trace.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| self.parse(line).unwrap_or_else(|| panic!("{line:?}"))).collect()
    }

    /// `PID CPU NANOSECONDS type: ID`.
    fn parse(&self, line: &str) -> Option<Seen> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, time, "type:", id] = words[..] else { return None };
        let id: u64 = id.parse().ok()?;
        let event = self.ids.iter().position(|known| *known == id)?;
        Some(Seen { time: time.parse().ok()?, event })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
