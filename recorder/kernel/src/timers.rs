//! What the functions are called that the kernel calls when a timer is due.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::sys::Sys;

/// Parts of the names of such functions. Others are not kept: the kernel has a hundred thousand functions.
const PARTS: [&str; 9] = [
    "timer",
    "timeout",
    "tmr",
    "tick",
    "alarm",
    "expire",
    "watchdog",
    "hrtimer_wakeup",
    "it_real_fn",
];

/// The functions of timers, by address.
#[derive(Debug, Default)]
pub struct TimerFunctions(FxHashMap<u64, Box<str>>);

impl TimerFunctions {
    /// What `/proc/kallsyms` lists; nothing for users who may not see addresses.
    pub fn read(files: &dyn Sys) -> TimerFunctions {
        let list = files.read(Path::new("/proc/kallsyms")).unwrap_or_default();
        let lines = list.split(|byte| *byte == b'\n');
        // Most lines are of something else, which is seen before any of them is made a text.
        let functions = lines.filter(|line| matches!(line.get(16..19), Some(b" t " | b" T ")));
        TimerFunctions(
            functions.filter_map(|line| function(std::str::from_utf8(line).ok()?)).collect(),
        )
    }

    pub fn name(&self, address: u64) -> Option<&str> {
        self.0.get(&address).map(|name| &**name)
    }
}

/// The address and name of a function that may be one of a timer. Hidden addresses are 0.
fn function(line: &str) -> Option<(u64, Box<str>)> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, name) = rest.split_once(' ')?;
    let name = name.split_ascii_whitespace().next()?;
    let may_be = matches!(kind, "t" | "T") && PARTS.iter().any(|part| name.contains(part));
    let address =
        u64::from_str_radix(address, 16).ok().filter(|address| *address != 0 && may_be)?;
    Some((address, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn functions_of_timers_have_names_and_others_have_none() {
        let list = "ffffffff81000010 t hrtimer_wakeup\nffffffff81000020 T process_timeout\n\
                    ffffffff81000030 t schedule\nffffffff81000040 d tick_data\n\
                    ffffffffc0000000 t own_timer_fn\t[module]\n0000000000000000 t it_real_fn\n";
        let functions = TimerFunctions::read(&Fake::default().file("/proc/kallsyms", list));
        assert_eq!(functions.name(0xffff_ffff_8100_0010), Some("hrtimer_wakeup"));
        assert_eq!(functions.name(0xffff_ffff_8100_0020), Some("process_timeout"));
        assert_eq!(functions.name(0xffff_ffff_c000_0000), Some("own_timer_fn"));
        for other in [0, 0xffff_ffff_8100_0030, 0xffff_ffff_8100_0040] {
            assert_eq!(functions.name(other), None, "{other:#x}");
        }
    }
}
