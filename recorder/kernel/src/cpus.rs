//! The CPUs of the machine, and which of them are online.

use std::io;
use std::path::Path;

use thiserror::Error;

use super::sys::Sys;
use crate::limits;
use crate::units::Cpu;

/// The reason why the list of CPUs is unknown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CpusError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}{}", limits::remedy_or("; is /sys mounted?", source))]
    Read { path: &'static str, source: io::Error },
    /// The file does not hold a list of CPUs.
    #[error("{path}: expected a list of CPUs, found `{text}`")]
    Text { path: &'static str, text: String },
}

/// No kernel supports more CPUs than this; a longer list is malformed.
const MAX_CPUS: u32 = 1 << 16;

/// The CPUs that run threads now, in ascending order.
///
/// # Errors
/// Returns [`CpusError`] when sysfs cannot be read or understood.
pub fn online(sys: &dyn Sys) -> Result<Vec<Cpu>, CpusError> {
    read(sys, "/sys/devices/system/cpu/online")
}

/// The first CPU that runs threads now; CPU 0 if that is unknown.
pub fn first_online(sys: &dyn Sys) -> Cpu {
    online(sys).ok().and_then(|cpus| cpus.first().copied()).unwrap_or(Cpu(0))
}

/// The CPUs that may come online while the machine runs, in ascending order.
///
/// # Errors
/// Returns [`CpusError`] when sysfs cannot be read or understood.
pub fn possible(sys: &dyn Sys) -> Result<Vec<Cpu>, CpusError> {
    read(sys, "/sys/devices/system/cpu/possible")
}

/// Parses a list such as `0-3,5` into ascending numbers; `None` for any other text.
///
/// The kernel writes an empty list for "none", for example in `offline`.
pub fn parse_list(text: &str) -> Option<Vec<Cpu>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let ascending = cpus.last().is_none_or(|Cpu(before)| *before < first);
        if !ascending || first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend((first..=last).map(Cpu));
    }
    Some(cpus)
}

fn read(sys: &dyn Sys, path: &'static str) -> Result<Vec<Cpu>, CpusError> {
    let bytes = sys.read(Path::new(path)).map_err(|source| CpusError::Read { path, source })?;
    let text = String::from_utf8_lossy(&bytes);
    parse_list(&text)
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| CpusError::Text { path, text: text.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Linux;

    fn numbers(text: &str) -> Option<Vec<u32>> {
        Some(parse_list(text)?.into_iter().map(|Cpu(cpu)| cpu).collect())
    }

    #[test]
    fn ranges_and_single_cpus_may_be_mixed() {
        assert_eq!(numbers("0-3,5,8-9\n"), Some(vec![0, 1, 2, 3, 5, 8, 9]));
        assert_eq!(numbers("0\n"), Some(vec![0]));
        assert_eq!(numbers("\n"), Some(vec![]));
    }

    #[test]
    fn a_damaged_list_is_refused() {
        for text in ["0-", "a", "3-1", "1,1", "2,0", "0,,1", "-1", "0-4294967295", "0x1"] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }

    #[test]
    fn every_online_cpu_of_this_machine_is_a_possible_one() {
        let online = online(&Linux).expect("sysfs is there");
        let possible = possible(&Linux).expect("sysfs is there");
        assert!(online.iter().all(|cpu| possible.contains(cpu)), "{online:?} {possible:?}");
    }
}
