//! Non-scheduler events: user probes and any tracepoint.
//!
//! They write into perf's rings. If the scheduler's events are in the same ring, the kernel has put them in order; if these are in lanes,
//! the times give the order, because both use the same clock. Two events can have the same `common_type` (a tracepoint that is requested
//! twice with different filters, or that is also used to record the scheduler), and perf's own user probes have none. So as soon as there
//! is one such event, every record of the ring begins with the id that the kernel gave to the event that wrote it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use perf_event_open_sys::bindings as b;
use rustc_hash::FxHashMap;

use super::sys::Sys;
use super::uprobe::Uprobe;
use crate::units::Cpu;

/// The number of the stack pointer among perf's registers, on machines where the recorder knows it.
const STACK_POINTER: Option<u32> = match () {
    () if cfg!(target_arch = "x86_64") => Some(7),
    () if cfg!(target_arch = "aarch64") => Some(31),
    () => None,
};

/// The index of an extra event in the requested list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtraIndex(pub u16);

/// A non-scheduler event to record.
#[derive(Clone, Debug)]
pub struct Extra {
    /// Its name in messages: `sched:sched_switch`, `probe render of /bin/app`.
    pub label: String,
    pub what: What,
    /// Whether its samples carry the thread's user stack pointer.
    pub user_stack: bool,
    /// A condition in the kernel's filter language that it checks before it writes a sample.
    pub filter: Option<CString>,
}

#[derive(Clone, Debug)]
pub enum What {
    /// The tracepoint with this id.
    Tracepoint(u64),
    /// The tracepoint with this id, which represents several events of the list: the 16-bit number at this offset of its samples is the
    /// index in the list.
    Shared { tracepoint: u64, number_at: u16 },
    /// Beginnings or ends of system calls; a BPF program may write these instead.
    Calls(Calls),
    /// Written by a BPF program, which finds the events of all CPUs in `map`. It represents several events, like a shared tracepoint.
    Program { map: Arc<OwnedFd>, number_at: u16 },
    /// It is not written by a separate event.
    Elsewhere,
    /// perf's own user probe, which needs no definition and ends with its descriptor.
    Uprobe(Uprobe),
}

/// One of the two tracepoints that all system calls pass.
#[derive(Clone, Debug)]
pub struct Calls {
    /// Its id.
    pub tracepoint: u64,
    pub side: CallSide,
    /// The numbers of the requested calls, including those of 32-bit programs; `None` for all.
    pub numbers: Option<Vec<u16>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSide {
    Enter,
    Exit,
}

/// The step of opening an extra event that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraCall {
    Open,
    SetFilter,
    Id,
    Give,
}

impl ExtraCall {
    pub fn name(self) -> &'static str {
        match self {
            ExtraCall::Open => "perf_event_open",
            ExtraCall::SetFilter => "ioctl PERF_EVENT_IOC_SET_FILTER",
            ExtraCall::Id => "ioctl PERF_EVENT_IOC_ID",
            ExtraCall::Give => "bpf BPF_MAP_UPDATE_ELEM",
        }
    }
}

/// Tries to open an event on one CPU, including its filter, and closes it again.
///
/// # Errors
/// The error, and the call that returned it.
pub fn try_open(sys: &dyn Sys, cpu: Cpu, extra: &Extra) -> Result<(), (ExtraCall, io::Error)> {
    let mut attr =
        b::perf_event_attr { size: size_of::<b::perf_event_attr>() as u32, ..Default::default() };
    attr.set_disabled(1);
    extra.fill(&mut attr);
    let event = sys.perf_event_open(&mut attr, cpu.0).map_err(|error| (ExtraCall::Open, error))?;
    extra.prepare(sys, cpu, event.as_fd()).map(drop)
}

impl Extra {
    /// Completes `attr`, which has the attributes that all events share, for this event.
    pub(super) fn fill(&self, attr: &mut b::perf_event_attr) {
        attr.sample_type |= u64::from(b::PERF_SAMPLE_RAW);
        attr.__bindgen_anon_1.sample_period = 1;
        match &self.what {
            What::Tracepoint(id)
            | What::Shared { tracepoint: id, .. }
            | What::Calls(Calls { tracepoint: id, .. }) => {
                attr.type_ = b::PERF_TYPE_TRACEPOINT;
                attr.config = *id;
            }
            What::Program { .. } => {
                attr.type_ = b::PERF_TYPE_SOFTWARE;
                attr.config = u64::from(b::PERF_COUNT_SW_BPF_OUTPUT);
            }
            What::Elsewhere => {}
            What::Uprobe(probe) => probe.fill(attr),
        }
        if let (true, Some(register)) = (self.user_stack, STACK_POINTER) {
            attr.sample_type |= u64::from(b::PERF_SAMPLE_REGS_USER);
            attr.sample_regs_user = 1 << register;
        }
    }

    /// Completes the setup after the event of a CPU was opened: sets its filter, and registers it with its program. Returns its id.
    pub(super) fn prepare(
        &self,
        sys: &dyn Sys,
        cpu: Cpu,
        event: BorrowedFd<'_>,
    ) -> Result<u64, (ExtraCall, io::Error)> {
        if let Some(filter) = &self.filter {
            sys.perf_set_filter(event, filter).map_err(|error| (ExtraCall::SetFilter, error))?;
        }
        if let What::Program { map, .. } = &self.what {
            let given = sys.perf_give(event, map.as_fd(), cpu.0);
            given.map_err(|error| (ExtraCall::Give, error))?;
        }
        sys.perf_id(event).map_err(|error| (ExtraCall::Id, error))
    }
}

/// The extra events of one CPU, open.
#[derive(Debug, Default)]
pub struct OpenExtras {
    events: Vec<OwnedFd>,
    by_id: FxHashMap<u64, Opened>,
}

/// An extra event that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    index: ExtraIndex,
    /// If it represents several events, the offset of the event's number in its samples.
    number_at: Option<u16>,
    /// Whether its samples carry the stack pointer.
    pub has_stack: bool,
}

impl Opened {
    /// The event that a sample belongs to; `None` if the sample is too short.
    #[inline]
    pub fn index(self, raw: &[u8]) -> Option<ExtraIndex> {
        let Some(at) = self.number_at else { return Some(self.index) };
        let number = raw.get(usize::from(at)..)?.first_chunk()?;
        Some(ExtraIndex(u16::from_ne_bytes(*number)))
    }
}

impl OpenExtras {
    /// Adds an event that was opened for the CPU, by the id that the kernel gave it.
    pub fn add(&mut self, event: OwnedFd, id: u64, index: ExtraIndex, extra: &Extra) {
        self.events.push(event);
        let number_at = match extra.what {
            What::Shared { number_at, .. } | What::Program { number_at, .. } => Some(number_at),
            _ => None,
        };
        let has_stack = extra.user_stack && STACK_POINTER.is_some();
        self.by_id.insert(id, Opened { index, number_at, has_stack });
    }

    pub(super) fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(AsFd::as_fd)
    }

    /// The extra event that has this id.
    #[inline]
    pub fn find(&self, id: u64) -> Option<Opened> {
        self.by_id.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, options};
    use crate::perf::{CpuEvents, OpenError, Options};

    #[test]
    fn extra_events_share_the_ring_and_make_every_record_carry_an_id() {
        let fake = Fake::default();
        let extra = |id, user_stack, filter: Option<&std::ffi::CStr>| Extra {
            label: String::new(),
            what: What::Tracepoint(id),
            user_stack,
            filter: filter.map(Into::into),
        };
        let extras = Arc::new([extra(21, false, Some(c"pid==1")), extra(12, true, None)]);
        let options = Options { extras, ..options() };
        let events = CpuEvents::open(&fake, Cpu(0), &options, 1 << 20).expect("opens");
        let asked = fake.asked();
        let expected =
            ["open 2 21 cpu 0", "set_output", "set_filter pid==1", "open 2 12 cpu 0", "set_output"];
        assert_eq!(asked[asked.len() - 5..], expected);
        let identifier = u64::from(b::PERF_SAMPLE_IDENTIFIER);
        assert!(fake.attrs().iter().all(|attr| attr.sample_type & identifier != 0));
        // The dummy and the scheduler's two are first; the same tracepoint again is distinguished by its id.
        assert_eq!(events.extras.find(3), None);
        let found = |id| events.extras.find(id).and_then(|opened| opened.index(&[]));
        assert_eq!(found(4), Some(ExtraIndex(0)));
        assert_eq!(events.extras.find(4).map(|opened| opened.has_stack), Some(false));
        assert_eq!(found(5), Some(ExtraIndex(1)));
    }

    #[test]
    fn an_event_that_stands_for_several_is_opened_once_and_distinguished_by_its_samples() {
        let fake = Fake::default();
        let extra = |what| Extra { label: String::new(), what, user_stack: false, filter: None };
        let shared = What::Shared { tracepoint: 21, number_at: 4 };
        let extras = Arc::new([extra(What::Elsewhere), extra(shared), extra(What::Elsewhere)]);
        let options = Options { extras, ..options() };
        let events = CpuEvents::open(&fake, Cpu(0), &options, 1 << 20).expect("opens");
        let opened: Vec<_> = fake.asked().into_iter().filter(|it| it.contains(" 21 ")).collect();
        assert_eq!(opened, ["open 2 21 cpu 0"]);
        let opened = events.extras.find(4).expect("it is the fourth event");
        let mut raw = [0xff, 0xff, 0xff, 0xff, 2, 0];
        raw[4..].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(opened.index(&raw), Some(ExtraIndex(2)));
        assert_eq!(opened.index(&raw[..5]), None, "too short");
    }

    #[test]
    fn a_refused_filter_is_distinguished_from_a_refused_event() {
        let extra = || {
            let filter = Some(c"nonsense".into());
            let label = "a:b".to_owned();
            Extra { label, what: What::Tracepoint(21), user_stack: false, filter }
        };
        let options = Options { extras: Arc::new([extra()]), ..options() };
        let fake = Fake::default().fail("perf_set_filter", libc::EINVAL);
        let error = CpuEvents::open(&fake, Cpu(0), &options, 1 << 20).expect_err("refused");
        assert!(
            matches!(&error, OpenError::Extra { call: ExtraCall::SetFilter, label, .. } if label == "a:b"),
            "{error:?}"
        );
    }
}
