//! ftrace text and perf.data, as in public bug reports about other tools.

use fxt_reader::record::Value;
use fxt_reader::{Reader, Record};

use super::*;

fn imported(input: &[u8], from: Format) -> (Vec<u8>, Report) {
    converted(input, from, Format::Fxt, Options::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Imports a text, whose format must be detected.
fn text(input: &str) -> Vec<u8> {
    let mut opened = Input::from_bytes(input.into()).expect("not packed");
    assert_eq!(opened.format().expect("its format shows"), Format::FtraceText);
    imported(input.as_bytes(), Format::FtraceText).0
}

/// Switches as `time CPU from state to`, and wakeups as `time CPU thread waker`.
pub(super) fn scheduling(fxt: &[u8]) -> Vec<String> {
    let mut reader = Reader::from_slice(fxt);
    let mut found = Vec::new();
    while let Some(item) = reader.next().expect("a sound trace") {
        match item.record {
            Record::ContextSwitch(it) => {
                let (from, state, to) = (it.outgoing, it.outgoing_state, it.incoming);
                found.push(format!("{} {} {from} {state} {to}", it.time, it.cpu));
            }
            Record::Wakeup(it) => {
                let waker = it.waker().map_or("?".to_owned(), |waker| waker.to_string());
                found.push(format!("{} {} {} by {waker}", it.time, it.cpu, it.koid));
            }
            _ => {}
        }
    }
    found
}

/// The last name of a thread, and its process.
fn thread(fxt: &[u8], koid: u64) -> (String, u64) {
    let mut reader = Reader::from_slice(fxt);
    let mut found = None;
    while let Some(item) = reader.next().expect("a sound trace") {
        if let Record::KernelObject(object) = item.record
            && (object.object_type, object.koid.0) == (fxt_reader::ObjectType::Thread, koid)
        {
            let process = object.args.iter().find_map(|arg| match arg.value {
                Value::Koid(process) => Some(process.0),
                _ => None,
            });
            found = Some((object.name.to_owned(), process.unwrap_or_default()));
        }
    }
    found.expect("it has a name")
}

const REAL_TIME: &str = "\
# tracer: nop
#
#                                _-------=> irqs-off
#                               / _------=> need-resched
#                              | / _-----=> need-resched-lazy
#                              || / _----=> hardirq/softirq
#                              ||| / _---=> preempt-depth
#                              |||| / _--=> preempt-lazy-depth
#                              ||||| / _-=> migrate-disable
#                              |||||| /     delay
#           TASK-PID     CPU#  |||||||  TIMESTAMP  FUNCTION
#              | |         |   |||||||      |         |
          mixer-501     [000] d...2..    10.000100: sched_switch: prev_comm=mixer prev_pid=501 prev_prio=120 prev_state=S ==> next_comm=crunch next_pid=502 next_prio=120
         crunch-502     [000] d..h2..    10.001000: sched_wakeup: comm=mixer pid=501 prio=120 target_cpu=000
         crunch-502     [000] d...2..    10.001050: sched_switch: prev_comm=crunch prev_pid=502 prev_prio=120 prev_state=R ==> next_comm=mixer next_pid=501 next_prio=120
          mixer-501     [000] d...2..    10.002000: sched_switch: prev_comm=mixer prev_pid=501 prev_prio=120 prev_state=S ==> next_comm=crunch next_pid=502 next_prio=120
         crunch-502     [000] d.L.211    10.003000: sched_wakeup: comm=mixer pid=501 prio=120 target_cpu=000
";

#[test]
fn an_interrupted_thread_of_a_real_time_kernel_is_no_waker() {
    let expected = [
        "10.000100000 0 501 blocked 502",
        "10.001000000 0 501 by ?",
        "10.001050000 0 502 running 501",
        "10.002000000 0 501 blocked 502",
        "10.003000000 0 501 by 502",
    ];
    assert_eq!(scheduling(&text(REAL_TIME)), expected);
    // Without a header, as in trace_pipe, and after columns of another kernel.
    let bare: String =
        REAL_TIME.lines().filter(|it| !it.starts_with('#')).flat_map(|it| [it, "\n"]).collect();
    assert_eq!(scheduling(&text(&bare)), expected);
}

#[test]
fn atrace_begins_with_a_word_and_names_processes() {
    let input = "\
TRACE:
# tracer: nop
#
# entries-in-buffer/entries-written: 3/3   #P:2
#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION
          <idle>-0     (-----) [001] .n.1  200.500001: cpu_idle: state=4294967295 cpu_id=1
          <idle>-0     (-----) [001] d..2  200.500010: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=render next_pid=77 next_prio=97
          render-77    (   70) [001] d..3  200.501000: sched_switch: prev_comm=render prev_pid=77 prev_prio=97 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
";
    for input in [input.to_owned(), format!("capturing trace... done\n{input}")] {
        let fxt = text(&input);
        let expected = ["200.500010000 1 0 running 77", "200.501000000 1 77 blocked 0"];
        assert_eq!(scheduling(&fxt), expected);
        assert_eq!(thread(&fxt, 77), ("render".to_owned(), 70), "its process comes later");
    }
}

#[test]
fn flags_and_time_need_no_blank_between_them() {
    let input = "\
cpus=2
          worker-31    (   30) [000] d..2.42.000001: sched_switch: prev_comm=worker prev_pid=31 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     [000]  42.000500: sched_waking: comm=worker pid=31 prio=120 target_cpu=000
          <idle>-0     (-----) [000] dNsa. 42.000501: sched_wakeup: comm=worker pid=31 prio=120 target_cpu=000
          <idle>-0     [000]    42.000510: sched_switch:         swapper/0:0 [120] R ==> worker:31 [120]
";
    let (fxt, report) = imported(input.as_bytes(), Format::FtraceText);
    assert_eq!(report.read, 4, "all four events");
    let expected =
        ["42.000001000 0 31 blocked 0", "42.000501000 0 31 by ?", "42.000510000 0 0 running 31"];
    assert_eq!(scheduling(&fxt), expected);
    assert_eq!(thread(&fxt, 31), ("worker".to_owned(), 30));
}

#[test]
fn a_thread_gets_its_name_when_the_text_has_it() {
    let input = "\
           <...>-31      [000] d..2.  42.1: sched_switch: prev_comm=<...> prev_pid=31 prev_prio=120 prev_state=R ==> next_comm=<...> next_pid=32 next_prio=120
          second-32      [000] d..2.  42.2: sched_switch: prev_comm=<...> prev_pid=32 prev_prio=120 prev_state=S ==> next_comm=first next_pid=31 next_prio=120
           <...>-31      [000] d..2.  42.3: sched_switch: prev_comm=<...> prev_pid=31 prev_prio=120 prev_state=S ==> next_comm=<...> next_pid=32 next_prio=120
";
    let fxt = text(input);
    assert_eq!((thread(&fxt, 31).0, thread(&fxt, 32).0), ("first".into(), "second".into()));
    let never = text(&input.replace("first", "<...>"));
    assert_eq!(thread(&never, 31).0, "[31]", "no name is better than a wrong one");
}

#[test]
fn times_without_decimals_are_said_to_be_a_guess() {
    let input = "  a-7 [000] d..2.  4000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n";
    let (fxt, report) = imported(input.as_bytes(), Format::FtraceText);
    assert_eq!(scheduling(&fxt), ["0.000004000 0 7 blocked 8"]);
    let remark =
        "times without decimals, taken as nanoseconds: wrong if the clock counts another unit";
    assert_eq!(report.times(remark), 1);
}

/// The compressed records of `perf record -z` in the form of perf 6.16: another type, padding, and the size of a whole run in its first
/// record. `each` is the number of records in a run.
fn as_perf_6_16(data: &[u8], each: usize) -> (Vec<u8>, usize) {
    let word = |data: &[u8], at: usize| {
        u64::from_ne_bytes(*data[at..].first_chunk().expect("in the file"))
    };
    let (start, size) = (word(data, 40) as usize, word(data, 48) as usize);
    let (mut out, mut run, mut packed) = (data[..start].to_vec(), Vec::<&[u8]>::new(), 0);
    let flush = |run: &mut Vec<&[u8]>, out: &mut Vec<u8>| {
        let total: usize = run.iter().map(|piece| piece.len()).sum();
        for (at, piece) in run.iter().enumerate() {
            let padded = piece.len().next_multiple_of(8);
            out.extend(83u32.to_ne_bytes());
            out.extend([0u16.to_ne_bytes(), (16 + padded as u16).to_ne_bytes()].concat());
            out.extend((if at == 0 { total as u64 } else { 0 }).to_ne_bytes());
            out.extend(*piece);
            out.resize(out.len() + padded - piece.len(), 0);
        }
        run.clear();
    };
    let mut at = start;
    while at < start + size {
        let head = word(data, at);
        let (kind, mut length) = (head as u32, (head >> 48) as usize);
        if kind == 81 {
            run.push(&data[at + 8..at + length]);
            packed += 1;
            if run.len() == each {
                flush(&mut run, &mut out);
            }
        } else {
            flush(&mut run, &mut out);
            if kind == 66 {
                length += (word(data, at + 8) as u32 as usize).next_multiple_of(8);
            }
            out.extend(&data[at..at + length]);
        }
        at += length;
    }
    flush(&mut run, &mut out);
    let (records, tail) = (out.len() - start, out.len());
    out[48..56].copy_from_slice(&(records as u64).to_ne_bytes());
    out.extend(&data[start + size..]);
    // The sections of features follow the records.
    let features: u32 = data[72..104].iter().map(|byte| byte.count_ones()).sum();
    for at in (0..features as usize).map(|number| tail + number * 16) {
        let moved = word(&out, at) + (records as u64) - (size as u64);
        out[at..at + 8].copy_from_slice(&moved.to_ne_bytes());
    }
    (out, packed)
}

#[test]
fn packed_records_with_the_sizes_of_perf_6_16_are_read() {
    let data = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/perf_data/zstd"));
    let (expected, _) = imported(data, Format::PerfData);
    assert!(!scheduling(&expected).is_empty());
    for each in [1, 2, 3, usize::MAX] {
        let (rewritten, packed) = as_perf_6_16(data, each);
        assert!(packed >= 2, "{packed} packed records");
        assert!(imported(&rewritten, Format::PerfData).0 == expected, "runs of {each}");
    }
    // If the content is damaged, the error names the bug in perf.
    let (mut rewritten, _) = as_perf_6_16(data, 2);
    let head = [83u32.to_ne_bytes()].concat();
    let at = rewritten.windows(4).position(|window| window == head).expect("a packed record");
    rewritten[at + 16..at + 20].fill(0xff);
    let error = converted(&rewritten, Format::PerfData, Format::Fxt, Options::default());
    let error = error.expect_err("no stream").to_string();
    assert!(error.contains("perf 6.16 writes wrong sizes"), "{error}");
}

#[test]
fn every_layout_that_kernels_and_tools_write_is_read_whole() {
    macro_rules! seeds {
        ($($name:literal)+) => {
            [$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/ftrace_text/", $name)))),+]
        };
    }
    for (name, seed) in seeds!["report" "tracefs" "pipe" "processes" "latency" "verbose" "fields"
        "report-latency" "report-raw" "perf-script" "real-time" "atrace" "no-gap"]
    {
        let fxt = text(seed);
        let is_event =
            |line: &&str| line.contains("sched_switch:") || line.contains("sched_wakeup");
        let (events, found) = (seed.lines().filter(is_event).count(), scheduling(&fxt).len());
        // Only wakeups with an effect are written, and missing switches are added.
        assert!(events >= 2 && found >= events / 2, "{name}: {found} of {events}");
        let names = ["pipe", "latency", "verbose", "fields", "processes"].contains(&name);
        assert!(!names || thread(&fxt, 16482).0 == "lto cgu.4", "{name}");
    }
}
