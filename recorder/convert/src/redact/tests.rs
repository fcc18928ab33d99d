use std::collections::BTreeMap;
use std::path::Path;

use fxt_writer::record::{
    Blob, BlobType, ContextSwitch, Event, EventKind, Initialization, KernelObject, Log, Module,
    ObjectType, ProcessName, ProviderInfo, ProviderSection, UserspaceObject,
};
use fxt_writer::{Arg, Koid, ProviderId, Text, ThreadName, Ticks, Value, Writer};

use super::*;

const THREAD: (Koid, Koid) = (Koid(7), Koid(8));

fn string<'a>(key: &'a str, value: &'a str) -> Arg<'a> {
    Arg::new(Text::Inline(key), Value::Str(Text::Inline(value)))
}

fn object<'a>(
    object_type: ObjectType,
    koid: u64,
    name: &'a str,
    args: &'a [Arg<'a>],
) -> KernelObject<'a> {
    KernelObject { object_type, koid: Koid(koid), name: Text::Inline(name), args }
}

/// A recording of `secret` and its application: all text that only its owner knows contains that word.
fn trace() -> Vec<u8> {
    let mut trace = Writer::new(Vec::new());
    trace.start("fxtrec", 1_000_000_000).expect("room");
    let args = [
        ("command_line", Value::Str(Text::Inline("fxtrec -- ./secret --token=secret"))),
        ("host", Value::Str(Text::Inline("secret.example"))),
        ("scope", Value::Str(Text::Inline("all"))),
        ("release", Value::Str(Text::Inline("6.18"))),
    ];
    trace.instant(Ticks(1), THREAD, "fxtrec", "trace_info", &args).expect("room");
    for expression in ["runqueue > 2ms if cgroup = 'secret'", "span('secret') > 2ms", "turn > 3ms"]
    {
        let args = [("expression", Value::Str(Text::Inline(expression)))];
        trace.instant(Ticks(1), THREAD, "fxtrec", "snapshot_info", &args).expect("room");
    }
    let home =
        [Arg::new(Text::Inline("process"), Value::Koid(Koid(7))), string("cgroup", "/secret/a")];
    let objects = [
        object(ObjectType::Process, 7, "secret", &[]),
        object(ObjectType::Thread, 8, "secret", &home),
        object(ObjectType::Thread, 9, "kworker/0:1H", &[]),
        object(ObjectType::Thread, 10, "fxtrec-capture", &[]),
    ];
    for object in &objects {
        trace.write(object).expect("room");
    }
    let (process, thread) = (ProcessName::Inline(Koid(7)), Koid(7));
    for (id, name) in [(1, "/opt/secret/lib.so"), (2, "/opt/secret/bin"), (3, "[vdso]")] {
        let build_id: &[u8] = if id == 3 { b"public" } else { b"secret" };
        let module = Module { time: Ticks(2), process, id, name, build_id };
        trace.write(&module).expect("room");
    }
    for (koid, name) in [(0, "do_exit"), (7, "secret::work")] {
        let process = ThreadName::Inline { process: Koid(koid), thread: Koid(koid) };
        let name = Text::Inline(name);
        trace.write(&UserspaceObject { pointer: 0x1000, process, name, args: &[] }).expect("room");
    }
    let held = [string("prev_state", "D"), string("throttled_by", "/secret/b")];
    let switch = ContextSwitch {
        cpu: 3,
        time: Ticks(5),
        outgoing: Koid(8),
        incoming: Koid(9),
        outgoing_state: fxt_writer::record::ThreadState::Blocked,
        args: &held,
    };
    trace.write(&switch).expect("room");
    let waited = [
        string("object_kind", "tcp"),
        string("path", "/opt/secret/file"),
        string("local", "secret.example:80"),
    ];
    let event = Event {
        kind: EventKind::Instant,
        time: Ticks(5),
        thread: ThreadName::Inline { process: Koid(7), thread: Koid(8) },
        category: Text::Inline("fxtrec"),
        name: Text::Inline("waited_for"),
        args: &waited,
    };
    trace.write(&event).expect("room");
    let payload = b"secret";
    let name = Text::Inline("fxtrec.stacks");
    trace.write(&Blob { name, blob_type: BlobType::Perfetto, payload }).expect("room");

    let id = ProviderId(2);
    trace.write(&ProviderInfo { id, name: "secret" }).expect("room");
    trace.write(&ProviderSection { id }).expect("room");
    trace.write(&Initialization { ticks_per_second: 1_000_000_000 }).expect("room");
    let inline = ThreadName::Inline { process: thread, thread: Koid(8) };
    // The scheduler's category alone does not make it a scheduler event.
    for category in ["secret", "sched"] {
        let (category, name) = (Text::Inline(category), Text::Inline("secret"));
        let args = [string("secret", "secret")];
        let kind = EventKind::Instant;
        let event = Event { kind, time: Ticks(6), thread: inline, category, name, args: &args };
        trace.write(&event).expect("room");
    }
    trace.write(&Log { time: Ticks(7), thread: inline, message: "secret" }).expect("room");
    trace.into_inner()
}

fn redacted(secrets: &[Secret]) -> (Vec<u8>, Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.fxt");
    std::fs::write(&path, trace()).expect("room");
    let mut out = Vec::new();
    let report = redact(&path, secrets, false, &mut out).expect("a trace");
    (out, report)
}

/// How often each kind of text occurs in the trace.
fn listed(trace: &[u8]) -> BTreeMap<(&'static str, String), u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.fxt");
    std::fs::write(&path, trace).expect("room");
    texts(Path::new(&path)).expect("a trace")
}

fn has(trace: &[u8], text: &str) -> bool {
    trace.windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

#[test]
fn nothing_that_only_the_owner_knows_is_in_what_is_shared() {
    let (shared, report) = redacted(&Secret::ALL);
    assert!(has(&trace(), "secret") && !has(&shared, "secret"), "{:?}", listed(&shared));
    assert_eq!(report.times("blobs, left out"), 1);
    // Text that is needed to understand the trace stays.
    for text in [
        "trace_info",
        "6.18",
        "waited_for",
        "tcp",
        "kworker/0:1H",
        "fxtrec-capture",
        "do_exit",
        "[vdso]",
        "prev_state",
        "runqueue > 2ms if arg-",
        "span arg-",
        "turn > 3ms",
    ] {
        assert!(has(&shared, text), "{text}");
    }
    let check =
        fxt_reader::check::check(&mut Reader::new(&shared[..]), fxt_reader::check::Promises::Spec);
    assert!(check.expect("a trace").is_sound());
}

#[test]
fn functions_stay_in_what_is_shared_unless_they_are_asked_for() {
    let (shared, _) = redacted(&Secret::FOR_SHARING);
    let shared = listed(&shared);
    let left: Vec<_> = shared.keys().filter(|(_, text)| text.contains("secret")).collect();
    assert_eq!(left, [&("functions", "secret::work".to_owned())]);
}

#[test]
fn a_file_in_the_name_of_a_function_is_a_path() {
    let text = |secrets: &[Secret], name: &str| {
        Redactor::new(secrets).text(Role::Address(Koid(7)), name, false)
    };
    let shared = text(&Secret::FOR_SHARING, "work (jobs/lock.py:9)").expect("another name");
    let file = shared.strip_prefix("work (file-").expect("the function stays");
    assert!(file.ends_with(":9)") && file.contains("/file-") && !file.contains("lock"), "{shared}");
    let all = text(&Secret::ALL, "work (lock.py:9)").expect("another name");
    assert!(all.starts_with("fn-") && all.contains(" (file-") && all.ends_with(":9)"), "{all}");
    let function = text(&[Secret::Functions], "work (lock.py:9)").expect("another name");
    assert!(function.starts_with("fn-") && function.ends_with(" (lock.py:9)"), "{function}");
    for other in ["work", "operator() (int)", "work (lock.py:)", "work (a:b)"] {
        assert_eq!(text(&Secret::FOR_SHARING, other), None, "{other}");
    }
}

#[test]
fn a_name_has_one_pseudonym_and_a_path_one_for_each_part() {
    let (shared, _) = redacted(&[Secret::Names, Secret::Paths]);
    let shared = listed(&shared);
    let of = |kind: &str| -> Vec<(&str, u64)> {
        let of_kind = shared.iter().filter(|((found, _), _)| *found == kind);
        of_kind.map(|((_, text), count)| (&**text, *count)).collect()
    };
    // A process, a thread, a provider, two events, a category, two keys; and the application's category `sched`.
    let names = of("names");
    let pseudonyms: Vec<&(&str, u64)> =
        names.iter().filter(|(name, _)| name.starts_with("name-")).collect();
    let counts: Vec<u64> = pseudonyms.iter().map(|(_, count)| *count).collect();
    assert!(counts == [1, 8] || counts == [8, 1], "{names:?}");
    assert_eq!(pseudonyms[0].0.len(), 15);
    let folders: Vec<&str> =
        of("paths").iter().map(|(path, _)| path.rsplit_once('/').expect("a folder").0).collect();
    assert!(folders.len() == 3 && folders.iter().all(|it| *it == folders[0]), "{folders:?}");
    assert!(folders[0].starts_with("/file-"), "{folders:?}");
    // Kinds that were not requested are unchanged.
    assert_eq!(of("hosts"), [("secret.example", 1), ("secret.example:80", 1)]);
    assert_eq!(of("cgroups"), [("/secret/a", 1), ("/secret/b", 1)]);
}

#[test]
fn only_threads_that_every_kernel_has_keep_their_names() {
    for name in [
        "kworker/3:2",
        "ksoftirqd/1",
        "migration/12",
        "swapper/0",
        "rcu_preempt",
        "fxtrec",
        "fxtrec cut",
    ] {
        assert!(is_public_name(name), "{name}");
    }
    for name in ["kworker/acme", "kworkers", "fxtrecorder", "migration/0 of acme", "nginx"] {
        assert!(!is_public_name(name), "{name}");
    }
}
