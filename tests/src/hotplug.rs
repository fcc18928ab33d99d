//! Takes a CPU offline for a moment.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::skip::skip;
use crate::trace::now;

/// A CPU that can be taken offline. Back online when dropped.
#[derive(Debug)]
pub struct Pluggable {
    pub cpu: u16,
    file: PathBuf,
}

impl Pluggable {
    /// The last CPU that the machine permits to take offline; prints a message if there is none.
    ///
    /// # Panics
    /// When there is none, and the variable `CI` is set.
    pub fn find() -> Option<Pluggable> {
        let of = |cpu: u16| {
            let file = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}/online"));
            let is_online = std::fs::read_to_string(&file).is_ok_and(|text| text.trim() == "1");
            is_online.then_some(Pluggable { cpu, file })
        };
        let found = (1..=u16::from(u8::MAX)).rev().find_map(of);
        if found.is_none() {
            skip("this kernel takes no CPU offline");
        }
        found
    }

    /// # Panics
    /// When the kernel refuses.
    pub fn set_online(&self, online: bool) {
        let text = if online { "1" } else { "0" };
        std::fs::write(&self.file, text).expect("root may take a CPU offline and back");
    }

    /// Takes it offline for this long. Returns an interval in which it was certainly offline, by `CLOCK_MONOTONIC`.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn away_for(&self, time: Duration) -> Range<u64> {
        self.set_online(false);
        let went = now();
        std::thread::sleep(time);
        let comes = now();
        self.set_online(true);
        went..comes
    }
}

impl Drop for Pluggable {
    fn drop(&mut self) {
        // It is already online, unless a test panicked.
        let _ = std::fs::write(&self.file, "1");
    }
}
