//! Determines why events were lost.
//!
//! A ring fills up if the capture thread does not empty it, and the reason can be determined: the kernel counts how long the thread waited
//! for a CPU, and the engine how long it waited for the output. So the thread's activity is stored as a series of periods, each from one
//! read of the rings to the next, with how the thread spent the time. A loss lies between two events of its CPU, and the periods in that
//! time show its cause:
//!
//! ```text
//!   periods     | sleep, look | sleep |       waits for a CPU        | look | sleep |
//!   CPU 1       x x x x x x x x x x x x x x ............................ lost 900 ... x x x
//!                                         from                          to
//! ```
//!
//! The period before them counts, too: the ring may have been full before the CPU's last event in another ring. A delay that explains too
//! little of the time is not a cause; in that case the cause is unknown, and the summary reports the measurements.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::time::Duration;

use nix::errno::Errno;

use fxtrec_kernel::priority::Denied;
use fxtrec_kernel::thread_times::ThreadTimes;
use fxtrec_units::text::{count, counted};
use fxtrec_units::{Cpu, Nanos};

/// The number of stored periods; calm periods are merged.
const MOST_PERIODS: usize = 512;

/// The shortest delay that can explain a loss, in nanoseconds.
const NOTABLE: u64 = 1_000_000;

/// A cause must account for this part of the time in which the thread did not sleep voluntarily.
const LEAST_PART: f64 = 0.2;

/// If none does, and the thread was on a CPU for this part of a period, events came faster than it could read.
const BUSY_PART: f64 = 0.5;

/// What prevented the capture thread from emptying the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It was runnable, but waited for a CPU.
    CaptureWaited,
    /// It waited for the drain thread, which was runnable but waited for a CPU.
    DrainWaited,
    /// It waited for the drain thread, which waited for the output.
    OutputBlocked,
    /// It waited for the drain thread, which was on a CPU, compressing.
    OutputBusy,
    /// It waited for memory pages that were read from a disk.
    PageFaults,
    /// It was neither running nor runnable, and had not gone to sleep voluntarily.
    Stopped,
    /// It had not started yet: events were already enabled while fxtrec was starting.
    Starting,
    /// No delay: the thread was on a CPU, but events came too fast.
    TooFast,
    /// None of these.
    Unknown,
}

/// The number of causes.
const CAUSES: usize = 9;

impl Cause {
    const DELAYS: [Cause; 7] = [
        Cause::CaptureWaited,
        Cause::DrainWaited,
        Cause::OutputBlocked,
        Cause::OutputBusy,
        Cause::PageFaults,
        Cause::Stopped,
        Cause::Starting,
    ];

    /// Its name in the trace.
    pub fn name(self) -> &'static str {
        match self {
            Cause::CaptureWaited => "capture_waited",
            Cause::DrainWaited => "drain_waited",
            Cause::OutputBlocked => "output_blocked",
            Cause::OutputBusy => "output_busy",
            Cause::PageFaults => "page_faults",
            Cause::Stopped => "stopped",
            Cause::Starting => "starting",
            Cause::TooFast => "too_fast",
            Cause::Unknown => "unknown",
        }
    }
}

/// All measurements, counted from the beginning of the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub now: Nanos,
    pub capture: ThreadTimes,
    /// Times of the drain thread, up to the last buffer that it returned.
    pub drain: ThreadTimes,
    /// Nanoseconds that the drain thread spent writing the output, on a CPU or not.
    pub saving: u64,
    /// Nanoseconds that the capture thread waited for room in the trace buffer.
    pub no_room: u64,
    pub events: u64,
}

/// How a period was spent, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    begin: u64,
    end: u64,
    delays: [u64; CAUSES],
    running: u64,
    slept: u64,
    events: u64,
    faults: u64,
    /// The causes to which it was already added, one bit for each.
    counted: u16,
}

impl Period {
    fn wall(&self) -> u64 {
        self.end - self.begin
    }

    fn is_busy(&self) -> bool {
        self.running >= NOTABLE && self.running as f64 >= BUSY_PART * self.wall() as f64
    }

    /// How long the thread slept voluntarily, without delays that explain no loss.
    fn is_calm(&self) -> bool {
        let held_up = self.wall().saturating_sub(self.slept).saturating_sub(self.running);
        !self.is_busy() && self.counted == 0 && held_up < NOTABLE
    }

    fn join(&mut self, next: &Period) {
        self.end = next.end;
        for (delay, more) in self.delays.iter_mut().zip(next.delays) {
            *delay += more;
        }
        self.running += next.running;
        self.slept += next.slept;
        self.events += next.events;
        self.faults += next.faults;
    }

    fn between(last: &Sample, sample: &Sample, waited: u64, granted: u64) -> Period {
        let wall = sample.now.0.saturating_sub(last.now.0);
        let running = sample.capture.running.saturating_sub(last.capture.running);
        let queued = sample.capture.queued.saturating_sub(last.capture.queued);
        let no_room = sample.no_room.saturating_sub(last.no_room);
        let faults = sample.capture.major_faults.saturating_sub(last.capture.major_faults);
        let slept = waited.min(granted);
        let mut delays = [0; CAUSES];
        delays[Cause::CaptureWaited as usize] = queued;
        // Waking up also takes a CPU: do not count time twice that counts as waiting for a CPU.
        let known = slept.saturating_add(running).saturating_add(queued).saturating_add(no_room);
        let rest = wall.saturating_sub(known);
        delays[if faults > 0 { Cause::PageFaults } else { Cause::Stopped } as usize] = rest;
        let drain_queued = sample.drain.queued.saturating_sub(last.drain.queued);
        let drain_running = sample.drain.running.saturating_sub(last.drain.running);
        let saving = sample.saving.saturating_sub(last.saving);
        let blocked = saving.saturating_sub(drain_running).saturating_sub(drain_queued);
        let shares = [
            (Cause::DrainWaited, drain_queued),
            (Cause::OutputBusy, drain_running),
            (Cause::OutputBlocked, blocked),
        ];
        let whole: u64 = shares.iter().map(|(_, share)| share).sum();
        for (cause, share) in shares {
            // 128 bits, because nanoseconds are multiplied.
            let part = u128::from(no_room) * u128::from(share) / u128::from(whole.max(1));
            delays[cause as usize] = u64::try_from(part).unwrap_or(u64::MAX);
        }
        Period {
            begin: last.now.0,
            end: sample.now.0,
            delays,
            running,
            slept,
            events: sample.events.saturating_sub(last.events),
            faults,
            counted: 0,
        }
    }
}

/// The losses of one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossCause {
    pub cause: Cause,
    pub events: u64,
    pub gaps: u64,
    /// The CPUs that lost events.
    pub cpus: BTreeSet<Cpu>,
    /// How long the capture thread was delayed while they were lost. For causes that do not delay the thread, the length of the time in
    /// which events were lost.
    pub held_up: Duration,
    pub longest: Duration,
    /// Major page faults within that time.
    pub faults: u64,
    /// The highest number of events per second.
    pub rate: u64,
    /// How long the capture thread was on a CPU.
    pub running: Duration,
    /// How long it slept voluntarily.
    pub slept: Duration,
    /// Requests that the kernel denied although they could have prevented some of the losses.
    pub denied: Denied,
}

impl Display for LossCause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let cpus: Vec<String> = self.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        let plural = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        write!(f, "{} on {plural} {}: ", count(self.events), cpus.join(","))?;
        let (held_up, longest) = (self.held_up.as_secs_f64(), self.longest.as_secs_f64());
        let at_once = format!("{held_up:.2} s in all, at most {longest:.2} s at a time");
        match self.cause {
            Cause::CaptureWaited => {
                write!(f, "the capture thread waited for a CPU ({at_once})")?;
                refused(f, "real-time priority", self.denied.real_time)
            }
            Cause::DrainWaited => write!(f, "the drain thread waited for a CPU ({at_once})"),
            Cause::OutputBlocked => write!(f, "the output blocked the drain thread ({at_once})"),
            Cause::OutputBusy => write!(f, "compressing and writing took too long ({at_once})"),
            Cause::PageFaults => {
                write!(
                    f,
                    "memory was short: the capture thread waited for {} from disk ({at_once})",
                    counted(self.faults, "page", "pages")
                )?;
                refused(f, "locking memory", self.denied.locked_memory)
            }
            Cause::Stopped => write!(
                f,
                "the capture thread was stopped (SIGSTOP, a frozen cgroup), blocked in the \
                 kernel, or delayed by the machine's host ({at_once})"
            ),
            Cause::Starting => write!(f, "fxtrec was still starting ({at_once})"),
            Cause::TooFast => write!(
                f,
                "events came faster than they could be read ({} a second)",
                count(self.rate)
            ),
            Cause::Unknown => write!(
                f,
                "cause unknown; in {held_up:.2} s the capture thread ran {:.2} s and slept {:.2} s",
                self.running.as_secs_f64(),
                self.slept.as_secs_f64()
            ),
        }
    }
}

fn refused(f: &mut Formatter<'_>, what: &str, errno: Option<Errno>) -> fmt::Result {
    errno.map_or(Ok(()), |errno| write!(f, "; {what} was refused: {errno:?}"))
}

impl Cause {
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::CaptureWaited | Cause::DrainWaited => {
                "give fxtrec more CPU time (cgroup quota, weight and real-time runtime, \
                 CAP_SYS_NICE), or try a larger --ring-size"
            }
            Cause::OutputBlocked => "try a faster output, or a larger --buffer-size",
            Cause::OutputBusy => "try an uncompressed output, or a larger --buffer-size",
            Cause::PageFaults => {
                "leave more memory free, or let fxtrec lock its own (CAP_IPC_LOCK)"
            }
            Cause::Stopped => "do not stop fxtrec while it records, or try a larger --ring-size",
            Cause::Starting => "try a larger --ring-size",
            Cause::TooFast | Cause::Unknown => "try a larger --ring-size, or record less",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    cpu: Cpu,
    from: u64,
    to: u64,
    count: u64,
}

/// Follows the capture thread, and finds the cause of each loss.
#[derive(Debug, Default)]
pub struct LossWatch {
    last: Sample,
    periods: VecDeque<Period>,
    /// Losses reported since the last sample; their period might not be over.
    pending: Vec<Pending>,
    causes: Vec<LossCause>,
}

impl LossWatch {
    /// Starts to watch events that were enabled at `enabled`; `first` is the first sample of the capture thread.
    pub fn new(enabled: Nanos, first: Sample) -> LossWatch {
        let (begin, end) = (enabled.0.min(first.now.0), first.now.0);
        let mut start = Period { begin, end, ..Period::default() };
        start.delays[Cause::Starting as usize] = start.wall();
        LossWatch { last: first, periods: VecDeque::from([start]), ..LossWatch::default() }
    }

    /// `count` events of `cpu` between two other events are missing.
    pub fn lost(&mut self, cpu: Cpu, between: Range<Nanos>, count: u64) {
        let Range { start: Nanos(from), end: Nanos(to) } = between;
        self.pending.push(Pending { cpu, from, to, count });
    }

    /// Adds the next sample. Since the last read, the thread waited for events for `waited`; it asked to sleep for `granted` of that time.
    /// Then determines the cause of each loss.
    pub fn look(&mut self, sample: Sample, waited: Duration, granted: Duration) {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let last = std::mem::replace(&mut self.last, sample);
        self.add(Period::between(&last, &sample, nanos(waited), nanos(granted)));
        for pending in std::mem::take(&mut self.pending) {
            self.explain(pending);
        }
    }

    /// Losses so far, by cause; the greatest loss first. `denied` are the requests that the kernel denied.
    pub fn causes(&self, denied: Denied) -> Vec<LossCause> {
        let mut causes = self.causes.clone();
        causes.iter_mut().for_each(|cause| cause.denied = denied);
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.events));
        causes
    }

    fn add(&mut self, period: Period) {
        if let Some(before) = self.periods.back_mut()
            && before.is_calm()
            && period.is_calm()
        {
            let mut joined = *before;
            joined.join(&period);
            // Delays that are too short individually count if there are many.
            if joined.is_calm() {
                *before = joined;
                return;
            }
        }
        if self.periods.len() == MOST_PERIODS {
            self.periods.pop_front();
        }
        self.periods.push_back(period);
    }

    fn explain(&mut self, Pending { cpu, from, to, count }: Pending) {
        let first = self.periods.partition_point(|period| period.end <= from);
        let after = self.periods.partition_point(|period| period.begin <= to);
        let window = first.saturating_sub(1)..after.max(first);
        let mut sum = Period::default();
        let (mut wall, mut busy) = (0, false);
        for period in self.periods.range(window.clone()) {
            sum.join(period);
            wall += period.wall();
            busy |= period.is_busy();
        }
        let cause = match delay(&sum, wall) {
            Some(cause) => cause,
            None if busy => Cause::TooFast,
            None => Cause::Unknown,
        };
        let found = match self.causes.iter().position(|known| known.cause == cause) {
            Some(found) => &mut self.causes[found],
            None => {
                self.causes.push(LossCause {
                    cause,
                    events: 0,
                    gaps: 0,
                    cpus: BTreeSet::new(),
                    held_up: Duration::ZERO,
                    longest: Duration::ZERO,
                    faults: 0,
                    rate: 0,
                    running: Duration::ZERO,
                    slept: Duration::ZERO,
                    denied: Denied::default(),
                });
                let last = self.causes.len() - 1;
                &mut self.causes[last]
            }
        };
        found.events = found.events.saturating_add(count);
        found.gaps += 1;
        found.cpus.insert(cpu);
        let rate = (sum.events + count) as f64 * 1e9 / wall.max(1) as f64;
        found.rate = found.rate.max(rate as u64);
        let bit = 1_u16.rotate_left(cause as u32);
        for period in self.periods.range_mut(window) {
            if period.counted & bit != 0 {
                continue;
            }
            period.counted |= bit;
            let time = match cause {
                Cause::TooFast | Cause::Unknown => period.wall(),
                delay => period.delays[delay as usize],
            };
            let time = Duration::from_nanos(time);
            found.held_up += time;
            found.longest = found.longest.max(time);
            found.faults += period.faults;
            found.running += Duration::from_nanos(period.running);
            found.slept += Duration::from_nanos(period.slept);
        }
    }
}

/// The longest delay of the thread in a time of `wall` nanoseconds, if it was long enough.
fn delay(sum: &Period, wall: u64) -> Option<Cause> {
    let awake = wall.saturating_sub(sum.slept) as f64;
    let longest = Cause::DELAYS.into_iter().max_by_key(|cause| sum.delays[*cause as usize])?;
    let delay = sum.delays[longest as usize];
    (delay >= NOTABLE && delay as f64 >= LEAST_PART * awake).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A machine whose clock the test controls.
    #[derive(Debug, Default)]
    struct Machine {
        sample: Sample,
        watch: LossWatch,
        /// The last event of each of two CPUs.
        seen: [Nanos; 2],
    }

    impl Machine {
        fn new() -> Machine {
            let mut machine = Machine::default();
            machine.watch = LossWatch::new(Nanos(0), machine.sample);
            machine.event(0);
            machine.event(1);
            machine
        }

        fn event(&mut self, cpu: u32) {
            self.seen[cpu as usize] = self.sample.now;
        }

        fn lose(&mut self, cpu: u32, count: u64) {
            let between = self.seen[cpu as usize]..self.sample.now;
            self.watch.lost(Cpu(cpu), between, count);
            self.event(cpu);
        }

        /// Sleeps for `slept` of 100 milliseconds; `change` says how the rest of `wall` was spent.
        fn pass(&mut self, wall: u64, slept: u64, change: impl FnOnce(&mut Sample)) {
            self.sample.now.0 += wall * MS;
            change(&mut self.sample);
            self.watch.look(self.sample, Duration::from_millis(slept), Duration::from_millis(100));
        }

        fn calm(&mut self) {
            self.pass(100, 99, |sample| sample.capture.running += MS);
            self.event(0);
            self.event(1);
        }

        fn causes(&mut self) -> Vec<(Cause, u64, u128)> {
            let causes = self.watch.causes(Denied::default());
            causes
                .iter()
                .map(|cause| (cause.cause, cause.events, cause.held_up.as_millis()))
                .collect()
        }

        /// Loses 5 events of CPU 1 after some time, reports that in the next read, and returns the cause.
        fn lose_after(
            wall: u64,
            slept: u64,
            change: impl FnOnce(&mut Sample),
        ) -> Vec<(Cause, u64, u128)> {
            let mut machine = Machine::new();
            machine.calm();
            machine.pass(wall, slept, change);
            machine.lose(1, 5);
            machine.calm();
            machine.causes()
        }
    }

    #[test]
    fn a_wait_for_a_cpu_is_the_cause() {
        let causes = Machine::lose_after(3100, 3000, |sample| sample.capture.queued += 2950 * MS);
        assert_eq!(causes, [(Cause::CaptureWaited, 5, 2950)]);
    }

    #[test]
    fn what_is_lost_before_the_thread_begins_is_lost_while_starting() {
        let sample = Sample { now: Nanos(3000 * MS), ..Sample::default() };
        let watch = LossWatch::new(Nanos(1000 * MS), sample);
        let mut machine = Machine { sample, watch, ..Machine::default() };
        machine.lose(0, 4);
        machine.calm();
        assert_eq!(machine.causes(), [(Cause::Starting, 4, 2000)]);
    }

    #[test]
    fn a_wait_for_the_output_is_distinguished_from_a_drain_that_has_no_cpu_and_one_that_computes() {
        let output = |sample: &mut Sample| {
            sample.no_room += 12_000 * MS;
            sample.saving += 12_000 * MS;
            sample.drain.running += 10 * MS;
        };
        let causes = Machine::lose_after(12_010, 0, output);
        assert_eq!(causes, [(Cause::OutputBlocked, 5, 11_990)]);
        let starved = |sample: &mut Sample| {
            sample.no_room += 4000 * MS;
            sample.saving += 100 * MS;
            sample.drain.queued += 4000 * MS;
        };
        assert_eq!(Machine::lose_after(4000, 0, starved), [(Cause::DrainWaited, 5, 4000)]);
        let compressing = |sample: &mut Sample| {
            sample.no_room += 500 * MS;
            sample.saving += 500 * MS;
            sample.drain.running += 500 * MS;
        };
        assert_eq!(Machine::lose_after(500, 0, compressing), [(Cause::OutputBusy, 5, 500)]);
    }

    #[test]
    fn time_that_nothing_accounts_for_is_of_page_faults_where_there_were_some_and_else_of_a_stop() {
        let faults = |sample: &mut Sample| sample.capture.major_faults += 7;
        assert_eq!(Machine::lose_after(2100, 2100, faults), [(Cause::PageFaults, 5, 2000)]);
        assert_eq!(Machine::lose_after(5100, 5100, |_| {}), [(Cause::Stopped, 5, 5000)]);
    }

    #[test]
    fn a_thread_that_ran_all_the_time_was_too_slow_and_the_rate_is_reported() {
        let mut machine = Machine::new();
        machine.calm();
        for _ in 0..3 {
            machine.pass(10, 0, |sample| {
                sample.capture.running += 10 * MS;
                sample.events += 50_000;
            });
            machine.lose(0, 50_000);
        }
        machine.calm();
        let causes = machine.watch.causes(Denied::default());
        assert_eq!((causes.len(), causes[0].cause, causes[0].gaps), (1, Cause::TooFast, 3));
        assert!(causes[0].to_string().contains("faster than they could be read"), "{}", causes[0]);
        assert!(causes[0].rate > 1_000_000, "{}", causes[0].rate);
    }

    #[test]
    fn what_nothing_explains_is_unknown_with_what_was_measured() {
        let mut machine = Machine::new();
        machine.calm();
        machine.lose(1, 9);
        machine.calm();
        assert_eq!(machine.causes()[0].0, Cause::Unknown);
        let text = machine.watch.causes(Denied::default())[0].to_string();
        assert_eq!(
            text,
            "9 on CPU 1: cause unknown; in 0.20 s the capture thread ran 0.00 s and slept 0.20 s"
        );
    }

    #[test]
    fn a_delay_that_two_cpus_lost_events_in_counts_once_and_an_old_one_not_at_all() {
        let mut machine = Machine::new();
        // Nothing was lost in this one.
        machine.pass(5000, 0, |sample| sample.no_room += 5000 * MS);
        (0..10).for_each(|_| machine.calm());
        machine.pass(1000, 0, |sample| sample.capture.queued += 990 * MS);
        machine.lose(0, 1);
        machine.lose(1, 2);
        machine.calm();
        assert_eq!(machine.causes(), [(Cause::CaptureWaited, 3, 990)]);
        let cause = &machine.watch.causes(Denied::default())[0];
        assert_eq!(
            cause.to_string(),
            "3 on CPUs 0,1: the capture thread waited for a CPU (0.99 s in all, at most 0.99 s at a time)"
        );
    }

    #[test]
    fn what_the_kernel_refused_is_reported_with_the_losses_that_it_would_have_prevented() {
        let reported = |change: fn(&mut Sample)| {
            let mut machine = Machine::new();
            machine.calm();
            machine.pass(3100, 100, change);
            machine.lose(1, 5);
            machine.calm();
            let denied =
                Denied { real_time: Some(Errno::EPERM), locked_memory: Some(Errno::ENOMEM) };
            machine.watch.causes(denied)[0].to_string()
        };
        assert_eq!(
            reported(|sample| sample.capture.queued += 2950 * MS),
            "5 on CPU 1: the capture thread waited for a CPU (2.95 s in all, at most 2.95 s at a time); \
             real-time priority was refused: EPERM"
        );
        assert_eq!(
            reported(|sample| sample.capture.major_faults += 7),
            "5 on CPU 1: memory was short: the capture thread waited for 7 pages from disk (3.00 s in all, at most 3.00 s at a time); locking memory was refused: ENOMEM"
        );
        assert!(!reported(|sample| sample.drain.queued += 1).contains("refused"));
    }

    #[test]
    fn calm_times_are_joined_and_the_row_has_an_end() {
        let mut machine = Machine::new();
        (0..10_000).for_each(|_| machine.calm());
        assert!(machine.watch.periods.len() <= 10_000 / 4, "{}", machine.watch.periods.len());
        for _ in 0..2 * MOST_PERIODS {
            machine.pass(50, 0, |sample| sample.capture.queued += 50 * MS);
        }
        assert_eq!(machine.watch.periods.len(), MOST_PERIODS);
    }
}
