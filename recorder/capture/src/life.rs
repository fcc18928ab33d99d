//! The tracepoints that report threads that are created, exit or are renamed.
//!
//! perf has its own records for this; with ftrace, these tracepoints replace them.

use super::event::{Comm, Kind, Life};
use super::homes::CLONE_INTO_CGROUP;
use super::tracepoint::{At, LayoutError, chunk, id, least, locate, tid_at, u32_at};
use fxtrec_kernel::format::Format;

/// The bit of clone(2)'s flags that makes a thread of the same process.
const CLONE_THREAD: u32 = libc::CLONE_THREAD as u32;

/// The format descriptions of the tracepoints.
#[derive(Clone, Debug)]
pub struct LifeFormats {
    pub newtask: Format,
    pub rename: Format,
    pub exit: Format,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    id: u16,
    least: usize,
    pid: At,
}

impl Shape {
    fn new(format: &Format) -> Result<Shape, LayoutError> {
        Shape::with(format, "pid")
    }

    fn with(format: &Format, pid: &str) -> Result<Shape, LayoutError> {
        Ok(Shape { id: id(format)?, least: least(format), pid: locate(format, pid, &[4])? })
    }

    fn is_of(&self, id: u16, raw: &[u8]) -> bool {
        self.id == id && raw.len() >= self.least
    }
}

/// The offsets of all fields in them.
#[derive(Clone, Copy, Debug)]
pub struct LifeLayout {
    newtask: Shape,
    /// The lower half of the flags.
    clone_flags: At,
    /// The upper half, if there is one.
    upper_flags: Option<At>,
    /// The common field that has the current thread.
    current: At,
    rename: Shape,
    newcomm: At,
    exit: Shape,
}

impl LifeLayout {
    /// Locates every field that is used.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if the format of this kernel's tracepoints is unknown.
    pub fn new(formats: &LifeFormats) -> Result<LifeLayout, LayoutError> {
        let flags = locate(&formats.newtask, "clone_flags", &[4, 8])?;
        let wide = formats.newtask.field("clone_flags")?.size == 8;
        let lower = if wide && cfg!(target_endian = "big") { 4 } else { 0 };
        let upper = if cfg!(target_endian = "big") { 0 } else { 4 };
        // Linux 6.16 to 6.18 do not report which thread is renamed. It is the current thread, unless another one writes the name to
        // /proc/PID/comm; in that case the next switch of either thread corrects the name.
        let says_who = formats.rename.find("pid").is_some();
        Ok(LifeLayout {
            newtask: Shape::new(&formats.newtask)?,
            clone_flags: flags + lower,
            upper_flags: wide.then_some(flags + upper),
            current: locate(&formats.newtask, "common_pid", &[4])?,
            rename: Shape::with(&formats.rename, if says_who { "pid" } else { "common_pid" })?,
            newcomm: locate(&formats.rename, "newcomm", &[16])?,
            exit: Shape::new(&formats.exit)?,
        })
    }

    /// Decodes the sample of a tracepoint, common fields first; `None` for other tracepoints.
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        let id = u16::from_ne_bytes(chunk(raw, 0)?);
        let life = if self.newtask.is_of(id, raw) {
            Life::Begin {
                tid: tid_at(raw, self.newtask.pid)?,
                parent: tid_at(raw, self.current)?,
                same_process: u32_at(raw, self.clone_flags)? & CLONE_THREAD != 0,
                elsewhere: match self.upper_flags {
                    Some(at) => u32_at(raw, at)? & (CLONE_INTO_CGROUP >> 32) as u32 != 0,
                    None => false,
                },
            }
        } else if self.rename.is_of(id, raw) {
            let comm: [u8; 16] = chunk(raw, self.newcomm)?;
            Life::Rename { tid: tid_at(raw, self.rename.pid)?, comm: Comm::from_bytes(&comm) }
        } else if self.exit.is_of(id, raw) {
            Life::End { tid: tid_at(raw, self.exit.pid)? }
        } else {
            return None;
        };
        Some(Kind::Life(life))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sched::tests::format;
    use super::*;
    use fxtrec_units::Tid;

    pub(crate) fn layout() -> LifeLayout {
        layout_with(
            "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;
\tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;",
        )
    }

    fn layout_with(rename: &str) -> LifeLayout {
        let newtask = "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;
\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;";
        let exit = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;";
        let formats = LifeFormats {
            newtask: format("task_newtask", 901, newtask, "\"\""),
            rename: format("task_rename", 902, rename, "\"\""),
            exit: format("sched_process_exit", 903, exit, "\"\""),
        };
        LifeLayout::new(&formats).expect("a known shape")
    }

    fn raw(id: u16, current: u32, len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut raw = vec![0; len];
        let (id, current) = (id.to_ne_bytes(), current.to_ne_bytes());
        for (at, bytes) in parts.iter().copied().chain([(0, &id[..]), (4, &current[..])]) {
            raw[at..at + bytes.len()].copy_from_slice(bytes);
        }
        raw
    }

    fn life(raw: &[u8]) -> Option<Life> {
        match layout().decode(raw) {
            Some(Kind::Life(life)) => Some(life),
            _ => None,
        }
    }

    #[test]
    fn a_new_thread_is_distinguished_from_a_new_process_by_how_it_was_made() {
        let pid = 77u32.to_ne_bytes();
        let thread = libc::CLONE_THREAD as u64;
        let kinds = [(0, false, false), (thread, true, false), (CLONE_INTO_CGROUP, false, true)];
        for (flag, same_process, elsewhere) in kinds {
            let flags = 0x0000_0500_u64 + flag;
            let raw = raw(901, 5, 40, &[(8, &pid), (32, &flags.to_ne_bytes())]);
            let (tid, parent) = (Tid(77), Tid(5));
            let expected = Life::Begin { tid, parent, same_process, elsewhere };
            assert_eq!(life(&raw), Some(expected));
        }
    }

    #[test]
    fn a_new_name_and_an_end_are_decoded() {
        let pid = 77u32.to_ne_bytes();
        let renamed = raw(902, 77, 44, &[(8, &pid), (12, b"old\0"), (28, b"new\0junk")]);
        let comm = Comm::from_bytes(b"new");
        assert_eq!(life(&renamed), Some(Life::Rename { tid: Tid(77), comm }));
        let ended = raw(903, 77, 28, &[(24, &pid)]);
        assert_eq!(life(&ended), Some(Life::End { tid: Tid(77) }));
    }

    #[test]
    fn a_kernel_that_does_not_say_who_is_renamed_means_the_current_thread() {
        // In the form of Linux 6.18.
        let layout = layout_with(
            "\tfield:char oldcomm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:char newcomm[16];\toffset:24;\tsize:16;\tsigned:0;
\tfield:short oom_score_adj;\toffset:40;\tsize:2;\tsigned:1;",
        );
        let raw = raw(902, 77, 42, &[(8, b"old\0"), (24, b"new\0junk")]);
        let renamed = Life::Rename { tid: Tid(77), comm: Comm::from_bytes(b"new") };
        assert_eq!(layout.decode(&raw), Some(Kind::Life(renamed)));
    }

    #[test]
    fn another_tracepoint_and_a_short_one_are_nothing() {
        assert_eq!(life(&raw(904, 77, 44, &[])), None);
        assert_eq!(life(&raw(902, 77, 43, &[])), None);
        assert_eq!(life(&[1]), None);
    }
}
