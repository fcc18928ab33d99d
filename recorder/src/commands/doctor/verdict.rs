//! From findings to verdicts: which uses of fxtrec work here.

use super::examine::Examination;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Verdict {
    pub(super) usage: &'static str,
    pub(super) works: bool,
    /// What works, or why it does not.
    pub(super) text: String,
}

/// The verdict per use.
pub(super) fn verdicts(examination: &Examination) -> Vec<Verdict> {
    let machine = obstacle(examination);
    // ftrace reports only the host's ids.
    let by_host_ids = examination.events.is_err() && !examination.facts.namespaces.initial_pid;
    let process = machine.or(by_host_ids.then_some("perf events"));
    let of = |obstacle: Option<&str>, usage, good: &str| Verdict {
        usage,
        works: obstacle.is_none(),
        text: obstacle.map_or(good.to_owned(), |obstacle| format!("not possible: see {obstacle}")),
    };
    let verdict = |usage, good: &str| of(machine, usage, good);
    let ids = if examination.facts.namespaces.initial_pid {
        "record a running process"
    } else {
        "record a running process, by its id in this pid namespace"
    };
    vec![
        verdict("fxtrec -- COMMAND", "record the machine while COMMAND runs"),
        verdict("fxtrec -a", "record the machine"),
        of(process, "fxtrec -p PID", ids),
        verdict("latency in CI", latency(examination)),
    ]
}

/// The most important change, if one is needed.
pub(super) fn remedy(examination: &Examination) -> Option<String> {
    match (&examination.tracefs, &examination.events) {
        (Err(tracefs), Ok(_)) => Some(tracefs.remedy.clone()),
        // If the events can be opened, explain how to reach tracefs; the reverse helps less.
        (_, Err(events)) if examination.ftrace.is_err() => Some(events.remedy.clone()),
        (_, _) => match &examination.tracepoints {
            Some(Err(error)) => {
                Some(format!("please report this kernel to fxtrec's authors: {error}"))
            }
            _ => None,
        },
    }
}

/// The first failed check that makes a recording impossible.
fn obstacle(examination: &Examination) -> Option<&'static str> {
    if examination.tracefs.is_err() {
        Some("tracefs")
    } else if !matches!(examination.tracepoints, Some(Ok(()))) {
        Some("tracepoints")
    } else if examination.events.is_err() && examination.ftrace.is_err() {
        Some("perf events")
    } else {
        None
    }
}

fn latency(examination: &Examination) -> &'static str {
    match &examination.events {
        Ok(opened) if opened.has_small_rings() => {
            "wakeup latencies are exact as long as nothing is lost; losses are more likely with these small rings"
        }
        Ok(opened) if !opened.silent.is_empty() => {
            "wakeup latencies are exact; switches of CPUs with a silent idle task cost more to record"
        }
        _ => "wakeup latencies are exact",
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;
    use crate::commands::doctor::checks::checks;
    use crate::commands::doctor::examine::{Instances, Opened};
    use crate::commands::doctor::{Check, Status};
    use crate::commands::plan::DEFAULT_RING_BYTES;
    use crate::kernel::caps::{Capabilities, Capability};
    use crate::kernel::facts::{Facts, Lockdown};
    use crate::kernel::fake::ordinary_user;
    use crate::kernel::namespaces::ProcView;
    use crate::kernel::priority::Denied;
    use crate::kernel::refusal::Refusal;
    use crate::units::Cpu;

    fn refusal(remedy: &str) -> Refusal {
        Refusal { call: "a call".into(), cause: "a cause".into(), remedy: remedy.into() }
    }

    fn opened(ring_bytes: usize, silent: &[Cpu]) -> Opened {
        Opened { cpus: 2, ring_bytes, tracepoints: true, silent: silent.to_vec() }
    }

    fn healthy() -> Examination {
        let capabilities = Capabilities::of(&Capability::ALL);
        Examination {
            headline: String::new(),
            facts: Facts { user: 0, capabilities, lockdown: Lockdown::Off, ..ordinary_user() },
            tracefs: Ok("/sys/kernel/tracing".into()),
            tracepoints: Some(Ok(())),
            events: Ok(opened(DEFAULT_RING_BYTES, &[])),
            ftrace: Ok(Instances { cpus: 2, removed: Vec::new() }),
            bpf: Ok(2),
            uprobes: true,
            swept: 0,
            btf: true,
            denied: Denied::default(),
        }
    }

    fn named(examination: &Examination, name: &str) -> Check {
        checks(examination).into_iter().find(|check| check.name == name).expect("a known check")
    }

    #[test]
    fn on_a_healthy_machine_every_check_is_ok_and_every_use_works() {
        let healthy = healthy();
        for check in checks(&healthy) {
            assert_eq!(check.status, Status::Ok, "{check:?}");
        }
        assert!(verdicts(&healthy).iter().all(|verdict| verdict.works));
        assert_eq!(remedy(&healthy), None);
    }

    #[test]
    fn each_obstacle_alone_stops_every_use_and_is_named() {
        let closed = Examination { tracefs: Err(refusal("x")), tracepoints: None, ..healthy() };
        let strange = Examination { tracepoints: Some(Err("odd".into())), ..healthy() };
        let refused =
            Examination { events: Err(refusal("x")), ftrace: Err(refusal("y")), ..healthy() };
        for (examination, name) in
            [(closed, "tracefs"), (strange, "tracepoints"), (refused, "perf events")]
        {
            for verdict in verdicts(&examination) {
                assert!(!verdict.works, "{verdict:?}");
                assert_eq!(verdict.text, format!("not possible: see {name}"));
            }
            assert_eq!(named(&examination, name).status, Status::Fail);
            assert!(remedy(&examination).is_some(), "{name} needs a remedy");
        }
    }

    #[test]
    fn the_remedy_for_the_events_is_preferred_when_tracefs_is_closed_too() {
        let user = Examination {
            tracefs: Err(refusal("open tracefs")),
            tracepoints: None,
            events: Err(refusal("open the events")),
            ftrace: Err(refusal("open tracefs")),
            ..healthy()
        };
        assert_eq!(remedy(&user).as_deref(), Some("open the events"));
        let tracefs_only = Examination { tracefs: Err(refusal("open tracefs")), ..healthy() };
        assert_eq!(remedy(&tracefs_only).as_deref(), Some("open tracefs"));
    }

    #[test]
    fn without_perf_events_ftrace_will_do_but_for_processes_of_an_inner_namespace() {
        let mut refused = Examination { events: Err(refusal("x")), ..healthy() };
        assert!(verdicts(&refused).iter().all(|verdict| verdict.works));
        assert_eq!(named(&refused, "perf events").status, Status::Warn);
        assert_eq!(remedy(&refused), None);
        refused.facts.namespaces.initial_pid = false;
        let works: Vec<bool> = verdicts(&refused).iter().map(|verdict| verdict.works).collect();
        assert_eq!(works, [true, true, false, true]);
    }

    #[test]
    fn what_the_dead_left_behind_is_reported() {
        let removed = vec!["fxtrec-7-1-0".to_owned()];
        let found = Examination { ftrace: Ok(Instances { cpus: 2, removed }), ..healthy() };
        let ftrace = named(&found, "ftrace");
        assert_eq!(ftrace.status, Status::Ok);
        assert!(ftrace.text.contains("removed fxtrec-7-1-0"), "{}", ftrace.text);
        let without = Examination { bpf: Err(refusal("x")), ..healthy() };
        assert_eq!(named(&without, "BPF programs").status, Status::Warn);
        let closed = Examination { ftrace: Err(refusal("x")), ..healthy() };
        assert_eq!(named(&closed, "ftrace").status, Status::Warn);
    }

    #[test]
    fn small_rings_and_silent_cpus_warn_but_stop_nothing() {
        let small = Examination { events: Ok(opened(65536, &[Cpu(1), Cpu(3)])), ..healthy() };
        assert_eq!(named(&small, "ring memory").status, Status::Warn);
        let idle = named(&small, "idle task");
        assert_eq!(idle.status, Status::Warn);
        assert!(idle.text.contains("CPU 1, 3"), "{}", idle.text);
        assert!(verdicts(&small).iter().all(|verdict| verdict.works));
        assert!(verdicts(&small)[3].text.contains("small rings"));
    }

    #[test]
    fn what_was_refused_to_the_capture_thread_warns_with_its_cause() {
        let denied = Denied { real_time: Some(Errno::EPERM), locked_memory: Some(Errno::ENOMEM) };
        let mut refused = Examination { denied, ..healthy() };
        let text = |examination: &Examination, name| {
            let check = named(examination, name);
            assert_eq!(check.status, Status::Warn);
            check.text.lines().next().expect("a line").to_owned()
        };
        assert_eq!(
            text(&refused, "real-time"),
            "real-time priority was refused: EPERM; this cgroup has no real-time runtime (cpu.rt_runtime_us)"
        );
        refused.facts.capabilities = Capabilities::of(&[Capability::Perfmon]);
        assert_eq!(
            text(&refused, "real-time"),
            "real-time priority was refused: EPERM; it needs CAP_SYS_NICE, or RLIMIT_RTPRIO of 1 (ulimit -r)"
        );
        assert!(text(&refused, "locked memory").starts_with("locking memory was refused: ENOMEM"));
        assert!(verdicts(&refused).iter().all(|verdict| verdict.works));
    }

    #[test]
    fn the_paranoid_level_is_judged_by_what_was_tried() {
        let mut facts = healthy().facts;
        facts.capabilities = Capabilities::of(&[Capability::Perfmon, Capability::Bpf]);
        facts.paranoid = Some(4);
        let open = Examination { facts: facts.clone(), ..healthy() };
        let level = named(&open, "paranoid level");
        assert_eq!(level.status, Status::Ok);
        assert!(level.text.contains("4: the capabilities override it"), "{}", level.text);
        let closed = Examination { facts, events: Err(refusal("x")), ..healthy() };
        let level = named(&closed, "paranoid level");
        assert_eq!(level.status, Status::Warn);
        assert!(level.text.contains("CAP_PERFMON does not override"), "{}", level.text);
    }

    #[test]
    fn in_a_user_namespace_capabilities_are_shown_for_what_they_are() {
        let mut inside = healthy();
        inside.facts.namespaces.initial_user = false;
        let capabilities = named(&inside, "capabilities");
        assert_eq!(capabilities.status, Status::Warn);
        assert!(capabilities.text.contains("only inside"), "{}", capabilities.text);
        assert_eq!(named(&inside, "user namespace").status, Status::Warn);
        assert_eq!(named(&inside, "paranoid level").status, Status::Warn);
        assert_eq!(named(&inside, "BTF").status, Status::Warn);
    }

    #[test]
    fn in_a_pid_namespace_it_is_said_whose_ids_count() {
        let mut inside = healthy();
        inside.facts.namespaces.initial_pid = false;
        inside.facts.namespaces.proc_view = ProcView::Own;
        assert!(named(&inside, "pid namespace").text.contains("host's thread ids"));
        assert!(verdicts(&inside)[2].text.contains("in this pid namespace"));
        inside.facts.namespaces.proc_view = ProcView::Foreign;
        assert!(named(&inside, "pid namespace").text.contains("mount /proc"));
    }
}
