//! The time that the host of a virtual machine took from its CPUs (steal time).

use std::path::Path;

use crate::clock;
use crate::sys::Sys;
use crate::units::{Cpu, Nanos};

const STAT_PATH: &str = "/proc/stat";
const COMMAND_LINE_PATH: &str = "/proc/cmdline";

/// The name of the hypervisor, if there is one.
const HYPERVISOR_PATH: &str = "/sys/hypervisor/type";

/// The option on the kernel's command line that leaves stolen time in the clocks of tasks.
const NOT_ACCOUNTED: &str = "no-steal-acc";

/// The columns before that of stolen time: user, nice, system, idle, iowait, irq, softirq.
const COLUMNS_BEFORE: usize = 7;

/// Whether a kernel that can subtract stolen time from the clocks of its tasks does so. On Xen it cannot: a CPU cannot read the stolen time
/// of another one.
pub fn is_accounted(sys: &dyn Sys) -> bool {
    let read = |path: &str| sys.read(Path::new(path)).unwrap_or_default();
    let command_line = read(COMMAND_LINE_PATH);
    let mut words = command_line.split(u8::is_ascii_whitespace);
    !words.any(|word| word == NOT_ACCOUNTED.as_bytes())
        && read(HYPERVISOR_PATH).trim_ascii() != b"xen"
}

/// The time stolen from each CPU since the machine started, as of the last tick of that CPU. Empty if it is not reported.
pub fn of_cpus(sys: &dyn Sys) -> Vec<(Cpu, Nanos)> {
    let bytes = sys.read(Path::new(STAT_PATH)).unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes), nanos_per_tick())
}

/// The stolen time at the beginning of some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StealWatch {
    begun: Nanos,
    stolen: Vec<(Cpu, Nanos)>,
}

/// The stolen time since then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StealGrowth {
    pub during: Nanos,
    /// By CPU, without those that have come online since.
    pub stolen: Vec<(Cpu, Nanos)>,
}

impl StealWatch {
    pub fn begin(sys: &dyn Sys) -> StealWatch {
        StealWatch { begun: clock::now(), stolen: of_cpus(sys) }
    }

    /// The time stolen since then.
    pub fn growth(&self, sys: &dyn Sys) -> StealGrowth {
        let during = Nanos(clock::now().0.saturating_sub(self.begun.0));
        StealGrowth { during, stolen: grown(&self.stolen, &of_cpus(sys)) }
    }
}

fn grown(before: &[(Cpu, Nanos)], after: &[(Cpu, Nanos)]) -> Vec<(Cpu, Nanos)> {
    let growth = |(cpu, now): &(Cpu, Nanos)| {
        let (_, then) = before.iter().find(|(known, _)| known == cpu)?;
        Some((*cpu, Nanos(now.0.saturating_sub(then.0))))
    };
    after.iter().filter_map(growth).collect()
}

fn parse(stat: &str, nanos_per_tick: u64) -> Vec<(Cpu, Nanos)> {
    let cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let ticks: u64 = words.nth(COLUMNS_BEFORE)?.parse().ok()?;
        Some((Cpu(number), Nanos(ticks.saturating_mul(nanos_per_tick))))
    };
    // The line for all CPUs has no number, and eleven figures.
    let of_one = |line: &&str| !line.starts_with("cpu ");
    stat.lines().filter(of_one).filter_map(cpu).collect()
}

/// The unit of `/proc/stat`.
fn nanos_per_tick() -> u64 {
    // SAFETY: it takes a number and returns one.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(per_second).unwrap_or(100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_figure_of_each_cpu() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 80 0 0\ncpu12 1 2 3 4 5 6 7 3 0 0\nintr 5\n";
        let expected = [(Cpu(0), Nanos(800_000_000)), (Cpu(12), Nanos(30_000_000))];
        assert_eq!(parse(stat, 10_000_000), expected);
    }

    #[test]
    fn growth_is_told_of_cpus_that_were_there_at_both_ends() {
        let before = [(Cpu(0), Nanos(5)), (Cpu(1), Nanos(7))];
        let after = [(Cpu(1), Nanos(9)), (Cpu(2), Nanos(9))];
        assert_eq!(grown(&before, &after), [(Cpu(1), Nanos(2))]);
    }

    #[test]
    fn figures_that_are_not_there_are_left_out() {
        assert_eq!(parse("cpu0 1 2 3 4\ncpu\ncpux 1 2 3 4 5 6 7 8\n", 1), []);
    }
}
