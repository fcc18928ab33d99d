//! The threads, CPUs and times that a report covers.

use fxt_reader::{Cpu, Nanos};
use fxtrec_units::glob::{self, Pattern};

use super::model::ThreadReport;

/// The threads, CPUs and times that a report covers. The default is everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    pub threads: ThreadFilter,
    /// The CPUs whose samples count; empty means all.
    pub cpus: Vec<Cpu>,
    /// The places where the trace is cut.
    pub range: TimeRange,
    /// Whether to include the recorder's own threads. Threads that are chosen by name or id are always included.
    pub recorder: bool,
}

impl Selection {
    /// Whether the recorder's own threads are left out.
    pub fn leaves_out_recorder(&self) -> bool {
        let ThreadFilter { comms, pids, tids, .. } = &self.threads;
        !self.recorder && comms.is_empty() && pids.is_empty() && tids.is_empty()
    }

    /// Whether samples of this CPU count.
    pub fn has_cpu(&self, cpu: Cpu) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }
}

/// Where a trace is cut. Whatever crosses a cut is censored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The begin; `None` for that of the trace.
    pub from: Option<TimeSpec>,
    /// The end; `None` for that of the trace.
    pub to: Option<TimeSpec>,
}

/// A time, as users specify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// A time of the trace's clock, as reports print it.
    At(Nanos),
    /// This many nanoseconds after the first scheduling record.
    After(u64),
}

impl TimeSpec {
    /// The time in a trace that begins at `begin`.
    pub fn resolve(self, begin: Nanos) -> Nanos {
        match self {
            TimeSpec::At(time) => time,
            TimeSpec::After(nanos) => Nanos(begin.0.saturating_add(nanos)),
        }
    }
}

/// Chooses threads. Every non-empty list must have a matching entry.
#[derive(Clone, Debug, Default)]
pub struct ThreadFilter {
    /// Globs (`*`, `?`, `[a-z]`) for the thread's name.
    pub comms: Vec<Pattern>,
    pub pids: Vec<u64>,
    pub tids: Vec<u64>,
    /// Globs for the path of its process's cgroup.
    pub cgroups: Vec<Pattern>,
}

/// A thread, as filters see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Who<'a> {
    pub comm: &'a str,
    pub pid: Option<u64>,
    pub tid: Option<u64>,
    /// The path of its process's cgroup, if known.
    pub cgroup: Option<&'a str>,
}

impl ThreadFilter {
    /// Whether it chooses every thread.
    pub fn is_everything(&self) -> bool {
        self.comms.is_empty()
            && self.pids.is_empty()
            && self.tids.is_empty()
            && self.cgroups.is_empty()
    }

    /// Whether it chooses this thread. An unknown property matches no list.
    pub fn admits(&self, Who { comm, pid, tid, cgroup }: Who<'_>) -> bool {
        let listed = |list: &[u64], id: Option<u64>| {
            list.is_empty() || id.is_some_and(|id| list.contains(&id))
        };
        let fits = |globs: &[Pattern], text: Option<&str>| {
            globs.is_empty() || text.is_some_and(|text| globs.iter().any(|glob| glob.matches(text)))
        };
        fits(&self.comms, Some(comm))
            && (self.cgroups.is_empty()
                || cgroup.is_some_and(|path| glob::chooses_cgroup(&self.cgroups, path)))
            && listed(&self.pids, pid)
            && listed(&self.tids, tid)
    }

    /// Whether it chooses this thread. Threads that are merged by name have no ids.
    pub fn admits_thread(&self, thread: &ThreadReport) -> bool {
        let cgroup = thread.cgroup.as_deref();
        self.admits(Who { comm: &thread.comm, pid: thread.pid, tid: thread.tid, cgroup })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_that_is_given_must_fit() {
        let filter = ThreadFilter {
            comms: ["audio*", "x?"]
                .iter()
                .map(|glob| Pattern::new(glob).expect("a glob"))
                .collect(),
            pids: vec![40, 41],
            ..ThreadFilter::default()
        };
        let who = |comm, pid, tid| Who { comm, pid, tid, cgroup: Some("/pods/one") };
        assert!(filter.admits(who("audio-out", Some(41), Some(1))));
        assert!(filter.admits(who("xy", Some(40), None)));
        assert!(!filter.admits(who("xyz", Some(40), None)), "no glob fits");
        assert!(!filter.admits(who("audio", Some(42), None)), "no process fits");
        assert!(
            !filter.admits(who("audio", None, None)),
            "threads that were summed up have no pid"
        );
        assert!(ThreadFilter::default().admits(Who::default()));
        let of_pods = ThreadFilter {
            cgroups: vec![Pattern::new("/pods/*").expect("a glob")],
            ..ThreadFilter::default()
        };
        assert!(!of_pods.is_everything());
        assert!(of_pods.admits(who("a", None, None)));
        assert!(!of_pods.admits(Who { cgroup: Some("/pod"), ..who("a", None, None) }));
        assert!(!of_pods.admits(Who { cgroup: None, ..who("a", None, None) }), "not known");
    }

    #[test]
    fn a_moment_after_the_beginning_moves_with_it() {
        assert_eq!(TimeSpec::After(5).resolve(Nanos(100)), Nanos(105));
        assert_eq!(TimeSpec::At(Nanos(5)).resolve(Nanos(100)), Nanos(5));
    }
}
