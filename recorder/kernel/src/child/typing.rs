//! Prevents COMMAND from typing into the terminal, if it runs as a user other than fxtrec's.
//!
//! Characters that a process puts into its terminal's input (TIOCSTI, and on a virtual console TIOCLINUX) are read by the next reader: the
//! shell from which root started fxtrec. A seccomp filter refuses these two requests. Linux 6.2 and later can refuse them without a filter.

use std::fs;
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::mem::offset_of;

/// Whether processes may type into their terminal: `0` or `1`. Missing before Linux 6.2, where they may.
const SWITCH: &str = "/proc/sys/dev/tty/legacy_tiocsti";

/// The major number of virtual consoles.
const CONSOLE_MAJOR: u64 = 4;

/// From linux/audit.h.
const ARCH_X86_64: u32 = 0xc000_003e;
const ARCH_I386: u32 = 0x4000_0003;
const ARCH_AARCH64: u32 = 0xc000_00b7;
const ARCH_ARM: u32 = 0x4000_0028;

/// The number of ioctl(2) in each table of system calls that a process here may use.
const IOCTLS: [(u32, u32); 5] = [
    (ARCH_X86_64, 16),
    // The x32 ABI, with 32-bit pointers.
    (ARCH_X86_64, 0x4000_0000 | 514),
    (ARCH_I386, 54),
    (ARCH_AARCH64, 29),
    (ARCH_ARM, 54),
];

const TIOCLINUX: u32 = 0x541c;

/// The filter, if fxtrec has a terminal that COMMAND could type into.
pub(super) fn filter() -> Option<Vec<libc::sock_filter>> {
    let mut terminal = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(number);
    let is_any = stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal();
    if terminal.is_none_or(|it| it == 0) {
        terminal = is_any.then_some(CONSOLE_MAJOR << 8);
    }
    let is_refused = fs::read_to_string(SWITCH).is_ok_and(|text| text.trim() == "0");
    let is_console = terminal.is_some_and(|it| it >> 8 == CONSOLE_MAJOR);
    (terminal.is_some() && (!is_refused || is_console)).then(instructions)
}

/// The number of the terminal in /proc/PID/stat, 0 for none.
fn number(stat: &str) -> Option<u64> {
    // The name may have spaces and brackets.
    stat.rsplit_once(')')?.1.split_whitespace().nth(4)?.parse().ok()
}

/// Allows all but these two requests. The kernel checks only the lower half of a request, and so does this filter.
fn instructions() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let at = |offset: usize| statement(LOAD, offset as u32);
    let mut all = Vec::new();
    for (arch, ioctl) in IOCTLS {
        all.push(at(offset_of!(libc::seccomp_data, arch)));
        all.push(libc::sock_filter { code: IF_EQUAL, jt: 0, jf: 6, k: arch });
        all.push(at(offset_of!(libc::seccomp_data, nr)));
        all.push(libc::sock_filter { code: IF_EQUAL, jt: 0, jf: 4, k: ioctl });
        // The machine is little-endian: the lower half is first.
        all.push(at(offset_of!(libc::seccomp_data, args) + size_of::<u64>()));
        all.push(libc::sock_filter { code: IF_EQUAL, jt: 1, jf: 0, k: libc::TIOCSTI as u32 });
        all.push(libc::sock_filter { code: IF_EQUAL, jt: 0, jf: 1, k: TIOCLINUX });
        all.push(statement(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    all.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter's answer to a call: interprets it as the kernel does.
    fn answer(arch: u32, nr: u32, request: u64) -> u32 {
        let words = [nr, arch, 0, 0, 7, 0, request as u32, (request >> 32) as u32];
        let filter = instructions();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = filter[at];
            at += 1;
            match u32::from(code) & 7 {
                libc::BPF_LD => loaded = words[k as usize / 4],
                libc::BPF_JMP => at += usize::from(if loaded == k { jt } else { jf }),
                _ => return k,
            }
        }
    }

    #[test]
    fn typing_is_refused_in_each_table_of_calls_and_nothing_else_is() {
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        for (arch, ioctl) in IOCTLS {
            for request in [0x5412, 0x541c, 0xffff_ffff_0000_5412] {
                assert_eq!(answer(arch, ioctl, request), refused, "{arch:x} {request:x}");
            }
            for (nr, request) in [(ioctl, 0x5413), (ioctl, 0), (ioctl + 1, 0x5412)] {
                let answer = answer(arch, nr, request);
                assert_eq!(answer, libc::SECCOMP_RET_ALLOW, "{arch:x} {nr} {request:x}");
            }
        }
        assert_eq!(answer(1, 54, 0x5412), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn the_terminal_is_behind_a_name_with_brackets() {
        assert_eq!(number("7 (a) b)) S 1 2 3 34816 8"), Some(34816));
        assert_eq!(number("7 (a"), None);
    }
}
