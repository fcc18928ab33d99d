//! Where threads block: a program of its own on `sched_switch`, which is there only when somebody asked for stacks.
//!
//! ```text
//!   sched_switch ------ program --+--> ring --> samples: since when, until when, who, kernel stack, number of the user stack
//!                                 +--> table of user stacks, each of them once
//! ```
//!
//! It shares nothing with the programs that record switches, and so costs nothing when it is not there.

mod program;
mod ring;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::btf::{Btf, BtfError};
use super::events::{BTF_PATH, BpfError};
use super::interrupts::InterruptCount;
use super::sys::{self, BpfSys, MapKind, MapSpec, ProgramSpec};
use super::task::{TaskLayout, offset};
use crate::sys::{Mapping, Sys};
use crate::units::{Nanos, Pid, Tid};
use program::{NO_PROGRAM, Setting, part, shared};
use ring::SampleRing;

const NAME: &str = "fxtrec_stacks";

/// Bytes of the ring that samples come through: some two thousand of them, or more.
const RING_BYTES: usize = 1 << 20;

/// How many different user stacks there is room for.
const USER_STACKS: u32 = 16 * 1024;

/// The most frames of a user stack; no more than the kernel's default for `perf_event_max_stack`.
pub const USER_FRAMES: usize = 127;

/// The most frames of a kernel stack.
pub const KERNEL_FRAMES: usize = program::KERNEL_FRAMES;

/// What became of a thread's user stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserStack {
    /// It has none: it is one of the kernel's own threads.
    NoProgram,
    /// It is in the table, under this number.
    Number(u32),
    /// The first frame could not be read.
    Unreadable,
    /// The table had no room for it.
    NoRoom,
}

/// A wait that was long, and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub tid: Tid,
    pub pid: Pid,
    /// When it went out.
    pub since: Nanos,
    /// When it came in again.
    pub until: Nanos,
    /// Tells the memory of one program from that of the next that the process executes; 0 for the kernel's own threads.
    pub space: u64,
    pub user: UserStack,
    /// The program counters of its kernel stack, the innermost first; `None` when it could not be walked.
    pub kernel: Option<Vec<u64>>,
}

/// Samples that there are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// The ring had no room for them.
    pub no_room: u64,
    /// Switches that the program did not see since it was running already on their CPU, where the kernel counts that.
    pub unseen: u64,
    /// Waits whose note was given up for that of another thread with the same lower bits of its id. They need not have been
    /// long.
    pub given_up: u64,
}

/// The program with its maps. All of it vanishes with this.
#[derive(Debug)]
pub struct BlockedStacks {
    sys: Box<dyn BpfSys + Send>,
    program: OwnedFd,
    link: Option<OwnedFd>,
    ring: SampleRing,
    user_stacks: OwnedFd,
    shared_values: Mapping,
    /// Which the program goes on using.
    _maps: [OwnedFd; 3],
}

fn map_error(what: &'static str) -> impl Fn(std::io::Error) -> BpfError {
    move |error| BpfError::Map { what, error }
}

impl BlockedStacks {
    /// Loads the program for waits of at least `over`. It does not run yet.
    ///
    /// # Errors
    /// [`BpfError`], at the first call that the kernel refuses.
    pub fn open(
        files: &dyn Sys,
        sys: Box<dyn BpfSys + Send>,
        over: Nanos,
    ) -> Result<BlockedStacks, BpfError> {
        let bytes = files.read(Path::new(BTF_PATH)).map_err(|error| BpfError::NoBtf { error })?;
        let btf = Btf::parse(bytes)?;
        let task = TaskLayout::new(&btf, InterruptCount::Unknown)?;
        let memory = memory(&btf)?;
        let array = |value_bytes: usize, mapped| MapSpec {
            kind: MapKind::Array,
            value_bytes: u32::try_from(value_bytes).unwrap_or(u32::MAX),
            entries: 1,
            mapped,
            inner: None,
        };
        let create = |what, spec: MapSpec<'_>| sys.map_create(&spec).map_err(map_error(what));
        let places = array(program::PLACES * program::PLACE_BYTES, false);
        let places = create("the threads that wait", places)?;
        let user_stacks = MapSpec {
            kind: MapKind::StackTrace,
            entries: USER_STACKS,
            ..array(USER_FRAMES * size_of::<u64>(), false)
        };
        let user_stacks = create("user stacks", user_stacks)?;
        let scratch = MapSpec { kind: MapKind::PerCpuArray, ..array(program::SAMPLE_BYTES, false) };
        let scratch = create("a sample", scratch)?;
        let shared = create("the threshold", array(shared::BYTES, true))?;
        let shared_values = Mapping::new(Some(shared.as_fd()), crate::perf::page_size())
            .map_err(map_error("the threshold"))?;
        let ring = SampleRing::new(&*sys, RING_BYTES).map_err(map_error("samples"))?;
        let insns = program::switch(Setting {
            task: &task,
            memory,
            places: places.as_fd(),
            user_stacks: user_stacks.as_fd(),
            scratch: scratch.as_fd(),
            ring: ring.fd(),
            shared: shared.as_fd(),
        })?;
        let tracepoint = task.tracepoints.switch;
        let spec = ProgramSpec { name: NAME, insns: &insns, tracepoint };
        let program = sys::load(&*sys, &spec).map_err(|(error, log)| BpfError::Load {
            name: NAME,
            error,
            log,
        })?;
        let maps = [places, scratch, shared];
        let stacks = BlockedStacks {
            sys,
            program,
            link: None,
            ring,
            user_stacks,
            shared_values,
            _maps: maps,
        };
        stacks.shared(shared::OVER).store(over.0, Ordering::Relaxed);
        Ok(stacks)
    }

    fn shared(&self, at: i16) -> &AtomicU64 {
        let at = usize::from(at.unsigned_abs()) % shared::BYTES / 8 * 8;
        // SAFETY: an aligned u64 within the page that the mapping has, which lives as long as self; the program and this
        // change it by single loads, stores and atomic additions only.
        unsafe { AtomicU64::from_ptr(self.shared_values.base().add(at).cast()) }
    }

    /// Lets the program run.
    ///
    /// # Errors
    /// [`BpfError::Attach`].
    pub fn attach(&mut self) -> Result<(), BpfError> {
        let attached = self.sys.attach(self.program.as_fd());
        self.link = Some(attached.map_err(|error| BpfError::Attach { name: NAME, error })?);
        Ok(())
    }

    /// Stops the program; what is in the ring stays readable.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Hands out the samples that there are, the oldest first. What is not one counts as unreadable.
    pub fn read(&mut self, mut take: impl FnMut(Option<Sample>)) {
        self.ring.read(|bytes| take(sample(bytes)));
    }

    /// The user stack of this number, the innermost frame first; `None` when there is none.
    pub fn user_stack(&self, number: u32) -> Option<Vec<u64>> {
        let mut bytes = [0; USER_FRAMES * size_of::<u64>()];
        self.sys.map_lookup(self.user_stacks.as_fd(), number, &mut bytes).ok()?;
        let frames = bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
        Some(frames.take_while(|&frame| frame != 0).collect())
    }

    pub fn missing(&self) -> Missing {
        Missing {
            no_room: self.shared(shared::NO_ROOM).load(Ordering::Relaxed),
            unseen: self.sys.missed(self.program.as_fd()).unwrap_or(0),
            given_up: self.shared(shared::GIVEN_UP).load(Ordering::Relaxed),
        }
    }
}

/// From the beginning of a task to the address of its memory.
fn memory(btf: &Btf) -> Result<i16, BtfError> {
    offset(btf.member(btf.structure("task_struct")?, "mm")?.offset, "mm")
}

/// What the bytes of a sample say.
fn sample(bytes: &[u8]) -> Option<Sample> {
    let double = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let walked = double(part::KERNEL)?.cast_signed();
    let frames = bytes.get(part::FRAMES..)?;
    let kernel = match usize::try_from(walked) {
        Ok(length) => {
            let frames = frames.get(..length)?.as_chunks().0;
            Some(frames.iter().map(|&frame| u64::from_ne_bytes(frame)).collect())
        }
        Err(_) => None,
    };
    let user = match double(part::USER)?.cast_signed() {
        NO_PROGRAM => UserStack::NoProgram,
        number if number == -i64::from(libc::EEXIST) || number == -i64::from(libc::ENOMEM) => {
            UserStack::NoRoom
        }
        number => u32::try_from(number).map_or(UserStack::Unreadable, UserStack::Number),
    };
    Some(Sample {
        tid: Tid(word(part::TID)?),
        pid: Pid(word(part::PID)?),
        since: Nanos(double(part::SINCE)?),
        until: Nanos(double(part::UNTIL)?),
        space: double(part::SPACE)?,
        user,
        kernel,
    })
}

#[cfg(test)]
mod tests;
