//! The tracepoints after which a process may be in a different cgroup than its parent was at its creation.
//!
//! The new cgroup is read from `/proc`, or found in the cgroup hierarchy by the id that some of these tracepoints contain. The latter also
//! works if the process has exited. The kernel filters these events, so most processes cause no events.

use std::ffi::CString;

use super::event::{Kind, Life};
use super::tracepoint::{At, LayoutError, chunk, id, least, locate, tid_at};
use fxtrec_kernel::format::Format;
use fxtrec_kernel::perf::Chosen;

/// `CLONE_INTO_CGROUP` of clone3(2).
pub(super) const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// The format descriptions of the tracepoints.
#[derive(Clone, Debug)]
pub struct HomeFormats {
    /// `cgroup_attach_task`.
    pub attach: Format,
    /// `task_newtask`, if it is recorded only for this purpose.
    pub newtask: Option<Format>,
    /// The number of the hierarchy whose cgroups identify processes.
    pub hierarchy: u32,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    id: u16,
    least: usize,
    pid: At,
    /// The id of the cgroup.
    cgroup: Option<At>,
}

/// The offsets of their fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct HomeLayout {
    attach: Shape,
    newtask: Option<Shape>,
    hierarchy: u32,
}

impl Shape {
    fn new(format: &Format) -> Result<Shape, LayoutError> {
        let pid = locate(format, "pid", &[4])?;
        let cgroup = locate(format, "dst_id", &[8]).ok();
        Ok(Shape { id: id(format)?, least: least(format), pid, cgroup })
    }
}

impl HomeLayout {
    pub(super) fn new(formats: &HomeFormats) -> Result<HomeLayout, LayoutError> {
        let newtask = formats.newtask.as_ref().map(Shape::new).transpose()?;
        let hierarchy = formats.hierarchy;
        Ok(HomeLayout { attach: Shape::new(&formats.attach)?, newtask, hierarchy })
    }

    /// The moves to record, in the kernel's filter language.
    pub(super) fn filter_of_moves(&self) -> String {
        format!("dst_root=={}", self.hierarchy)
    }

    /// The events to record.
    pub(super) fn chosen(&self) -> Vec<Chosen> {
        // Neither text contains a NUL byte.
        let chosen = |shape: Shape, filter: String| Chosen {
            id: shape.id.into(),
            filter: CString::new(filter).ok(),
        };
        let born_elsewhere = format!("clone_flags & {CLONE_INTO_CGROUP:#x}");
        let newtask = self.newtask.map(|shape| chosen(shape, born_elsewhere));
        let moves = chosen(self.attach, self.filter_of_moves());
        std::iter::once(moves).chain(newtask).collect()
    }

    /// Decodes the sample of the tracepoint with this id, common fields first; `None` for other tracepoints.
    pub(super) fn decode(&self, id: u16, raw: &[u8]) -> Option<Kind> {
        let mut shapes = std::iter::once(self.attach).chain(self.newtask);
        let shape = shapes.find(|shape| shape.id == id && raw.len() >= shape.least)?;
        let cgroup = shape.cgroup.and_then(|at| chunk(raw, at)).map(u64::from_ne_bytes);
        Some(Kind::Life(Life::Home { tid: tid_at(raw, shape.pid)?, cgroup }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sched::tests::format;
    use super::*;
    use fxtrec_units::Tid;

    fn formats() -> HomeFormats {
        let attach = "\tfield:int dst_root;\toffset:8;\tsize:4;\tsigned:1;
\tfield:u64 dst_id;\toffset:16;\tsize:8;\tsigned:0;
\tfield:int pid;\toffset:24;\tsize:4;\tsigned:1;";
        let newtask = "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned long clone_flags;\toffset:32;\tsize:8;\tsigned:0;";
        HomeFormats {
            attach: format("cgroup_attach_task", 700, attach, "\"\""),
            newtask: Some(format("task_newtask", 701, newtask, "\"\"")),
            hierarchy: 3,
        }
    }

    #[test]
    fn either_tells_whose_cgroup_is_to_be_looked_up() {
        let layout = HomeLayout::new(&formats()).expect("a known shape");
        let mut raw = [0; 40];
        raw[24..28].copy_from_slice(&77_u32.to_ne_bytes());
        raw[8..12].copy_from_slice(&78_u32.to_ne_bytes());
        raw[16..24].copy_from_slice(&5_u64.to_ne_bytes());
        let of = |tid, cgroup| Some(Kind::Life(Life::Home { tid: Tid(tid), cgroup }));
        assert_eq!(layout.decode(700, &raw), of(77, Some(5)));
        assert_eq!(layout.decode(701, &raw), of(78, None));
        assert_eq!(layout.decode(701, &raw[..39]), None, "too short");
        assert_eq!(layout.decode(702, &raw), None);
    }

    #[test]
    fn the_kernel_is_asked_for_those_alone_that_matter() {
        let chosen = |formats: &HomeFormats| HomeLayout::new(formats).expect("known").chosen();
        let of = |id, filter: &std::ffi::CStr| Chosen { id, filter: Some(filter.to_owned()) };
        let all = [of(700, c"dst_root==3"), of(701, c"clone_flags & 0x200000000")];
        assert_eq!(chosen(&formats()), all);
        assert_eq!(chosen(&HomeFormats { newtask: None, ..formats() }), all[..1]);
    }
}
