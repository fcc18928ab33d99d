//! The findings, one line per check.

use crate::kernel::caps::Capability;
use crate::kernel::facts::{Facts, Lockdown};
use crate::kernel::namespaces::ProcView;
use crate::kernel::refusal::{Refusal, wants_administrator};
use crate::units::Cpu;
use crate::units::text::counted;

use super::examine::Examination;
use super::{Check, Status};

/// All checks, the most important first.
pub(super) fn checks(examination: &Examination) -> Vec<Check> {
    let facts = &examination.facts;
    vec![
        tracefs(examination),
        tracepoints(examination),
        events(examination),
        ftrace(examination),
        bpf(examination),
        idle_task(examination),
        capabilities(facts),
        paranoid(examination),
        ring_memory(examination),
        real_time(examination),
        locked_memory(examination),
        lockdown(facts),
        seccomp(facts),
        user_namespace(facts),
        pid_namespace(facts),
        uprobes(examination),
        btf(examination),
    ]
}

fn refused(refusal: &Refusal) -> String {
    format!("{}\n{}", refusal.call, refusal.cause)
}

fn tracefs(examination: &Examination) -> Check {
    match &examination.tracefs {
        Ok(path) => Check::new(Status::Ok, "tracefs", format!("at {path}")),
        Err(refusal) => Check::new(Status::Fail, "tracefs", refused(refusal)),
    }
}

fn tracepoints(examination: &Examination) -> Check {
    let (status, text) = match &examination.tracepoints {
        Some(Ok(())) => {
            (Status::Ok, "sched_switch, sched_wakeup and sched_wakeup_new are available".to_owned())
        }
        Some(Err(error)) => (Status::Fail, error.clone()),
        None => (Status::Fail, "unknown: needs tracefs".to_owned()),
    };
    Check::new(status, "tracepoints", text)
}

fn cpus(number: usize) -> String {
    counted(number as u64, "CPU", "CPUs")
}

fn events(examination: &Examination) -> Check {
    let name = "perf events";
    match &examination.events {
        Ok(opened) if opened.tracepoints => {
            let text = format!("opened, mapped and started on {}", cpus(opened.cpus));
            Check::new(Status::Ok, name, text)
        }
        Ok(_) => {
            let text = "fork and name events are available; the tracepoints could not be tested";
            Check::new(Status::Warn, name, text)
        }
        Err(refusal) if examination.ftrace.is_ok() => {
            let text = format!("{}\nfxtrec uses ftrace instead", refused(refusal));
            Check::new(Status::Warn, name, text)
        }
        Err(refusal) => Check::new(Status::Fail, name, refused(refusal)),
    }
}

fn ftrace(examination: &Examination) -> Check {
    let name = "ftrace";
    match &examination.ftrace {
        Ok(instances) => {
            let left = match instances.removed.as_slice() {
                [] => String::new(),
                names => {
                    format!("\nremoved {} left by recorders that were killed", names.join(", "))
                }
            };
            let on = cpus(instances.cpus);
            let text = format!("a tracing instance was created and started on {on}");
            Check::new(Status::Ok, name, text + &left)
        }
        Err(refusal) => Check::new(Status::Warn, name, refused(refusal)),
    }
}

fn bpf(examination: &Examination) -> Check {
    let name = "BPF programs";
    match &examination.bpf {
        Ok(number) => {
            let on = cpus(*number);
            let text = format!("loaded and started on {on}: recordings use them by default");
            Check::new(Status::Ok, name, text)
        }
        Err(refusal) => Check::new(Status::Warn, name, refused(refusal)),
    }
}

fn idle_task(examination: &Examination) -> Check {
    let name = "idle task";
    let opened = match &examination.events {
        Ok(opened) if opened.tracepoints => opened,
        _ => return Check::new(Status::Warn, name, "could not be tested"),
    };
    let cpus: Vec<String> = opened.silent.iter().map(|Cpu(cpu)| cpu.to_string()).collect();
    if cpus.is_empty() {
        return Check::new(
            Status::Ok,
            name,
            "the kernel reports it on every CPU that was idle during the test",
        );
    }
    let text = format!(
        "silent on CPU {}, as on some virtual machines: the kernel does not report it to \
         perf\nwith --source perf, fxtrec then requests a second record of each switch there, at \
         a higher cost",
        cpus.join(", ")
    );
    Check::new(Status::Warn, name, text)
}

fn capabilities(facts: &Facts) -> Check {
    let names: Vec<String> = Capability::ALL
        .into_iter()
        .filter(|capability| facts.capabilities.has(*capability))
        .map(|capability| capability.to_string())
        .collect();
    let status = if facts.may_trace() { Status::Ok } else { Status::Warn };
    let text = match (names.is_empty(), facts.namespaces.initial_user) {
        (true, _) => "none that fxtrec can use".to_owned(),
        (false, true) => names.join(" "),
        (false, false) => {
            format!("{}\nbut only inside this user namespace", names.join(" "))
        }
    };
    Check::new(status, "capabilities", text)
}

fn paranoid(examination: &Examination) -> Check {
    let facts = &examination.facts;
    let name = "paranoid level";
    let Some(level) = facts.paranoid else {
        let text =
            "kernel.perf_event_paranoid does not exist: is the kernel built without perf events?";
        return Check::new(Status::Fail, name, text);
    };
    let setting = format!("kernel.perf_event_paranoid is {level}");
    if level < 0 {
        Check::new(Status::Ok, name, format!("{setting}: all users may open tracepoints"))
    } else if examination.events.is_err() && wants_administrator(facts) {
        // The test ran with CAP_PERFMON, which some kernels accept.
        let text = format!("{setting}: CAP_PERFMON does not override it on this kernel");
        Check::new(Status::Warn, name, text)
    } else if facts.may_trace() {
        Check::new(Status::Ok, name, format!("{setting}: the capabilities override it"))
    } else {
        Check::new(Status::Warn, name, format!("{setting}: tracepoints need CAP_PERFMON"))
    }
}

fn ring_memory(examination: &Examination) -> Check {
    let name = "ring memory";
    let kib = |bytes: usize| bytes / 1024;
    let budget = |cpus| match examination.facts.ring_budget(cpus) {
        Some(bytes) => format!("limit of locked memory: {} KiB in all", bytes / 1024),
        None => "no limit applies".to_owned(),
    };
    match &examination.events {
        Ok(opened) if opened.has_small_rings() => {
            let text = format!(
                "rings of {} KiB were granted instead of {} KiB: events may be lost in bursts\n{}",
                kib(opened.ring_bytes),
                kib(opened.wanted_ring_bytes()),
                budget(opened.cpus)
            );
            Check::new(Status::Warn, name, text)
        }
        Ok(opened) => {
            let text = format!("{} KiB per CPU; {}", kib(opened.ring_bytes), budget(opened.cpus));
            Check::new(Status::Ok, name, text)
        }
        Err(_) => Check::new(Status::Warn, name, "could not be tested"),
    }
}

fn real_time(examination: &Examination) -> Check {
    let name = "real-time";
    let Some(errno) = examination.denied.real_time else {
        let text = "granted: under load, the capture thread runs before ordinary threads";
        return Check::new(Status::Ok, name, text);
    };
    let facts = &examination.facts;
    let has_right = facts.namespaces.initial_user && facts.capabilities.has(Capability::SysNice);
    let cause = match has_right {
        true => "this cgroup has no real-time runtime (cpu.rt_runtime_us)",
        false => "it needs CAP_SYS_NICE, or RLIMIT_RTPRIO of 1 (ulimit -r)",
    };
    let text = format!(
        "real-time priority was refused: {errno:?}; {cause}\nevents may be lost while the CPUs are overloaded"
    );
    Check::new(Status::Warn, name, text)
}

fn locked_memory(examination: &Examination) -> Check {
    let name = "locked memory";
    let Some(errno) = examination.denied.locked_memory else {
        return Check::new(Status::Ok, name, "granted: fxtrec's pages stay in memory");
    };
    let text = format!(
        "locking memory was refused: {errno:?}; it needs CAP_IPC_LOCK, or RLIMIT_MEMLOCK (ulimit \
         -l)\nevents may be lost while memory is short"
    );
    Check::new(Status::Warn, name, text)
}

fn lockdown(facts: &Facts) -> Check {
    let (status, text) = match facts.lockdown {
        Lockdown::Off => (Status::Ok, "off"),
        Lockdown::Integrity => (Status::Ok, "integrity: tracing is permitted"),
        Lockdown::Confidentiality => {
            (Status::Warn, "confidentiality: the kernel may refuse parts of tracing, even to root")
        }
    };
    Check::new(status, "lockdown", text)
}

fn seccomp(facts: &Facts) -> Check {
    if facts.seccomp {
        let text = "a filter is active, as in most containers; it may block perf_event_open";
        Check::new(Status::Warn, "seccomp", text)
    } else {
        Check::new(Status::Ok, "seccomp", "no filter")
    }
}

fn user_namespace(facts: &Facts) -> Check {
    let name = "user namespace";
    if facts.namespaces.initial_user {
        Check::new(Status::Ok, name, "the initial one")
    } else {
        let text = "not the initial one: root in this namespace has no rights over the machine";
        Check::new(Status::Warn, name, text)
    }
}

fn pid_namespace(facts: &Facts) -> Check {
    let name = "pid namespace";
    let (status, text) = match (facts.namespaces.initial_pid, facts.namespaces.proc_view) {
        (_, ProcView::Foreign) => {
            (Status::Warn, "/proc does not show this process: mount /proc of this namespace")
        }
        (true, _) => (Status::Ok, "the initial one"),
        (false, ProcView::Initial) => {
            (Status::Warn, "not the initial one; /proc is the host's, so all threads have names")
        }
        (false, _) => (
            Status::Warn,
            "not the initial one: threads outside have only the short names from the\nscheduler, \
             and the trace has the host's thread ids",
        ),
    };
    Check::new(status, name, text)
}

fn uprobes(examination: &Examination) -> Check {
    let (status, text) = match (examination.uprobes, examination.facts.may_trace()) {
        (true, true) => (Status::Ok, "supported by the kernel"),
        (true, false) => (Status::Warn, "supported by the kernel, but they need CAP_PERFMON"),
        (false, _) => (Status::Warn, "not supported by this kernel (CONFIG_UPROBE_EVENTS)"),
    };
    let text = match examination.swept {
        0 => text.to_owned(),
        swept => format!("{text}\nremoved {swept} definitions left by recorders that were killed"),
    };
    Check::new(status, "uprobes", text)
}

fn btf(examination: &Examination) -> Check {
    let facts = &examination.facts;
    let may_load = facts.namespaces.initial_user && facts.capabilities.bpf();
    let (status, text) = match (examination.btf, may_load) {
        (true, true) => (Status::Ok, "the kernel has type information, and fxtrec has CAP_BPF"),
        (true, false) => (Status::Warn, "the kernel has type information; BPF needs CAP_BPF"),
        (false, _) => (Status::Warn, "no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"),
    };
    Check::new(status, "BTF", text)
}
