//! The merge thread passes on the same events as the capture thread would.

use super::super::event::{Kind, Loss, Payload, Sample};
use super::super::order::{Lane, Merger, NoBacklog};
use super::*;
use fxtrec_kernel::extra::ExtraIndex;
use fxtrec_units::Tid;

/// Queues of two CPUs into which each round puts events, and a backlog that passes on numbers.
#[derive(Debug)]
struct Synthetic {
    merger: Merger,
    lanes: [Lane; 2],
    time: u64,
    each: u64,
    panics: bool,
    /// The names of the threads that called [`Intake::round`].
    threads: Vec<String>,
}

impl Synthetic {
    fn new(each: u64) -> Synthetic {
        let mut merger = Merger::new();
        let lanes = [merger.lane(Cpu(0)), merger.lane(Cpu(1))];
        Synthetic { merger, lanes, time: 0, each, panics: false, threads: Vec::new() }
    }

    fn fill(&mut self) {
        for at in 0..self.each {
            self.time += 1;
            let lane = self.lanes[usize::from(at % 3 == 0)];
            let time = Nanos(self.time);
            let kind = if at % 5 == 0 {
                let content = vec![at as u8; (at % 300) as usize];
                let payload: Payload = self.merger.keep(lane, &content);
                let (extra, current) = (ExtraIndex(0), Tid(at as u32));
                Kind::Sample(Sample { extra, current, user: None, payload })
            } else {
                Kind::Lost(Loss::exactly(at))
            };
            self.merger.push(lane, Event { time, kind });
        }
    }
}

impl Intake for Synthetic {
    type Item = u64;

    fn round(&mut self, to: &mut impl Receive<u64>) -> bool {
        self.threads.push(std::thread::current().name().unwrap_or_default().to_owned());
        assert!(!self.panics, "as the test wants it");
        self.fill();
        let mut events = Events(to);
        let watermark = Nanos(self.time);
        let all = self.merger.emit_with::<NoBacklog>(watermark, &mut [], &mut events);
        let mut handed = Handed::since(self.merger.emitted());
        // Two backlogs alternate.
        let times = self.time..self.time + self.each;
        self.time += self.each;
        all && times.enumerate().all(|(at, time)| {
            let backlog = at / 7 % 2;
            to.item(&mut handed, backlog, Cpu(backlog as u32), &time)
        })
    }

    fn emitted(&self) -> Nanos {
        self.merger.emitted()
    }

    fn time(item: &u64) -> Option<Nanos> {
        Some(Nanos(*item))
    }
}

/// Passes on the events of queues.
struct Events<'a, R>(&'a mut R);

impl<R: Receive<u64>> Receive<Event> for Events<'_, R> {
    fn event(&mut self, time: Nanos, cpu: Cpu, event: &Event, bytes: &[u8]) -> bool {
        self.0.event(time, cpu, event, bytes)
    }

    fn item(&mut self, _: &mut Handed, _: usize, _: Cpu, _: &Event) -> bool {
        false
    }
}

/// The received event: its time, its queue or backlog, and the bytes or the number.
type One = (Nanos, Option<usize>, Cpu, Vec<u8>, u64);

#[derive(Debug, Default)]
struct Taken {
    all: Vec<One>,
    most: Option<usize>,
}

impl Taken {
    fn take(&mut self, one: One) -> bool {
        self.all.push(one);
        self.most.is_none_or(|most| self.all.len() < most)
    }
}

impl Receive<u64> for Taken {
    fn event(&mut self, time: Nanos, cpu: Cpu, event: &Event, bytes: &[u8]) -> bool {
        let number = match event.kind {
            Kind::Lost(loss) => loss.events.unwrap_or(0),
            _ => 0,
        };
        self.take((time, None, cpu, bytes.to_vec(), number))
    }

    fn item(&mut self, handed: &mut Handed, backlog: usize, cpu: Cpu, item: &u64) -> bool {
        let time = handed.at(Nanos(*item));
        self.take((time, Some(backlog), cpu, Vec::new(), *item))
    }
}

fn merging(each: u64, on_its_thread: bool) -> Merging<Synthetic> {
    let mut merging = Merging::new(Synthetic::new(each), 1);
    merging.force(on_its_thread);
    merging
}

#[test]
fn threads_grow_with_the_machine_and_a_small_one_needs_no_other() {
    let of = [(1, 2), (8, 8), (15, 16), (16, 16), (64, 64), (64, 4), (512, 512), (512, 1)];
    let threads = of.map(|(cpus, own)| threads_for(cpus, own));
    assert_eq!(threads, [1, 1, 1, 2, 8, 4, 64, 1]);
}

#[test]
fn the_merge_thread_hands_out_the_same_in_the_same_order() {
    for each in [0, 1, 10, RUN as u64, 3 * RUN as u64 + 1] {
        let (mut alone, mut other) = (merging(each, false), merging(each, true));
        let (mut expected, mut found) = (Taken::default(), Taken::default());
        for _ in 0..5 {
            assert!(alone.round(&mut expected));
            assert!(other.round(&mut found));
        }
        assert_eq!(expected.all.len() as u64, 2 * 5 * each);
        assert!(expected.all == found.all, "{each} of either kind in a round");
        assert!(found.all.is_sorted_by_key(|one| one.0));
        assert!(other.intake().threads.iter().all(|name| name == "fxtrec-merge"));
        assert_eq!(alone.intake().emitted(), other.intake().emitted());
        assert!(other.take_failure().is_none());
    }
}

#[test]
fn when_no_more_is_taken_the_round_ends_and_nothing_more_comes() {
    for most in [1, 700, 5000] {
        let mut merging = merging(50_000, true);
        let mut taken = Taken { most: Some(most), ..Taken::default() };
        assert!(!merging.round(&mut taken));
        assert_eq!(taken.all.len(), most);
    }
}

#[test]
fn a_merge_thread_that_panics_is_an_error_and_the_capture_thread_merges_on() {
    let mut merging = merging(10, true);
    let mut taken = Taken::default();
    assert!(merging.round(&mut taken));
    merging.intake().panics = true;
    merging.round(&mut taken);
    let error = merging.take_failure().expect("a round is incomplete");
    assert!(error.to_string().contains("panicked"), "{error}");
    merging.intake().panics = false;
    assert!(merging.round(&mut taken));
    let threads = merging.intake().threads.clone();
    assert_eq!(threads[..2], ["fxtrec-merge", "fxtrec-merge"]);
    assert_ne!(threads[2], "fxtrec-merge");
    assert!(merging.take_failure().is_none());
    assert_eq!(taken.all.len(), 2 * 2 * 10);
}

#[test]
fn the_thread_is_used_while_rounds_take_half_of_the_time() {
    let mut merging = merging(10, false);
    merging.wanted = Wanted::Busy { now: false, ended: clock::now() };
    // No events between rounds.
    while !matches!(merging.wanted, Wanted::Busy { now: true, .. }) {
        merging.round(&mut Taken::default());
    }
    merging.round(&mut Taken::default());
    assert_eq!(merging.intake().threads.last().map(String::as_str), Some("fxtrec-merge"));
    let calm = Nanos(clock::now().0 - 1_000_000_000_000);
    merging.wanted = Wanted::Busy { now: true, ended: calm };
    merging.round(&mut Taken::default());
    let before = merging.intake().threads.len();
    merging.round(&mut Taken::default());
    assert_ne!(merging.intake().threads[before], "fxtrec-merge");
}
