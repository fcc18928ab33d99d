//! The names of CPUs. In a merged trace, CPUs of a later recording have numbers after those of the earlier recordings.

use fxt_reader::record::Args;
use fxtrec_units::convention::{FIRST_CPU, HOST};

use crate::threads::MOST_RECORDERS;

/// Which CPUs belong to which host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuNames(Vec<(u16, Box<str>)>);

impl CpuNames {
    /// An event `host_cpus`.
    pub fn learn(&mut self, args: &Args<'_>) {
        let number = args.get(FIRST_CPU).and_then(fxtrec_sched::unsigned);
        if let Some(first) = number.and_then(|first| u16::try_from(first).ok())
            && self.0.len() < MOST_RECORDERS
        {
            self.0.push((first, args.str(HOST).unwrap_or_default().into()));
        }
    }

    /// The number of a CPU; in a merged trace its number on its host and the host, as in `0@web-1`.
    pub fn name(&self, cpu: u16) -> String {
        let owner = self.0.iter().filter(|it| it.0 <= cpu).max_by_key(|it| it.0);
        // Two recordings of one host use the same numbers.
        let is_sole = |host: &str| self.0.iter().filter(|it| *it.1 == *host).count() == 1;
        match owner.filter(|it| !it.1.is_empty() && is_sole(&it.1)) {
            Some((first, host)) => {
                let host: String = fxtrec_units::escape::line(host).chars().take(24).collect();
                format!("{}@{host}", cpu - first)
            }
            None => cpu.to_string(),
        }
    }
}
