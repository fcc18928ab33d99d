//! The permissions of a user without root's rights, by capabilities and by `kernel.perf_event_paranoid`, and those of root if the kernel
//! does not have some feature.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use fxtrec_tests::binary::{self, PublicCopy};
use fxtrec_tests::folder::Folder;

use crate::Outcome;
use crate::recordings::{compare, fallback_of, record_or_refused, workload};

const NOBODY: u32 = 65534;

// Numbers of capabilities.
const DAC_READ_SEARCH: u32 = 2;
const IPC_LOCK: u32 = 14;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// Gives a file these capabilities, permitted and effective, and no others.
fn set_capabilities(file: &Path, capabilities: &[u32]) {
    // struct vfs_cap_data, revision 2.
    const REVISION_AND_EFFECTIVE: u32 = 0x0200_0001;
    let bits = capabilities.iter().fold(0_u64, |bits, capability| bits | 1 << capability);
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    let words = [REVISION_AND_EFFECTIVE, low, 0, high, 0];
    let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let path = CString::new(file.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: both strings end with a NUL, and the value is readable for its length; all live until the call returns.
    let result = unsafe {
        libc::setxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            data.as_ptr().cast(),
            data.len(),
            0,
        )
    };
    assert_eq!(result, 0, "setxattr: {}", std::io::Error::last_os_error());
}

fn set_paranoid(level: &str) {
    std::fs::write("/proc/sys/kernel/perf_event_paranoid", level).expect("root may set it");
}

/// The result of an ordinary user with these capabilities and a source: the number of switches compared, or the message.
fn try_with(copy: &PublicCopy, capabilities: &[u32], source: &str) -> Result<u64, String> {
    set_capabilities(&copy.path(), capabilities);
    let folder = Folder::new();
    std::os::unix::fs::chown(folder.path(""), Some(NOBODY), Some(NOBODY)).expect("root may");
    let mut fxtrec = Command::new(copy.path());
    fxtrec.uid(NOBODY).gid(NOBODY);
    let command = [&workload(), "threads", "1", "300"];
    match record_or_refused(fxtrec, &folder, &["--source", source], &command) {
        Ok(recording) => Ok(compare(&recording)),
        Err(Outcome::Refused(said)) => Err(said),
        Err(Outcome::Fine(_)) => unreachable!("an error is a refusal"),
    }
}

/// Everything that docs/record.md requires, and the same without each of the requirements.
pub(crate) fn capabilities() -> Outcome {
    const ALL: [(u32, &str); 4] = [
        (DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"),
        (IPC_LOCK, "CAP_IPC_LOCK"),
        (PERFMON, "CAP_PERFMON"),
        (BPF, "CAP_BPF"),
    ];
    set_paranoid("2");
    let copy = PublicCopy::new();
    let mut text = Vec::new();
    for source in ["perf", "bpf"] {
        let all = ALL.map(|(number, _)| number);
        match (source, try_with(&copy, &all, source)) {
            (_, Ok(_)) => text.push(format!("{source}: works with all")),
            ("perf", Err(said)) => panic!("perf is refused with all: {said}"),
            (_, Err(said)) => {
                text.push(format!("{source}: refused with all: {said}"));
                continue;
            }
        }
        for (without, name) in ALL {
            let rest: Vec<u32> = all.into_iter().filter(|number| *number != without).collect();
            match (try_with(&copy, &rest, source), name) {
                (Ok(_), "CAP_IPC_LOCK") => text.push(format!("not without {name}")),
                (Ok(_), "CAP_BPF") if source == "perf" => {}
                (Ok(_), _) => panic!("{source} works without {name}"),
                (Err(said), "CAP_BPF") if source == "perf" => panic!("perf needs {name}: {said}"),
                (Err(said), "CAP_IPC_LOCK") => {
                    assert!(said.contains("locked memory"), "{source} without {name}: {said}");
                }
                (Err(said), _) => {
                    let names = said.contains(name) || said.contains(&name.to_lowercase());
                    assert!(names, "{source} without {name} says: {said}");
                }
            }
        }
    }
    Outcome::Fine(text.join("; "))
}

/// A level of `kernel.perf_event_paranoid` above 2, as Debian ships it: nothing without CAP_SYS_ADMIN.
pub(crate) fn paranoid(level: &str) -> Outcome {
    set_paranoid(level);
    let copy = PublicCopy::new();
    let usual = [DAC_READ_SEARCH, IPC_LOCK, PERFMON, BPF];
    let perf = try_with(&copy, &usual, "perf");
    let administrator = [DAC_READ_SEARCH, IPC_LOCK, SYS_ADMIN];
    let counted = try_with(&copy, &administrator, "perf");
    set_paranoid("2");
    let counted = counted.unwrap_or_else(|said| panic!("refused with CAP_SYS_ADMIN: {said}"));
    match perf {
        Ok(_) => panic!("this kernel does not know the level {level}"),
        Err(said) => {
            let names = format!("kernel.perf_event_paranoid is {level}");
            assert!(said.contains(&names) && said.contains("perf_event_paranoid=2"), "{said}");
            Outcome::Fine(format!(
                "refused without CAP_SYS_ADMIN and explained; {counted} switches with it"
            ))
        }
    }
}

/// A kernel that was built without a system call: the caller and all of its children get ENOSYS for that number.
fn without_call(mut command: Command, number: libc::c_long) -> Command {
    let number = u32::try_from(number).expect("numbers of system calls are small");
    let insn = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number is the first word of the filter's data.
    let filter = [
        insn(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        insn(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        insn(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        insn(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program and its instructions are readable, and live until the call returns.
        let result = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
        };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(install) };
    command
}

/// A kernel without a feature that the default source needs: fxtrec uses the next source that works, and reports that.
pub(crate) fn without(what: &str) -> Outcome {
    let (number, next) = match what {
        "bpf" => (libc::SYS_bpf, "perf"),
        // The source `bpf` takes forks and names from perf.
        "perf" => (libc::SYS_perf_event_open, "ftrace"),
        _ => panic!("'{what}' cannot be taken away"),
    };
    fallback_of(without_call(binary::command(), number), Some(next))
}
