//! How perf's own user probes are described to the kernel.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys::Sys;

const FOLDER: &str = "/sys/bus/event_source/devices/uprobe";

/// The kernel's numbers for perf's own user probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmu {
    pub kind: u32,
    /// The bit of `config` for the return of a function.
    return_bit: u32,
    /// The lowest bit of the semaphore's offset in `config`, if the kernel accepts one.
    semaphore_bit: Option<u32>,
}

/// The reason why perf's user probes are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmuError {
    /// The kernel does not have them.
    #[error(
        "this kernel has no user probes ({} does not exist): it is built without \
         CONFIG_UPROBE_EVENTS, or older than Linux 4.17",
        path.display()
    )]
    Absent { path: PathBuf },
    /// A description cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A description has an unknown form.
    #[error("cannot parse `{text}` in {}", path.display())]
    Unknown { path: PathBuf, text: String },
    /// A probe has a semaphore, but this kernel cannot increment it.
    #[error(
        "the probe has a semaphore, which needs Linux 4.20: without it the program never \
         computes the probe's arguments"
    )]
    NoSemaphores,
}

impl Pmu {
    /// Reads the kernel's description.
    ///
    /// # Errors
    /// Returns [`PmuError`].
    pub fn read(sys: &dyn Sys) -> Result<Pmu, PmuError> {
        let read = |name: &str| {
            let path = Path::new(FOLDER).join(name);
            match sys.read(&path) {
                Ok(bytes) => Ok((path, String::from_utf8_lossy(&bytes).trim().to_owned())),
                Err(source) if source.kind() == io::ErrorKind::NotFound => {
                    Err(PmuError::Absent { path })
                }
                Err(source) => Err(PmuError::Read { path, source }),
            }
        };
        let (path, text) = read("type")?;
        let kind = text.parse().map_err(|_| PmuError::Unknown { path, text })?;
        let (path, text) = read("format/retprobe")?;
        let return_bit = lowest_bit(&text).ok_or(PmuError::Unknown { path, text })?;
        let semaphore_bit = match read("format/ref_ctr_offset") {
            Ok((path, text)) => Some(lowest_bit(&text).ok_or(PmuError::Unknown { path, text })?),
            Err(PmuError::Absent { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Pmu { kind, return_bit, semaphore_bit })
    }

    /// Checks that a semaphore at this offset, if there is one, can be incremented.
    ///
    /// # Errors
    /// Returns [`PmuError::NoSemaphores`] if it cannot.
    pub fn check_semaphore(&self, semaphore: Option<u64>) -> Result<(), PmuError> {
        match (semaphore, self.semaphore_bit) {
            (Some(_), None) => Err(PmuError::NoSemaphores),
            _ => Ok(()),
        }
    }

    /// The word that describes the kind of probe.
    pub(super) fn config(&self, on_return: bool, semaphore: Option<u64>) -> u64 {
        let offset = match (semaphore, self.semaphore_bit) {
            (Some(offset), Some(bit)) => offset << bit,
            _ => 0,
        };
        offset | u64::from(on_return) << self.return_bit
    }
}

/// The lowest bit of `config:0` or `config:32-63`.
fn lowest_bit(text: &str) -> Option<u32> {
    let bits = text.strip_prefix("config:")?;
    let first = bits.split_once('-').map_or(bits, |(first, _)| first);
    first.parse().ok().filter(|bit| *bit < u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn kernel() -> Fake {
        Fake::default()
            .file(&format!("{FOLDER}/type"), "8\n")
            .file(&format!("{FOLDER}/format/retprobe"), "config:0\n")
    }

    #[test]
    fn bits_are_where_the_kernel_says() {
        let sys = kernel().file(&format!("{FOLDER}/format/ref_ctr_offset"), "config:32-63\n");
        let pmu = Pmu::read(&sys).expect("described");
        assert_eq!(pmu.kind, 8);
        assert_eq!(pmu.config(false, None), 0);
        assert_eq!(pmu.config(true, None), 1);
        assert_eq!(pmu.config(true, Some(0x4020)), 0x4020_0000_0001);
    }

    #[test]
    fn a_kernel_without_user_probes_is_distinguished_from_one_without_semaphores() {
        let error = Pmu::read(&Fake::default()).expect_err("nothing there");
        assert!(error.to_string().contains("CONFIG_UPROBE_EVENTS"), "{error}");
        let pmu = Pmu::read(&kernel()).expect("described");
        pmu.check_semaphore(None).expect("none is needed");
        let error = pmu.check_semaphore(Some(8)).expect_err("one is needed");
        assert!(error.to_string().contains("4.20"), "{error}");
    }

    #[test]
    fn a_description_of_unknown_form_is_shown() {
        let sys = kernel().file(&format!("{FOLDER}/format/retprobe"), "config1:0\n");
        let error = Pmu::read(&sys).expect_err("unknown");
        assert!(error.to_string().contains("config1:0"), "{error}");
    }
}
