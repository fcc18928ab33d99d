//! Handmade traces for tests: the events on each CPU, at microseconds of the trace.
//!
//! Thread `t` belongs to process `t / 100 * 100`, and is named `t41` unless it was given another name. A placeholder for unrecorded threads
//! has the weight of a pseudo-thread.

use fxt_reader::Reader;
use fxt_reader::record::{
    ABSENT_WEIGHT_ARG, IDLE_WEIGHT, NOT_RECORDED_WEIGHT, WEIGHT_INFO, is_not_recorded,
};
use fxt_writer::record::{
    Backtrace, ContextSwitch, Event, EventKind, Initialization, KernelObject, Magic, ObjectType,
    ProviderEvent, ProviderInfo, ProviderSection, Record, ThreadState, UserspaceObject, Wakeup,
};
use fxt_writer::{Arg, Koid, ProviderId, Text, ThreadName, Ticks, Value};
use fxtrec_sched::backtrace::Kind;
use fxtrec_units::convention::{FIRST_CPU, HOST, HOST_CPUS};

use super::analysis::{self, Options};
use super::model::{Report, ThreadReport};

/// How a thread leaves a CPU, in the kernel's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    R,
    S,
    /// Asleep, and not woken by signals.
    D,
    /// Idle, like a kernel worker.
    I,
    T,
    X,
}

/// A trace under construction.
#[derive(Clone, Debug)]
pub struct Scene {
    bytes: Vec<u8>,
    named: std::collections::BTreeSet<u64>,
    brief_weights: bool,
    /// The thread of fxtrec's own events.
    recorder: u64,
}

const PROVIDER: ProviderId = ProviderId(1);

/// A provider that records its own events.
const APPLICATION: ProviderId = ProviderId(2);

fn name(text: &str) -> Text<'_> {
    Text::Inline(text)
}

fn weight(koid: u64) -> Value<'static> {
    Value::Int32(match koid {
        0 => IDLE_WEIGHT,
        _ if is_not_recorded(fxt_reader::Koid(koid)) => NOT_RECORDED_WEIGHT,
        _ => 1024,
    })
}

impl Default for Scene {
    fn default() -> Scene {
        Scene::new()
    }
}

impl Scene {
    /// An empty trace from fxtrec.
    pub fn new() -> Scene {
        Scene::of_scope("all")
    }

    /// An empty trace from fxtrec that also has these facts.
    pub fn with_causes(causes: &str) -> Scene {
        Scene::start("all", Some(causes), None)
    }

    /// An empty trace of a COMMAND whose process has this koid.
    pub fn of_command(causes: &str, command: u64) -> Scene {
        Scene::start("all", Some(causes), Some(command))
    }

    /// An empty trace with this scope.
    pub fn of_scope(scope: &str) -> Scene {
        Scene::start(scope, None, None)
    }

    /// An empty trace, recorded by the process of this thread.
    pub fn recorded_by(recorder: u64, causes: &str, command: Option<u64>) -> Scene {
        Scene::start_by(recorder, "all", Some(causes), command, None)
    }

    /// An empty trace of a COMMAND, with a clock that is this many nanoseconds behind the wall clock.
    pub fn of_command_at(offset: i64, causes: &str, command: u64) -> Scene {
        Scene::start_by(9, "all", Some(causes), Some(command), Some(offset))
    }

    fn start(scope: &str, causes: Option<&str>, command: Option<u64>) -> Scene {
        Scene::start_by(9, scope, causes, command, None)
    }

    fn start_by(
        recorder: u64,
        scope: &str,
        causes: Option<&str>,
        command: Option<u64>,
        wall_clock: Option<i64>,
    ) -> Scene {
        let mut scene =
            Scene { bytes: Vec::new(), named: Default::default(), brief_weights: false, recorder };
        scene.put(&Magic);
        scene.put(&ProviderInfo { id: PROVIDER, name: "fxtrec" });
        scene.put(&Initialization { ticks_per_second: 1_000_000_000 });
        let cpus = Arg::new(name("cpus"), Value::Uint32(2));
        let scope = Arg::new(name("scope"), Value::Str(name(scope)));
        let mut args = vec![cpus, scope];
        args.extend(causes.map(|causes| Arg::new(name("causes"), Value::Str(name(causes)))));
        args.extend(command.map(|koid| Arg::new(name("command"), Value::Koid(Koid(koid)))));
        args.extend(causes.map(|_| Arg::new(name("machine"), Value::Str(name("x86_64")))));
        let wall_clock = wall_clock.map(Value::int);
        args.extend(wall_clock.map(|offset| Arg::new(name("wall_clock_offset_ns"), offset)));
        scene.own_event(0, "trace_info", &args);
        scene
    }

    /// The beginning of another recording that was merged with this one.
    pub fn merge(&mut self, micros: u64, recorder: u64, command: u64) -> &mut Scene {
        self.recorder = recorder;
        let command = Arg::new(name("command"), Value::Koid(Koid(command)));
        let scope = Arg::new(name("scope"), Value::Str(name("all")));
        self.own_event(micros, "trace_info", &[scope, command]);
        self
    }

    /// The CPUs from `first` on belong to this host, in a merged trace.
    pub fn host_cpus(&mut self, host: &str, first: u32) -> &mut Scene {
        let host = Arg::new(name(HOST), Value::Str(name(host)));
        let first = Arg::new(name(FIRST_CPU), Value::Uint32(first));
        self.own_event(0, HOST_CPUS, &[host, first]);
        self
    }

    /// Leaves usual weights out from now on, and writes the event that says so.
    pub fn leave_out_usual_weights(&mut self) -> &mut Scene {
        self.brief_weights = true;
        let usual = [Arg::new(name(ABSENT_WEIGHT_ARG), Value::Int32(1024))];
        self.own_event(0, WEIGHT_INFO, &usual);
        self
    }

    /// The argument, if it is written.
    fn weight_arg<'a>(&self, of: &'a str, koid: u64) -> Option<Arg<'a>> {
        let weight = weight(koid);
        let is_reported = !self.brief_weights || weight != Value::Int32(1024);
        is_reported.then(|| Arg::new(name(of), weight))
    }

    fn put(&mut self, record: &impl Record) {
        record.write(&mut self.bytes).expect("memory has room, and the record is sound");
    }

    fn own_event(&mut self, micros: u64, event: &str, args: &[Arg<'_>]) {
        let recorder = self.recorder;
        self.event((micros, EventKind::Instant), recorder, ("fxtrec", event), args);
    }

    fn event(
        &mut self,
        (micros, kind): (u64, EventKind),
        thread: u64,
        (category, event): (&str, &str),
        args: &[Arg<'_>],
    ) {
        self.put(&Event {
            kind,
            time: Ticks(micros * 1000),
            thread: ThreadName::Inline { process: Koid(thread / 100 * 100), thread: Koid(thread) },
            category: name(category),
            name: name(event),
            args,
        });
    }

    /// Names a thread and its process.
    pub fn name(&mut self, koid: u64, comm: &str) -> &mut Scene {
        self.name_in(koid, comm, None)
    }

    /// Names a thread and its process, which is in this cgroup.
    pub fn name_in(&mut self, koid: u64, comm: &str, cgroup: Option<&str>) -> &mut Scene {
        self.name_with(koid, comm, cgroup.map(|path| ("cgroup", path)))
    }

    /// Names a thread and its process, which is on this host.
    pub fn name_on(&mut self, koid: u64, comm: &str, host: &str) -> &mut Scene {
        self.name_with(koid, comm, Some(("host", host)))
    }

    fn name_with(&mut self, koid: u64, comm: &str, fact: Option<(&str, &str)>) -> &mut Scene {
        self.named.insert(koid);
        let process = koid / 100 * 100;
        let process_name = format!("p{process}");
        let of = [Arg::new(name("process"), Value::Koid(Koid(process)))];
        let fact = fact.map(|(of, value)| Arg::new(name(of), Value::Str(name(value))));
        self.put(&KernelObject {
            object_type: ObjectType::Process,
            koid: Koid(process),
            name: name(&process_name),
            args: fact.as_slice(),
        });
        self.put(&KernelObject {
            object_type: ObjectType::Thread,
            koid: Koid(koid),
            name: name(comm),
            args: &of,
        });
        self
    }

    fn know(&mut self, koid: u64) {
        if koid != 0 && !self.named.contains(&koid) {
            self.name(koid, &format!("t{koid}"));
        }
    }

    fn write_switch(
        &mut self,
        at: (u64, u16),
        out: u64,
        how: Leaves,
        inn: u64,
        (inferred, facts): (bool, &[(&str, Value<'_>)]),
    ) {
        self.know(out);
        self.know(inn);
        let weights = [("incoming_weight", inn), ("outgoing_weight", out)];
        let mut args: Vec<_> =
            weights.iter().filter_map(|(of, koid)| self.weight_arg(of, *koid)).collect();
        if let Some(letter) = [(Leaves::D, "D"), (Leaves::I, "I")].iter().find(|l| l.0 == how) {
            args.push(Arg::new(name("prev_state"), Value::Str(name(letter.1))));
        }
        if inferred {
            args.push(Arg::new(name("inferred"), Value::Bool(true)));
        }
        args.extend(facts.iter().map(|(fact, value)| Arg::new(name(fact), *value)));
        self.put(&ContextSwitch {
            cpu: at.1,
            time: Ticks(at.0 * 1000),
            outgoing: Koid(out),
            incoming: Koid(inn),
            outgoing_state: match how {
                Leaves::R => ThreadState::Running,
                Leaves::S | Leaves::D | Leaves::I => ThreadState::Blocked,
                Leaves::T => ThreadState::Suspended,
                Leaves::X => ThreadState::Dead,
            },
            args: &args,
        });
    }

    /// At a time, on a CPU, one thread is switched out and another one in; 0 is idle.
    pub fn switch(&mut self, micros: u64, cpu: u16, out: u64, how: Leaves, inn: u64) -> &mut Scene {
        self.write_switch((micros, cpu), out, how, inn, (false, &[]));
        self
    }

    /// A switch with the recorded facts about it.
    pub fn switch_with(
        &mut self,
        at: (u64, u16),
        out: u64,
        how: Leaves,
        inn: u64,
        facts: &[(&str, Value<'_>)],
    ) -> &mut Scene {
        self.write_switch(at, out, how, inn, (false, facts));
        self
    }

    /// A thread moves to the queue of another CPU.
    pub fn migrate(&mut self, micros: u64, koid: u64, from: u16, to: u16) -> &mut Scene {
        self.know(koid);
        let args = [("orig_cpu", from), ("dest_cpu", to)];
        let args = args.map(|(cpu, number)| Arg::new(name(cpu), Value::Uint32(number.into())));
        self.event((micros, EventKind::Instant), koid, ("sched", "migrate"), &args);
        self
    }

    /// A cgroup is throttled on a CPU from this time on.
    pub fn throttle(&mut self, micros: u64, cgroup: &str, cpu: u16) -> &mut Scene {
        self.period((micros, EventKind::AsyncBegin { id: u64::from(cpu) + 1 }), cgroup, cpu)
    }

    /// The cgroup is no longer throttled on the CPU.
    pub fn release(&mut self, micros: u64, cgroup: &str, cpu: u16) -> &mut Scene {
        self.period((micros, EventKind::AsyncEnd { id: u64::from(cpu) + 1 }), cgroup, cpu)
    }

    fn period(&mut self, at: (u64, EventKind), cgroup: &str, cpu: u16) -> &mut Scene {
        let args = [
            Arg::new(name("cgroup"), Value::Str(name(cgroup))),
            Arg::new(name("cpu"), Value::Uint32(cpu.into())),
        ];
        self.event(at, 9, ("sched", "throttled"), &args);
        self
    }

    /// An application records an activity of a thread during an interval.
    pub fn span(&mut self, (from, to): (u64, u64), koid: u64, span: &str) -> &mut Scene {
        self.know(koid);
        self.put(&ProviderInfo { id: APPLICATION, name: "app" });
        for (micros, kind) in [(from, EventKind::DurationBegin), (to, EventKind::DurationEnd)] {
            self.event((micros, kind), koid, ("app", span), &[]);
        }
        self.put(&ProviderSection { id: PROVIDER });
        self
    }

    /// An application records values.
    pub fn counter(
        &mut self,
        micros: u64,
        koid: u64,
        counter: &str,
        series: &[(&str, Value<'_>)],
    ) -> &mut Scene {
        self.know(koid);
        self.put(&ProviderInfo { id: APPLICATION, name: "app" });
        let args: Vec<_> =
            series.iter().map(|(series, value)| Arg::new(name(series), *value)).collect();
        self.event((micros, EventKind::Counter { id: 0 }), koid, ("app", counter), &args);
        self.put(&ProviderSection { id: PROVIDER });
        self
    }

    /// An application records that an operation began on one thread and ended on another.
    pub fn async_span(
        &mut self,
        id: u64,
        begin: (u64, u64),
        end: (u64, u64),
        operation: &str,
    ) -> &mut Scene {
        self.put(&ProviderInfo { id: APPLICATION, name: "app" });
        for ((micros, koid), kind) in
            [(begin, EventKind::AsyncBegin { id }), (end, EventKind::AsyncEnd { id })]
        {
            self.know(koid);
            self.event((micros, kind), koid, ("app", operation), &[]);
        }
        self.put(&ProviderSection { id: PROVIDER });
        self
    }

    /// The file is written because a trigger fired at `trigger`, for an interval of a thread that began at `from`.
    pub fn written_for(
        &mut self,
        micros: u64,
        (from, trigger): (u64, u64),
        koid: u64,
        expression: &str,
    ) -> &mut Scene {
        let args = [
            Arg::new(name("expression"), Value::Str(name(expression))),
            Arg::new(name("thread"), Value::Koid(Koid(koid))),
            Arg::new(name("trigger_ns"), Value::Uint64(trigger * 1000)),
            Arg::new(name("from_ns"), Value::Uint64(from * 1000)),
        ];
        self.own_event(micros, "snapshot_info", &args);
        self
    }

    /// A thread begins to wait in a function of the kernel, according to its stack.
    pub fn stack(&mut self, micros: u64, koid: u64, function: &str) -> &mut Scene {
        self.stack_of(micros, koid, (0xffff_ffff_8100_0010, Koid(0)), function, Kind::OffCpu)
    }

    /// A thread is blocked in functions of its program, the innermost first. Addresses from 2^62 on are those of an interpreted program.
    pub fn frames(&mut self, micros: u64, koid: u64, frames: &[(u64, &str)]) -> &mut Scene {
        let process = Koid(koid / 100 * 100);
        for &(pointer, function) in frames {
            let object = ThreadName::Inline { process, thread: Koid(0) };
            self.put(&UserspaceObject {
                pointer,
                process: object,
                name: name(function),
                args: &[],
            });
        }
        let addresses: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
        self.own_event(micros, "stack_info", &[Arg::new(name("over_ns"), Value::Uint64(1))]);
        let thread = ThreadName::Inline { process, thread: Koid(koid) };
        let (time, flags) = (Ticks(micros * 1000), Kind::OffCpu.flags());
        self.put(&Backtrace { time, thread, flags, frames: &addresses });
        self
    }

    /// A thread runs in a function of its program when it is sampled.
    pub fn sample(&mut self, micros: u64, koid: u64, function: &str) -> &mut Scene {
        let process = Koid(koid / 100 * 100);
        let address = 0x1_0000 + function.bytes().map(u64::from).sum::<u64>() * 16;
        self.stack_of(micros, koid, (address, process), function, Kind::Cpu)
    }

    fn stack_of(
        &mut self,
        micros: u64,
        koid: u64,
        (pointer, process): (u64, Koid),
        function: &str,
        kind: Kind,
    ) -> &mut Scene {
        self.own_event(micros, "stack_info", &[Arg::new(name("over_ns"), Value::Uint64(1))]);
        let process = ThreadName::Inline { process, thread: Koid(0) };
        let function = name(function);
        self.put(&UserspaceObject { pointer, process, name: function, args: &[] });
        let thread = ThreadName::Inline { process: Koid(koid / 100 * 100), thread: Koid(koid) };
        let (time, flags) = (Ticks(micros * 1000), kind.flags());
        self.put(&Backtrace { time, thread, flags, frames: &[pointer] });
        self
    }

    /// The object that a thread waits for, in the wait that began at that time.
    pub fn waits_for(
        &mut self,
        micros: u64,
        koid: u64,
        texts: &[(&'static str, &'static str)],
    ) -> &mut Scene {
        use fxtrec_sched::waited::{CATEGORY, EVENT};
        let arg = |(key, text): &(&'static str, &'static str)| {
            Arg::new(name(key), Value::Str(name(text)))
        };
        let args: Vec<Arg<'_>> = texts.iter().map(arg).collect();
        self.event((micros, EventKind::Instant), koid, (CATEGORY, EVENT), &args);
        self
    }

    /// The host took `taken` of `of` microseconds of a CPU.
    pub fn host_steal(&mut self, micros: u64, cpu: u16, stolen: u64, during: u64) -> &mut Scene {
        let args = [
            Arg::new(name("cpu"), Value::Uint32(cpu.into())),
            Arg::new(name("steal_ns"), Value::Uint64(stolen * 1000)),
            Arg::new(name("during_ns"), Value::Uint64(during * 1000)),
        ];
        self.own_event(micros, "host_steal", &args);
        self
    }

    /// A quota stopped a cgroup for this many microseconds, in this many of this many periods.
    pub fn quota_stat(
        &mut self,
        micros: u64,
        cgroup: &str,
        stopped: u64,
        periods: (u64, u64),
    ) -> &mut Scene {
        let args = [
            Arg::new(name("cgroup"), Value::Str(name(cgroup))),
            Arg::new(name("throttled_ns"), Value::Uint64(stopped * 1000)),
            Arg::new(name("throttled_periods"), Value::Uint64(periods.0)),
            Arg::new(name("periods"), Value::Uint64(periods.1)),
            Arg::new(name("during_ns"), Value::Uint64(micros * 1000)),
        ];
        self.own_event(micros, "quota_stat", &args);
        self
    }

    /// A switch that fxtrec inferred.
    pub fn inferred(&mut self, micros: u64, cpu: u16, out: u64, inn: u64) -> &mut Scene {
        self.write_switch((micros, cpu), out, Leaves::R, inn, (true, &[]));
        self
    }

    /// A thread is woken for a CPU, by an unknown waker.
    pub fn wake(&mut self, micros: u64, cpu: u16, koid: u64) -> &mut Scene {
        self.wake_by(micros, cpu, koid, 0)
    }

    /// A thread is woken for a CPU by another.
    pub fn wake_by(&mut self, micros: u64, cpu: u16, koid: u64, waker: u64) -> &mut Scene {
        self.know(koid);
        self.know(waker);
        let facts = [("waker", Value::Koid(Koid(waker)))];
        self.wake_with(micros, cpu, koid, if waker == 0 { &[] } else { &facts })
    }

    /// A thread is woken for a CPU, with the recorded facts about it.
    pub fn wake_with(
        &mut self,
        micros: u64,
        cpu: u16,
        koid: u64,
        facts: &[(&str, Value<'_>)],
    ) -> &mut Scene {
        self.know(koid);
        let mut args: Vec<_> = self.weight_arg("weight", koid).into_iter().collect();
        args.extend(facts.iter().map(|(fact, value)| Arg::new(name(fact), *value)));
        self.put(&Wakeup { cpu, time: Ticks(micros * 1000), thread: Koid(koid), args: &args });
        self
    }

    /// Events of a CPU were lost, up to this time.
    pub fn lose(&mut self, micros: u64, cpu: u16, count: u32) -> &mut Scene {
        self.put(&ProviderEvent::buffer_filled_up(PROVIDER));
        let args = [
            Arg::new(name("count"), Value::Uint32(count)),
            Arg::new(name("cpu"), Value::Uint32(cpu.into())),
        ];
        self.own_event(micros, "lost", &args);
        self
    }

    /// The application dropped this many records in this many microseconds before this time; `None` if they were not counted.
    pub fn drop_records(&mut self, micros: u64, during: u64, count: Option<u32>) -> &mut Scene {
        self.fill_up();
        let mut args = vec![
            Arg::new(name("provider"), Value::Str(Text::Inline("app"))),
            Arg::new(name("during_ns"), Value::Uint64(during * 1000)),
        ];
        args.extend(count.map(|count| Arg::new(name("count"), Value::Uint32(count))));
        self.own_event(micros, "lost_records", &args);
        self
    }

    /// The application's buffer filled up, and no record shows the losses.
    pub fn fill_up(&mut self) -> &mut Scene {
        self.put(&ProviderInfo { id: APPLICATION, name: "app" });
        self.put(&ProviderEvent::buffer_filled_up(APPLICATION));
        self.put(&ProviderSection { id: PROVIDER });
        self
    }

    pub fn offline(&mut self, micros: u64, cpu: u16) -> &mut Scene {
        let args = [Arg::new(name("cpu"), Value::Uint32(cpu.into()))];
        self.own_event(micros, "cpu_offline", &args);
        self
    }

    /// A CPU is online again.
    pub fn online(&mut self, micros: u64, cpu: u16) -> &mut Scene {
        let args = [Arg::new(name("cpu"), Value::Uint32(cpu.into()))];
        self.own_event(micros, "cpu_online", &args);
        self
    }

    /// The reason why events were lost.
    pub fn blame(&mut self, micros: u64, cause: &str) -> &mut Scene {
        let args = [Arg::new(name("text"), Value::Str(Text::Inline(cause)))];
        self.own_event(micros, "loss_cause", &args);
        self
    }

    /// Bytes that are not a record.
    pub fn damage(&mut self) -> &mut Scene {
        self.bytes.extend([0; 16]);
        self
    }

    pub fn end(&mut self, micros: u64) -> &mut Scene {
        self.own_event(micros, "trace_stats", &[]);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The result with these options.
    pub fn report_with(&self, options: Options) -> Report {
        // With two threads, for every position at which the second thread may start.
        let all = self.bytes.len() as u64;
        let together = [64, all / 2, all * 7 / 8].map(|offset| {
            let reader = Reader::from_slice(&self.bytes);
            analysis::analyse_from(reader, options.clone(), offset).expect("it is a trace")
        });
        let reader = Reader::from_slice(&self.bytes);
        let report = analysis::analyse(reader, options).expect("it is a trace");
        for together in together {
            assert_eq!(format!("{together:?}"), format!("{report:?}"));
        }
        report
    }

    /// The result.
    pub fn report(&self) -> Report {
        self.report_with(Options::default())
    }
}

/// The thread with that id.
pub fn thread(report: &Report, tid: u64) -> &ThreadReport {
    let found = report.threads().iter().find(|thread| thread.tid == Some(tid));
    found.unwrap_or_else(|| panic!("no thread {tid} in {report:#?}"))
}
