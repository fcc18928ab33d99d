//! The kernel's counts for a ring: the file `per_cpu/cpuN/stats`.

/// The counts of one CPU. A line that the kernel does not write counts as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Events that wait in the ring.
    pub entries: u64,
    pub read: u64,
    /// Events that were overwritten before they were read.
    pub overrun: u64,
    /// Events that an interrupt could not store, or that found the ring full.
    pub dropped: u64,
}

impl CpuStats {
    /// Reads the lines `name: number`.
    pub fn parse(text: &str) -> CpuStats {
        let mut stats = CpuStats::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let Ok(value) = value.trim().parse::<u64>() else { continue };
            match name {
                "entries" => stats.entries = value,
                "read events" => stats.read = value,
                "overrun" => stats.overrun = value,
                "commit overrun" | "dropped events" => stats.dropped += value,
                _ => {}
            }
        }
        stats
    }

    /// Events that can no longer be read.
    pub fn lost(self) -> u64 {
        self.overrun.saturating_add(self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_losing_an_event_is_counted() {
        let stats = CpuStats::parse(
            "entries: 12\noverrun: 3\ncommit overrun: 4\nbytes: 99\noldest event ts: 12385.764447\n\
             now ts: 12386.1\ndropped events: 5\nread events: 6\n",
        );
        assert_eq!(stats, CpuStats { entries: 12, read: 6, overrun: 3, dropped: 9 });
        assert_eq!(stats.lost(), 12);
    }
}
