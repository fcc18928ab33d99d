//! The proposal for a cause.

use fxt_writer::Value;
use fxtrec_report::scene::{Leaves, Scene};

use super::sentences::call;
use super::{ALL, RECVFROM, ask, of};
use crate::{Metric, Query};

#[test]
fn a_recording_of_own_processes_is_not_to_be_repeated_with_system_calls() {
    let advice = |other: &str| {
        let mut scene = Scene::of_scope("processes");
        scene.name(101, "client").name(62 << 16, other);
        scene.switch(1_000, 0, 0, Leaves::R, 101).switch(3_000, 0, 101, Leaves::S, 62 << 16);
        scene.wake_with(53_000, 0, 101, &[("interrupt", Value::Bool(true))]).switch(
            53_010,
            0,
            62 << 16,
            Leaves::S,
            101,
        );
        scene.switch(54_000, 0, 101, Leaves::S, 0).end(500_000);
        let blocked = Query { metric: Some(Metric::Blocked), ..Query::default() };
        ask(&scene, &blocked).advice.join("\n")
    };
    let plain = advice("server");
    assert!(plain.contains("--syscalls"), "{plain}");
    let own = advice("another user");
    assert!(!own.contains("--syscalls") && own.contains("with --stacks"), "{own}");
}

#[test]
fn a_hog_in_another_cgroup_is_not_to_be_reniced() {
    let advice = |own: &str, other: &str| {
        let mut scene = Scene::of_command(ALL, 100);
        scene.name_in(100, "victim", Some(own)).name_in(201, "hog", Some(other));
        // As an application does that names itself and does not know its cgroup.
        scene.name_in(301, "hog", Some("/c")).name(201, "hog");
        scene.switch(1_000, 0, 0, Leaves::R, 100);
        scene.switch(2_000, 0, 100, Leaves::R, 201).switch(30_000, 0, 201, Leaves::R, 301);
        scene.switch(32_000, 0, 301, Leaves::R, 100);
        scene.switch(33_000, 0, 100, Leaves::S, 0);
        scene.end(100_000);
        ask(&scene, &Query::default()).advice.swap_remove(0)
    };
    assert_eq!(
        advice("/a/web", "/a/batch"),
        "hog[201] was in the cgroup /a/batch, victim[100] in /a/web, and nice counts only within a cgroup that has a \
         cpu.weight: raise that of /a/web (v1: cpu.shares), or use chrt -f or another CPU (taskset)"
    );
    for (own, other) in [("/a", "/a"), ("/", "/a")] {
        let said = advice(own, other);
        assert!(said.contains("higher priority than hog[201] and hog[301] (nice"), "{said}");
    }
}

#[test]
fn who_had_the_cpu_is_named_with_its_cgroup_if_that_is_another_one_and_certain() {
    let explain = |cgroups: [&[&str]; 3]| {
        let mut scene = Scene::of_command(ALL, 100);
        for (koid, name, list) in
            [(100, "victim", cgroups[0]), (201, "hog", cgroups[1]), (301, "other", cgroups[2])]
        {
            for cgroup in list {
                scene.name_in(koid, name, Some(cgroup));
            }
        }
        scene.switch(1_000, 0, 0, Leaves::R, 100);
        scene.switch(2_000, 0, 100, Leaves::R, 201).switch(30_000, 0, 201, Leaves::R, 301);
        scene.switch(52_000, 0, 301, Leaves::R, 100);
        scene.switch(53_000, 0, 100, Leaves::S, 0);
        scene.end(100_000);
        ask(&scene, &Query::default())
    };
    let sentence = |cgroups| explain(cgroups).sentence;
    let batch: &[&str] = &["/batch"];
    let all = sentence([&["/web"], batch, batch]);
    assert!(all.contains("by hog[201] and other[301] (cgroup /batch)"), "{all}");
    let each = sentence([&["/web"], batch, &["/c"]]);
    assert!(each.contains("by hog[201] (cgroup /batch) and other[301] (cgroup /c)"), "{each}");
    // Its own cgroup, and one that moved meanwhile.
    let none = sentence([&["/web"], &["/web"], &["/batch", "/c"]]);
    assert!(none.contains("by hog[201] and other[301]"), "{none}");
    assert!(!none.contains("cgroup"), "{none}");
    let why = explain([&["/web"], batch, &["/"]]);
    let of_parts: Vec<_> = why.blame.iter().filter_map(|it| it.cgroup.as_deref()).collect();
    assert_eq!(of_parts, ["/batch"]);
    let shares = why.chain.iter().flat_map(|link| &link.tenants);
    let of_shares: Vec<_> = shares.map(|it| (it.ns, it.cgroup.as_deref())).collect();
    assert_eq!(of_shares, [(28_000_000, Some("/batch")), (22_000_000, None)]);
}

#[test]
fn in_merged_recordings_the_peer_of_a_socket_is_to_be_asked_about() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name_on(101, "client", "web-1").name_on(201, "server", "db-1");
    scene.switch(1_000, 0, 0, Leaves::R, 101);
    scene.switch_with((3_000, 0), 101, Leaves::S, 0, &call(RECVFROM));
    scene.wake_with(53_000, 0, 101, &[("interrupt", Value::Bool(true))]);
    scene.switch(53_000, 0, 0, Leaves::R, 101).switch(54_000, 0, 101, Leaves::S, 0).end(500_000);
    let blocked = Query { metric: Some(Metric::Blocked), ..of("client@web-1") };
    let advice = ask(&scene, &blocked).advice.join("\n");
    let expected = "--thread NAME@HOST --from 0.003000000 --to 0.053000000";
    assert!(advice.contains(expected), "{advice}");
}
