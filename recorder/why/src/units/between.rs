//! Relations between threads: which thread waited for which, which threads worked meanwhile, and which were idle.

use fxtrec_blame::Class;
use fxtrec_blame::threads::Index;
use fxtrec_sched::State;

use super::{
    INTERRUPT, Known, MOST_DEEP, MOST_INSIDE, MOST_OTHERS, NO_CALL, SAMPLES, Thread, UNKNOWN, Unit,
    Wait, Waits,
};

impl Waits {
    /// Whether the thread waited, during its unit, for most of the other thread's unit or, if the two are in different processes, for a
    /// quarter of that unit and most of its own. It may have waited for any thread of the other process, or for a thread that waited for
    /// one of these.
    pub(super) fn waits_for(
        &self,
        (at, unit): (usize, &Unit),
        (other_at, other): (usize, &Unit),
        known: &Known<'_>,
    ) -> bool {
        let process = |at: usize| (known.process)((known.koid)(at as Index));
        let of_other = process(other_at);
        let is_of_other = |by| by < self.threads.len() && process(by) == of_other;
        let is_it = |by: usize| by == other_at || by != at && of_other.is_some() && is_of_other(by);
        let length = other.to - other.from;
        // If a server answers several clients, a client waits for only a part of the server's work.
        let own = ((unit.to - unit.from) / 5 * 4).max(length / 4);
        let is_client = process(at) != of_other;
        let least = if is_client { (length / 5 * 4).min(own) } else { length / 5 * 4 };
        let within = (unit.from, unit.to);
        at != other_at && self.is_behind(at, within, &is_it, (other, least), MOST_DEEP)
    }

    fn is_behind(
        &self,
        at: usize,
        (from, to): (u64, u64),
        is_it: &impl Fn(usize) -> bool,
        (other, least): (&Unit, u64),
        deep: usize,
    ) -> bool {
        let Some(thread) = self.threads.get(at) else { return false };
        // Such a wait contains the middle.
        let (begin, end) = (from.max(other.from), to.min(other.to));
        let middle = begin + end.saturating_sub(begin) / 2;
        let inside = thread.waits.partition_point(|wait| wait.to <= middle);
        let Some(call) = thread.waits.get(inside).map(|wait| wait.call) else { return false };
        // Its own timers may have interrupted that wait, and a wakeup may be missing from the file.
        let again = |wait: &&Wait| wait.call == call && matches!(wait.by, INTERRUPT | UNKNOWN);
        let (before, after) = thread.waits.split_at(inside);
        let first = inside - before.iter().rev().take(MOST_INSIDE).take_while(again).count();
        let last = inside + after.iter().take(MOST_INSIDE).take_while(again).count();
        let Some(wait) = thread.waits.get(last).filter(|wait| wait.call == call) else {
            return false;
        };
        let (from, to) = (thread.waits[first].from.max(from), wait.to.min(to));
        let by = wait.by as usize;
        let is_there = || self.is_behind(by, (from, to), is_it, (other, least), deep - 1);
        to.min(other.to).saturating_sub(from.max(other.from)) >= least
            && (is_it(by) || deep > 0 && is_there())
    }

    /// Whether the thread waited during at least half of a unit for threads that were idle themselves: for instance, it passed its work on
    /// to another thread of a pool.
    pub(super) fn is_idle_after_all(&self, at: usize, unit: &Unit, idle: &[Vec<bool>]) -> bool {
        let waits = &self.threads[at].waits;
        let first = waits.partition_point(|wait| wait.to <= unit.from);
        let within = waits[first..].iter().take_while(|wait| wait.from < unit.to);
        let length = unit.to - unit.from;
        let long = within.filter(|wait| !wait.is_gap() && wait.length() >= length / 8);
        let of_idle =
            long.map(|wait| self.idle_behind(at, wait.by, (wait.from, wait.to), idle, MOST_DEEP));
        of_idle.sum::<u64>() >= length.div_ceil(2)
    }

    /// Whether a unit is work that another thread of the process handed to a thread, and for which no thread waited: for instance, the work
    /// of a runtime's compiler. Such work is not late, but the thread that it waits for may be.
    pub(super) fn is_in_background(
        &self,
        at: usize,
        unit: &Unit,
        idle: &[Vec<bool>],
        (others, known): (&[Index], &Known<'_>),
    ) -> bool {
        let thread = &self.threads[at];
        let before = thread.waits.partition_point(|wait| wait.to < unit.from);
        let is_handed = thread.waits.get(before).is_some_and(|wait| {
            (known.class)(wait.call()) == Class::Lock && others.contains(&wait.by)
        });
        let waited_for = |other: &Index| {
            let other = *other as usize;
            let first = self.threads[other].waits.partition_point(|wait| wait.to < unit.from);
            let ended = self.threads[other].waits.iter().enumerate().skip(first);
            ended.take_while(|(_, wait)| wait.from < unit.to).any(|(inside, wait)| {
                let is_idle = || idle[other].get(inside).is_some_and(|it| *it);
                wait.by as usize == at && wait.length() >= unit.excess() / 2 && !is_idle()
            })
        };
        others.len() <= MOST_OTHERS
            && is_handed
            && Self::blocked(thread, (unit.from, unit.to)) < unit.excess() / 2
            && !others.iter().any(waited_for)
    }

    /// How long a waker, or a thread that it waited for, was in an idle wait that no other thread ended.
    fn idle_behind(
        &self,
        at: usize,
        by: Index,
        (from, to): (u64, u64),
        idle: &[Vec<bool>],
        deep: usize,
    ) -> u64 {
        let by = by as usize;
        let Some(waker) = self.threads.get(by).filter(|_| by != at) else { return 0 };
        let end = waker.waits.partition_point(|it| it.from < to);
        let (mut sum, mut seen) = (0, to);
        // The event loop's own timers may interrupt a wait.
        let (mut call, mut ended_by) = (NO_CALL, INTERRUPT);
        for inside in (0..end).rev().take(MOST_INSIDE) {
            let wait = &waker.waits[inside];
            if wait.to <= from {
                break;
            }
            if !matches!(wait.by, INTERRUPT | UNKNOWN) || wait.call != call {
                (call, ended_by) = (wait.call, wait.by);
            }
            let clipped = (wait.from.max(from), wait.to.min(to));
            seen = clipped.0;
            if wait.is_gap() {
                continue;
            }
            let length = clipped.1 - clipped.0;
            let is_idle = || idle[by].get(inside).is_some_and(|it| *it);
            sum += match ended_by {
                INTERRUPT | UNKNOWN if is_idle() => length,
                INTERRUPT | UNKNOWN => 0,
                _ if deep == 0 => 0,
                other => self.idle_behind(at, other, clipped, idle, deep - 1),
            };
        }
        // If there are more waits, the examined ones represent all of them.
        let is_cut = end > MOST_INSIDE && waker.waits[end - MOST_INSIDE].from > from;
        match is_cut {
            true => {
                (u128::from(sum) * u128::from(to - from) / u128::from((to - seen).max(1))) as u64
            }
            false => sum,
        }
    }

    /// How long a thread was blocked between two times; neither is within a wait.
    pub(super) fn blocked(thread: &Thread, (from, to): (u64, u64)) -> u64 {
        let first = thread.waits.partition_point(|wait| wait.to <= from);
        let within = thread.waits[first..].iter().take_while(|wait| wait.from < to);
        within.filter(|wait| !wait.is_gap()).map(Wait::length).sum()
    }

    /// Whether a thread requested what it waits for, in at least half of its waits in a system call: after the previous wait, it woke the
    /// thread that then ended this one. A thread that never does so waits for work.
    pub(super) fn asks(&self, at: usize, call: u32) -> bool {
        let waits = &self.threads[at].waits;
        let pairs = waits.windows(2).filter(|pair| pair[1].call == call && !pair[1].is_gap());
        let step = pairs.clone().count().div_ceil(SAMPLES).max(1);
        let asked = |pair: &[Wait]| {
            let Some(waker) = self.threads.get(pair[1].by as usize) else { return false };
            let before = waker.waits.partition_point(|it| it.to < pair[0].to);
            let since = waker.waits[before..].iter().take(MOST_INSIDE);
            since.take_while(|it| it.to <= pair[1].to).any(|it| it.by as usize == at)
        };
        let (mut all, mut own) = (0, 0);
        for pair in pairs.step_by(step) {
            (all, own) = (all + 1, own + usize::from(asked(pair)));
        }
        own * 2 >= all
    }

    /// For the thread among these that was blocked least during this wait: how long it was not blocked.
    pub(super) fn most_awake(&self, threads: &[Index], wait: &Wait) -> u64 {
        let awake = |index: &Index| {
            let thread = &self.threads[*index as usize];
            // Without further records, the thread stays in its last state.
            let is_active = thread.state == State::Running || thread.state.is_waiting();
            let last = if is_active { wait.to } else { thread.last };
            let (from, to) = (wait.from.max(thread.first), wait.to.min(last));
            let inside = |from: u64, to: u64| to.min(wait.to).saturating_sub(from.max(wait.from));
            let end = thread.waits.partition_point(|it| it.from < wait.to);
            let blocked = thread.waits[..end].iter().rev().take_while(|it| it.to > wait.from);
            let blocked: u64 = blocked.map(|it| inside(it.from, it.to)).sum();
            to.saturating_sub(from).saturating_sub(blocked)
        };
        threads.iter().map(awake).max().unwrap_or(0)
    }

    /// How long the waker, or a thread that it waited for, was active during this wait.
    pub(super) fn worked(&self, wait: &Wait, known: &Known<'_>, deep: usize) -> u64 {
        let class = (known.class)(wait.call());
        if matches!(wait.by, INTERRUPT | UNKNOWN) {
            let is_work = matches!(class, Class::Disk | Class::Io | Class::NoSyscall);
            return if is_work { wait.length() } else { 0 };
        }
        let Some(waker) = self.threads.get(wait.by as usize) else { return 0 };
        let began = wait.from.max(waker.first).min(wait.to);
        let end = waker.waits.partition_point(|it| it.from < wait.to);
        let first = end.saturating_sub(MOST_INSIDE);
        // If there are more waits, the examined ones represent all of them.
        let seen = waker.waits.get(first).filter(|_| first > 0).map_or(began, |it| it.from);
        let seen = seen.clamp(began, wait.to);
        let mut worked = wait.to - seen;
        for inside in waker.waits[first..end].iter().rev() {
            if inside.to <= began {
                break;
            }
            if inside.is_gap() {
                continue;
            }
            let (from, to) = (inside.from.max(began), inside.to.min(wait.to));
            let clipped = Wait { from, to, ..*inside };
            let of_others = match deep {
                0 => 0,
                // A sleep ends at a time that the thread itself chose.
                _ if matches!((known.class)(inside.call()), Class::Sleep) => 0,
                _ if from < to => self.worked(&clipped, known, deep - 1),
                _ => 0,
            };
            worked = worked.saturating_sub((to - from).saturating_sub(of_others));
        }
        let (all, seen) = (u128::from(wait.to - began), u128::from((wait.to - seen).max(1)));
        u64::try_from(u128::from(worked) * all / seen).unwrap_or(u64::MAX)
    }
}
