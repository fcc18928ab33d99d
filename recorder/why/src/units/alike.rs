//! Which waits of a thread are alike, by the system call, what ends them, and their stacks.
//!
//! A stack may contain too much or too little: an interpreter calls the function that sleeps in different ways, the functions of the
//! interpreted program are not known at first, and some stacks are missed.

use fxt_reader::Koid;
use fxtrec_blame::Class;
use fxtrec_report::stacks::{Frame, LATE, Recorded, Stack};
use fxtrec_sched::backtrace::Kind;
use rustc_hash::FxHashMap;

use super::{
    Ender, INTERRUPT, Known, LEAST_WAITS, MOST_INSIDE, Place, Thread, UNKNOWN, Wait, Waits, hash,
};

/// The innermost functions of a program that identify how it sleeps: the C library's, and its caller.
const INNERMOST: usize = 2;

impl Waits {
    /// The places of all waits of a thread.
    pub(super) fn places(
        &self,
        thread: &Thread,
        koid: u64,
        known: &Known<'_>,
        stacks: &StackIds,
    ) -> Vec<Place> {
        let with_stack: Vec<(Place, StackId)> =
            thread.waits.iter().map(|wait| self.place(wait, koid, known, stacks)).collect();
        // An interpreter's functions are not known at first, and sometimes cannot be read. Such a sleep counts as one of the thread's most
        // frequent sleeps if it is about as long.
        let mut named: FxHashMap<(u32, u64), FxHashMap<u64, Sum>> = FxHashMap::default();
        let mut nameless: FxHashMap<Place, Sum> = FxHashMap::default();
        for (wait, (place, stack)) in thread.waits.iter().zip(&with_stack) {
            let sum = match stack.reads {
                Reads::None => continue,
                Reads::Part => nameless.entry(*place).or_default(),
                Reads::All => {
                    named.entry((place.0, stack.inner)).or_default().entry(place.2).or_default()
                }
            };
            (sum.count, sum.length) = (sum.count + 1, sum.length + wait.length());
        }
        let most = |all: &FxHashMap<u64, Sum>| {
            all.iter().map(|(id, sum)| (*sum, *id)).max_by_key(|it| (it.0.count, it.1))
        };
        let named: FxHashMap<(u32, u64), (Sum, u64)> =
            named.iter().filter_map(|(key, all)| Some((*key, most(all)?))).collect();
        let mut places: Vec<Place> = with_stack
            .iter()
            .map(|&(place, stack)| {
                let alike = named.get(&(place.0, stack.inner));
                let alike =
                    alike.filter(|it| nameless.get(&place).is_some_and(|own| own.is_like(it.0)));
                (place.0, place.1, alike.map_or(place.2, |it| it.1))
            })
            .collect();
        let mut counts: FxHashMap<Place, usize> = FxHashMap::default();
        for place in &places {
            *counts.entry(*place).or_default() += 1;
        }
        // If the stack of a long wait was missed, or if a few short waits have no stack, they get the most frequent stack.
        let mut usual: FxHashMap<(u32, Ender), (usize, u64)> = FxHashMap::default();
        for (&(call, ender, stack), &count) in counts.iter().filter(|(place, _)| place.2 != 0) {
            let most = usual.entry((call, ender)).or_default();
            *most = (*most).max((count, stack));
        }
        let long = known.stacks.and_then(|stacks| stacks.over).unwrap_or(u64::MAX);
        let is_missed = |at: usize| places[at].2 == 0 && thread.waits[at].length() >= long;
        // A missed wait was at the same place as the waits before and after it, if these two are alike.
        let known_alike = |at: usize, other: usize| {
            let (wait, place) = (places[at], places[other]);
            (wait.0, wait.1) == (place.0, place.1) && place.2 != 0
        };
        let between = |at: usize| {
            let mut others = (0..at).rev().take(MOST_INSIDE);
            let before = others.find(|other| known_alike(at, *other))?;
            let mut others = (at + 1..places.len()).take(MOST_INSIDE);
            let after = others.find(|other| known_alike(at, *other))?;
            (places[before] == places[after]).then_some((at, places[before].2))
        };
        let found: Vec<(usize, u64)> =
            (0..places.len()).filter(|at| is_missed(*at)).filter_map(between).collect();
        for (at, stack) in found {
            places[at].2 = stack;
        }
        let waits = thread.waits.iter().zip(&mut places);
        for (wait, place) in waits.filter(|(_, place)| place.2 == 0) {
            if let Some((_, stack)) = usual.get(&(place.0, place.1))
                && (counts[place] < LEAST_WAITS || wait.length() >= long)
            {
                place.2 = *stack;
            }
        }
        places
    }

    fn place(
        &self,
        wait: &Wait,
        koid: u64,
        known: &Known<'_>,
        stacks: &StackIds,
    ) -> (Place, StackId) {
        let ender = match wait.by {
            INTERRUPT => Ender::Interrupt,
            UNKNOWN => Ender::Unknown,
            by => Ender::Thread(hash((known.comm)((known.koid)(by)).unwrap_or_default())),
        };
        // Only longer waits have stacks. For classes other than these, a stack would separate long waits from short ones.
        let class = (known.class)(wait.call());
        let has_place = matches!(class, Class::Sleep | Class::Lock);
        let stack = has_place.then(|| stacks.find(koid, wait)).flatten().unwrap_or_default();
        match class {
            Class::Sleep => ((wait.call, ender, stack.sleeper), stack),
            _ => ((wait.call, ender, stack.exact), StackId::default()),
        }
    }
}

/// Which functions of an interpreted program a stack has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reads {
    /// The wait has no stack, or its stack is irrelevant.
    #[default]
    None,
    /// The program is not interpreted, or its functions are not known yet, or some could not be read.
    Part,
    All,
}

/// A number of waits.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    length: u64,
}

impl Sum {
    /// Whether these are about as long as others.
    fn is_like(self, other: Sum) -> bool {
        let mean = |sum: Sum| sum.length / sum.count.max(1);
        mean(self) / 2 <= mean(other) && mean(other) / 2 <= mean(self)
    }
}

/// Hashes of a stack, which identify the place where the thread waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StackId {
    /// All frames; 0 if there is no stack.
    exact: u64,
    /// The innermost functions of the program, and the functions of an interpreted program. The interpreter's own frames between them
    /// depend on how often it has run that code.
    pub(super) sleeper: u64,
    /// The innermost functions of the program.
    inner: u64,
    reads: Reads,
}

/// By thread, in order of time: when a wait with a stack began, and the stack.
#[derive(Default)]
pub(super) struct StackIds(FxHashMap<u64, Vec<(u64, StackId)>>);

impl StackIds {
    pub(super) fn of(recorded: &Recorded) -> StackIds {
        let mut ids = StackIds::default();
        // Equal stacks share their addresses.
        let mut known: FxHashMap<*const u64, StackId> = FxHashMap::default();
        for stack in recorded.all.iter().filter(|stack| stack.kind == Kind::OffCpu) {
            let id = known.entry(stack.addresses().as_ptr());
            let id = *id.or_insert_with(|| StackId::of(recorded, stack));
            ids.0.entry(stack.thread.0).or_default().push((stack.time, id));
        }
        for list in ids.0.values_mut() {
            list.sort_unstable();
        }
        ids
    }

    /// The stack of a wait.
    pub(super) fn find(&self, koid: u64, wait: &Wait) -> Option<StackId> {
        let list = self.0.get(&Koid(koid).0)?;
        let before = list.partition_point(|it| it.0 < wait.to).checked_sub(1)?;
        Some(list[before]).filter(|it| it.0.saturating_add(LATE) >= wait.from).map(|it| it.1)
    }
}

impl StackId {
    fn of(recorded: &Recorded, stack: &Stack) -> StackId {
        let in_program = || recorded.frames(stack).filter(|frame| !frame.in_kernel);
        let inner: Vec<u64> = in_program().take(INNERMOST).map(|frame| frame.address).collect();
        let interpreted = || in_program().filter(Frame::is_interpreted);
        let functions: Vec<u64> = interpreted().map(|frame| frame.address).collect();
        let is_read =
            interpreted().all(|frame| frame.function.is_some_and(|it| !it.starts_with('[')));
        let exact = hash(stack.addresses());
        StackId {
            exact,
            sleeper: if functions.is_empty() { exact } else { hash((&inner, &functions)) },
            inner: hash(&inner),
            reads: if is_read && !functions.is_empty() { Reads::All } else { Reads::Part },
        }
    }
}
