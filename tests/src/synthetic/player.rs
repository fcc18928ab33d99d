//! Simulates the activity of the CPUs of a synthetic machine.
//!
//! Four threads share each CPU. One wakes the next and blocks, which is a wakeup and a switch; after eight of these the CPU is idle until
//! an interrupt wakes the next. A quarter of the wakeups are caused by the previous CPU.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::Wiring;
use super::kernel::inherited_fd;
use super::lane::{Name, Put, WrittenLane, switch, wakeup};
use crate::trace::now;

/// Far above the ids of real threads, and within the limits of a record.
const FIRST_TID: u32 = 3_000_000;

/// Threads of each CPU.
const THREADS: u32 = 4;

/// Switches from thread to thread between two idle times of a CPU.
const UNTIL_IDLE: u32 = 8;

/// The maximum number of events written before checking again how many are due.
const BURST: u64 = 256;

/// How often the size of the output is checked.
const LOOK_NS: u64 = 2_000_000;

/// An uneven load: this many CPUs are hot, and have this share of all events, in percent.
const HOT: u32 = 4;
const HOT_PERCENT: u32 = 90;

/// What to play.
#[derive(Clone, Debug)]
pub struct Play {
    /// Events per second, of all CPUs together.
    pub rate: u64,
    pub duration: Duration,
    /// Whether a few CPUs have most of the events.
    pub uneven: bool,
    /// The file whose growth is watched.
    pub output: Option<PathBuf>,
}

/// What was played.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// The number of events, including lost ones.
    pub produced: u64,
    pub lost: u64,
    pub seconds: f64,
    /// For each CPU its number, the number of switches written, and of events lost in its lane.
    pub cpus: Vec<(u32, u64, u64)>,
    /// For the fullest lane: the maximum filled part, how often it was read, and the longest time in milliseconds between two reads.
    pub fullest: Option<(f64, u64, f64)>,
    /// The size of the output over time, in bytes.
    pub sizes: Vec<(u64, u64)>,
    /// For [`Player::filled`]: the recorder's threads, and the CPU time of each in nanoseconds.
    pub threads: Vec<(String, u64)>,
}

impl Played {
    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "produced": self.produced, "lost": self.lost, "seconds": self.seconds, "cpus": self.cpus, "sizes": self.sizes,
            "fullest": self.fullest, "threads": self.threads,
        })
    }

    /// Parses the output of [`Played::to_json`].
    pub fn from_json(value: &serde_json::Value) -> Option<Played> {
        let number = |value: &serde_json::Value| value.as_u64();
        let cpu = |row: &serde_json::Value| {
            let cpu = u32::try_from(number(row.get(0)?)?).ok()?;
            Some((cpu, number(row.get(1)?)?, number(row.get(2)?)?))
        };
        let size = |row: &serde_json::Value| Some((number(row.get(0)?)?, number(row.get(1)?)?));
        let fullest = value.get("fullest").and_then(|row| {
            Some((row.get(0)?.as_f64()?, number(row.get(1)?)?, row.get(2)?.as_f64()?))
        });
        Some(Played {
            fullest,
            threads: Vec::new(),
            produced: number(value.get("produced")?)?,
            lost: number(value.get("lost")?)?,
            seconds: value.get("seconds")?.as_f64()?,
            cpus: value.get("cpus")?.as_array()?.iter().map(cpu).collect::<Option<_>>()?,
            sizes: value.get("sizes")?.as_array()?.iter().map(size).collect::<Option<_>>()?,
        })
    }
}

/// A simulated CPU.
#[derive(Debug)]
struct PlayedCpu {
    number: u32,
    lane: WrittenLane,
    /// The first of its threads.
    first: u32,
    /// The thread that has the CPU or had it last; the CPU is idle if `is_idle`.
    turn: u32,
    is_idle: bool,
    /// The next one is awake.
    woken: bool,
    until_idle: u32,
    switches: u64,
}

fn name(cpu: u32, thread: Option<u32>) -> Name {
    let text = match thread {
        Some(thread) => format!("worker-{cpu}/{thread}"),
        None => format!("swapper/{cpu}"),
    };
    let mut name = [0; 16];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// The CPUs of a machine, simulated.
#[derive(Debug)]
pub struct Player {
    cpus: Vec<PlayedCpu>,
    /// The names of all threads; the idle task of each CPU is the fifth.
    names: Vec<[Name; THREADS as usize + 1]>,
    bell: std::fs::File,
    seed: u64,
    produced: u64,
}

impl Player {
    /// Takes ownership of the descriptors that were inherited from the recorder.
    ///
    /// # Errors
    /// Errors of mapping the lanes.
    ///
    /// # Safety
    /// The wiring must be that of the process that started this one, and be used once.
    pub unsafe fn new(wiring: &Wiring) -> io::Result<Player> {
        // SAFETY: guaranteed by the caller.
        let take = |fd| unsafe { inherited_fd(fd) };
        let lane = |(&(number, fd, bytes), first)| -> io::Result<PlayedCpu> {
            let lane = WrittenLane::new(take(fd), bytes)?;
            Ok(PlayedCpu {
                number,
                lane,
                first,
                turn: 0,
                is_idle: true,
                woken: false,
                until_idle: UNTIL_IDLE,
                switches: 0,
            })
        };
        let tids = (FIRST_TID..).step_by(THREADS as usize);
        let cpus = wiring.lanes.iter().zip(tids).map(lane).collect::<io::Result<Vec<_>>>()?;
        let names = cpus.iter().map(|cpu| {
            std::array::from_fn(|at| {
                let thread = u32::try_from(at).ok().filter(|thread| *thread < THREADS);
                name(cpu.number, thread)
            })
        });
        let names = names.collect();
        let bell = take(wiring.bell).into();
        Ok(Player { cpus, names, bell, seed: 1, produced: 0 })
    }

    fn roll(&mut self, sides: u32) -> u32 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.seed >> 32) * u64::from(sides)) >> 32) as u32
    }

    fn choose(&mut self, uneven: bool) -> usize {
        let all = self.cpus.len() as u32;
        let of = match uneven && all > HOT && self.roll(100) < HOT_PERCENT {
            true => HOT,
            false => all,
        };
        self.roll(of) as usize
    }

    /// Simulates one event of a CPU, given by its index.
    fn play_one(&mut self, at: usize) -> Put {
        let from_other = self.roll(4) == 0;
        let cpu = &self.cpus[at];
        let next = (cpu.turn + 1) % THREADS;
        let tid = |turn: u32| cpu.first + turn;
        let current = |cpu: &PlayedCpu| if cpu.is_idle { 0 } else { cpu.first + cpu.turn };
        let names = &self.names[at];
        let goes_idle = !cpu.is_idle && !cpu.woken && cpu.until_idle == 0;
        let put = if goes_idle || cpu.woken {
            let (next_tid, name) = match goes_idle {
                true => (0, names[THREADS as usize]),
                false => (tid(next), names[next as usize]),
            };
            cpu.lane.put(&switch(current(cpu), next_tid, name))
        } else {
            let waking = match from_other {
                true => &self.cpus[(at + self.cpus.len() - 1) % self.cpus.len()],
                false => cpu,
            };
            let name = names[next as usize];
            waking.lane.put(&wakeup(tid(next), current(waking), cpu.number, name))
        };
        if put == Put::Closed {
            return put;
        }
        self.produced += 1;
        let cpu = &mut self.cpus[at];
        if goes_idle {
            cpu.is_idle = true;
            cpu.until_idle = UNTIL_IDLE;
        } else if cpu.woken {
            cpu.turn = next;
            cpu.until_idle -= u32::from(!cpu.is_idle);
            cpu.is_idle = false;
        }
        let is_switch = goes_idle || cpu.woken;
        cpu.switches += u64::from(is_switch && put != Put::Lost);
        cpu.woken = !is_switch;
        if put == Put::Ring {
            self.ring();
        }
        put
    }

    fn ring(&self) {
        // A counter that is too full to be added to is already readable.
        let _ = nix::unistd::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Runs until the time is over.
    pub fn play(&mut self, wanted: &Play) -> Played {
        let begin = now();
        let mut played = Played::default();
        let (mut last, mut done, mut next_look) = (begin, 0, begin);
        let end = begin + wanted.duration.as_nanos() as u64;
        while last < end {
            let now = now();
            if now >= next_look {
                next_look = now + LOOK_NS;
                let size = wanted.output.as_deref().and_then(size);
                played.sizes.extend(size.map(|size| (now, size)));
            }
            let due = u128::from(now - begin) * u128::from(wanted.rate) / 1_000_000_000;
            let count = (due as u64).saturating_sub(done).min(BURST);
            for _ in 0..count {
                let at = self.choose(wanted.uneven);
                self.play_one(at);
            }
            done += count;
            last = now;
        }
        played.seconds = (now() - begin) as f64 / 1e9;
        self.fill_in(&mut played);
        played
    }

    /// Overfills the lanes of every 64th CPU while the recorder is stopped; the others have a few events. Then half of the full ones
    /// continue, which reports the loss at its place, and half never do.
    ///
    /// # Errors
    /// When the recorder cannot be stopped.
    pub fn overflow(&mut self) -> io::Result<Played> {
        const APART: usize = 64;
        let recorder = stop_recorder()?;
        for at in 0..self.cpus.len() {
            let count = if at % APART == 0 { 2 * self.cpus[at].lane.records() } else { 20 };
            for _ in 0..count {
                self.play_one(at);
            }
        }
        kill(recorder, Signal::SIGCONT)?;
        for at in (0..self.cpus.len()).step_by(2 * APART) {
            while self.play_one(at) == Put::Lost {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let mut played = Played::default();
        self.fill_in(&mut played);
        Ok(played)
    }

    /// Fills all lanes to four fifths while the recorder is stopped, over the same interval, and then lets it read them. The time is from
    /// that moment until the lanes are empty.
    ///
    /// # Errors
    /// When the recorder cannot be stopped.
    pub fn filled(&mut self) -> io::Result<Played> {
        let recorder = stop_recorder()?;
        let least = self.cpus.iter().map(|cpu| cpu.lane.records()).min().unwrap_or(0);
        for _ in 0..least / 5 * 4 {
            for at in 0..self.cpus.len() {
                self.play_one(at);
            }
        }
        let before = cpu_times(recorder)?;
        let begin = now();
        kill(recorder, Signal::SIGCONT)?;
        while !self.cpus.iter().all(|cpu| cpu.lane.is_empty()) {
            std::thread::sleep(Duration::from_micros(500));
        }
        let seconds = (now() - begin) as f64 / 1e9;
        let mut threads = cpu_times(recorder)?;
        for (name, time) in &mut threads {
            let before = before.iter().find(|(before, _)| before == name).map_or(0, |it| it.1);
            *time = time.saturating_sub(before);
        }
        let mut played = Played { seconds, threads, ..Played::default() };
        self.fill_in(&mut played);
        Ok(played)
    }

    /// Counts the events that were simulated so far.
    pub fn fill_in(&self, played: &mut Played) {
        played.produced = self.produced;
        played.cpus =
            self.cpus.iter().map(|cpu| (cpu.number, cpu.switches, cpu.lane.lost())).collect();
        let part = |cpu: &PlayedCpu| {
            let seen = cpu.lane.seen();
            (seen.most as f64 / cpu.lane.records() as f64, seen.looks, seen.longest as f64 / 1e6)
        };
        played.fullest = self.cpus.iter().map(part).max_by(|a, b| a.0.total_cmp(&b.0));
        played.lost = played.cpus.iter().map(|cpu| cpu.2).sum();
    }
}

/// Stops the process that started this one, and returns its id when it has stopped.
fn stop_recorder() -> io::Result<Pid> {
    let recorder = nix::unistd::getppid();
    kill(recorder, Signal::SIGSTOP)?;
    let stat = format!("/proc/{recorder}/stat");
    let is_stopped = || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    while !is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(recorder)
}

/// The names of the process's threads, and the CPU time of each in nanoseconds.
fn cpu_times(process: Pid) -> io::Result<Vec<(String, u64)>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"))?;
    let time = |task: io::Result<std::fs::DirEntry>| {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm"))?.trim_end().to_owned();
        let stat = std::fs::read_to_string(task.join("schedstat"))?;
        let running = stat.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        Ok((name, running.unwrap_or(0)))
    };
    tasks.map(time).collect()
}

fn size(path: &Path) -> Option<u64> {
    Some(path.metadata().ok()?.len())
}

/// Pins this process to one CPU, as `taskset` does, with high priority if permitted: it represents CPUs that nothing else uses.
///
/// # Errors
/// The kernel's errors for such a CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu)?;
    nix::sched::sched_setaffinity(Pid::from_raw(0), &set)?;
    // SAFETY: it takes numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    Ok(())
}
