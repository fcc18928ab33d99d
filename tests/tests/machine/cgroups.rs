//! The cgroup of each process: the one it was created in, and the ones it was moved to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fxt_reader::record::is_not_recorded;
use fxt_reader::{Koid, ThreadState};
use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::{record, record_in};
use fxtrec_tests::root::may_record;
use fxtrec_tests::skip::skip;
use serde_json::Value;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// A cgroup without a quota, in the hierarchy by which processes are distinguished. Removed on drop.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    /// What the trace calls it.
    pub(crate) path: String,
}

impl Group {
    /// `None` where none can be made.
    pub(crate) fn new(label: &str) -> Option<Group> {
        let first = Path::new("/sys/fs/cgroup/cpu");
        let root = if is_first_version() { first } else { Path::new("/sys/fs/cgroup") };
        let name = format!("fxtrec-{label}-{}", std::process::id());
        let folder = root.join(&name);
        fs::create_dir(&folder).ok()?;
        // The root has the file, too; a directory that is not a cgroup does not.
        let group = Group { folder, path: format!("/{name}") };
        group.folder.join("cgroup.procs").exists().then_some(group)
    }

    pub(crate) fn procs(&self) -> String {
        self.folder.join("cgroup.procs").display().to_string()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn is_first_version() -> bool {
    Path::new("/sys/fs/cgroup/cpu/cgroup.procs").exists()
}

#[test]
fn a_process_has_its_parents_cgroup_until_it_is_moved() {
    if !may_record() {
        return;
    }
    let (Some(first), Some(second)) = (Group::new("first"), Group::new("second")) else {
        return skip("no cgroup can be made here");
    };
    let own = fs::read_to_string("/proc/self/cgroup").expect("/proc");
    for source in ["bpf", "perf", "ftrace"] {
        let script = format!(
            "echo $$ >{}; sleep 0.01 & kept=$!; wait; sleep 0.1 & echo $! >{}; echo $$ $kept $!; wait",
            first.procs(),
            second.procs()
        );
        let folder = Folder::new();
        let recording = record_in(&folder, &["--source", source], &["sh", "-c", &script]);
        let ids = recording.printed.split_whitespace().map(|id| id.parse().expect("an id"));
        let found: Vec<_> = ids.map(|id: u64| recording.trace.cgroups[&id].clone()).collect();
        let [shell, kept, moved] = &found[..] else { panic!("{source}: {found:?}") };
        let [first, second] = [&first, &second].map(|group| Some(group.path.clone()));
        let [Some(before), then] = &shell[..] else { panic!("{source}: {shell:?}") };
        assert!(own.lines().any(|line| line.ends_with(&format!(":{before}"))), "{before}: {own}");
        assert_eq!(*then, first, "{source}");
        assert_eq!(*kept, [first], "{source}");
        assert_eq!(moved.last(), Some(&second), "{source}: {moved:?}");
        assert_is_chosen(&folder, &second.expect("a path"), "sleep");
    }
}

/// The report and gates find the thread with this name by its cgroup, and no other.
fn assert_is_chosen(folder: &Folder, cgroup: &str, comm: &str) {
    let glob = format!("{}*", &cgroup[..cgroup.len() - 1]);
    let by_cgroup = format!("slice.count > 0 if cgroup = '{cgroup}' and comm = '{comm}'");
    let others = format!("slice.count > 0 if cgroup = '{cgroup}' and comm != '{comm}'");
    let gates = ["--fail-if", &by_cgroup, "--fail-if", &others];
    let done = folder.fxtrec(["report", "t.fxt", "--cgroup", &glob, "--json"].iter().chain(&gates));
    let report: Value = serde_json::from_str(&done.expect(3).stdout).expect("JSON");
    let threads = report["threads"].as_array().expect("a list");
    let reported: Vec<_> = threads.iter().map(|it| (&it["comm"], &it["cgroup"])).collect();
    assert_eq!(reported, [(&Value::from(comm), &Value::from(cgroup))]);
    let found = [0, 1].map(|at| report["gates"][at]["finding"].as_str());
    assert_eq!(found, [Some("broken"), Some("too_few")], "{}", report["gates"]);
}

/// A parent whose processes are only in its children, as for slices and pods.
#[test]
fn a_cgroup_is_recorded_with_those_below_it_and_a_glob_without_processes_is_reported() {
    if !may_record() {
        return;
    }
    let Some(parent) = Group::new("parent") else { return skip("no cgroup can be made here") };
    let child =
        Group { folder: parent.folder.join("child"), path: format!("{}/child", parent.path) };
    fs::create_dir(&child.folder).expect("room");
    for source in ["bpf", "perf", "ftrace"] {
        let script = format!("echo $$ >{}; sleep 0.01; echo $$", child.procs());
        let none = format!("{}-none", parent.path);
        let options = ["--source", source, "--cgroup", &parent.path, "--cgroup", &none];
        let recording = record(&options, &["sh", "-c", &script]);
        let shell: u64 = recording.printed.trim().parse().expect("its id");
        let outs = recording.trace.outs(shell).count();
        assert!(outs > 0, "{source}: {}", recording.said);
        let said = |glob: &str| {
            recording
                .said
                .contains(&format!("no process was in a cgroup that matches --cgroup '{glob}'"))
        };
        assert!(said(&none) && !said(&parent.path), "{source}: {}", recording.said);
    }
}

/// As service managers and container runtimes do it, with clone3(2): no move is reported.
#[test]
fn a_process_that_is_made_in_another_cgroup_is_reported_to_be_in_it() {
    if !may_record() {
        return;
    }
    // Only the unified hierarchy supports it, and here another one identifies processes. The guests of scripts/vm have it.
    if is_first_version() {
        return;
    }
    let Some(group) = Group::new("born") else { return skip("no cgroup can be made here") };
    let folder = group.folder.to_str().expect("a plain path");
    for source in ["bpf", "perf", "ftrace"] {
        let recording = record(&["--source", source], &[WORKLOAD, "born", folder]);
        let child: u64 = recording.printed.trim().parse().expect("its id");
        let cgroups = &recording.trace.cgroups[&child];
        assert_eq!(cgroups.last(), Some(&Some(group.path.clone())), "{source}: {cgroups:?}");
    }
}

#[test]
fn a_scope_of_cgroups_has_every_switch_of_their_threads_and_no_others() {
    if !may_record() {
        return;
    }
    let Some(group) = Group::new("scope") else { return skip("no cgroup can be made here") };
    let script = format!("echo $$ >{}; exec {WORKLOAD} threads 2 1000", group.procs());
    for source in ["bpf", "perf", "ftrace"] {
        let folder = Folder::new();
        let options = ["--source", source, "--cgroup", &group.path];
        let recording = record_in(&folder, &options, &["sh", "-c", &script]);
        let trace = &recording.trace;
        assert_eq!(trace.info().args["scope"], "cgroups");
        let number = |text: &str| -> u64 { text.parse().expect("a number") };
        for line in recording.lines() {
            let [koid, begin, end, switches] = [0, 1, 2, 3].map(|at| number(line[at]));
            let inside = |time: u64| begin <= time && time <= end;
            let outs = trace.outs(koid).filter(|switch| inside(switch.time)).count() as u64;
            assert_eq!(outs, switches, "{source}: thread {koid}");
        }
        let process = trace.threads[&number(recording.lines()[0][0])].1;
        let ours = |koid: u64| trace.threads[&koid].1 == process;
        for switch in &trace.switches {
            let concerns = ours(switch.outgoing) || ours(switch.incoming);
            let unrecorded =
                [switch.outgoing, switch.incoming].map(|koid| is_not_recorded(Koid(koid)));
            let known = concerns || unrecorded != [false, false];
            assert!(known || switch.inferred, "{source}: {switch:?}");
        }
        for wakeup in &trace.wakeups {
            assert!(ours(wakeup.thread), "{source}: {wakeup:?}");
        }
    }
}

#[test]
fn who_is_moved_into_or_out_of_a_cgroup_enters_or_leaves_the_scope() {
    if !may_record() {
        return;
    }
    let Some(group) = Group::new("moves") else { return skip("no cgroup can be made here") };
    let root = group.folder.parent().expect("it is in the hierarchy").display();
    let folder = Folder::new();
    let sleep = String::from_utf8(
        std::process::Command::new("which").arg("sleep").output().expect("which").stdout,
    );
    let sleep = sleep.expect("a path");
    for name in ["before", "inside", "below", "outside", "again", "late"] {
        std::os::unix::fs::symlink(sleep.trim(), folder.path(name)).expect("a link");
    }
    // The kernel's programs know a cgroup below another that is in scope before it becomes visible; for one that matches by itself, fxtrec
    // must see it first. The last is removed when fxtrec has read which process was moved into it.
    let late = format!("{root}/fxtrec-later-{}", std::process::id());
    let (here, inner) = (folder.path("").display().to_string(), group.folder.join("inner"));
    let script = format!(
        "cd {here}; ./before 0.01; echo $$ >{procs}; ./inside 0.01
         mkdir {inner}; sh -c 'echo $$ >{inner}/cgroup.procs; exec ./below 0.01'
         echo $$ >{root}/cgroup.procs; ./outside 0.01; echo $$ >{procs}; ./again 0.01; echo $$ >{root}/cgroup.procs
         mkdir {late}; sleep 1; echo $$ >{late}/cgroup.procs; ./late 0.01
         echo $$ >{root}/cgroup.procs; ./outside 0.01; sleep 1; rmdir {late} {inner}",
        procs = group.procs(),
        inner = inner.display(),
    );
    for source in ["bpf", "perf", "ftrace"] {
        let globs = [format!("{}*", group.path), "/fxtrec-later-*".to_owned()];
        let options = ["--source", source, "--cgroup", &globs[0], "--cgroup", &globs[1]];
        let trace = record_in(&folder, &options, &["sh", "-c", &script]).trace;
        let names = |koid: u64| trace.thread_names[&koid].iter();
        let woken: BTreeSet<&str> =
            trace.wakeups.iter().flat_map(|it| names(it.thread)).map(String::as_str).collect();
        for name in ["inside", "below", "again", "late"] {
            assert!(woken.contains(name), "{source}: {name} is missing in {woken:?}");
            let koid = |koid: &&u64| names(**koid).any(|it| it == name);
            let koid = trace.threads.keys().find(koid).expect("it is named");
            let last = trace.outs(*koid).last().expect("it went out");
            assert!(matches!(last.state, ThreadState::Dying | ThreadState::Dead), "{last:?}");
        }
        for name in ["before", "outside", "rmdir"] {
            assert!(!woken.contains(name), "{source}: {name} is in {woken:?}");
        }
    }
}
