//! Waits for packets, connections and disks: what is at their other end.

use fxt_writer::{Koid, Text, Value};
use fxtrec_report::scene::{Leaves, Scene};

use super::sentences::call;
use super::{ALL, FSYNC, READ, RECVFROM, ask, chain, links, within};
use crate::{Explanation, Metric, Query};

/// 101 waits for 30 ms in recvfrom on a connection; later, 102 waits on the other end of that connection; `waker` ends the first wait.
fn connection(waker: u64) -> Explanation {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(101, "client").name(102, "server").name(201, "third");
    scene.switch(0, 0, 0, Leaves::R, 101).switch(0, 1, 0, Leaves::R, waker);
    scene.switch_with((1_000, 0), 101, Leaves::S, 0, &call(RECVFROM));
    let ends = [("object_kind", "tcp"), ("local", "127.0.0.1:40"), ("remote", "127.0.0.1:80")];
    scene.stack(1_000, 101, "tcp_recvmsg").waits_for(1_000, 101, &ends);
    scene.wake_by(31_000, 0, 101, waker).switch(31_000, 0, 0, Leaves::R, 101);
    scene.switch(32_000, 1, waker, Leaves::S, 0).switch(33_000, 1, 0, Leaves::R, 102);
    scene.switch_with((34_000, 1), 102, Leaves::S, 0, &call(RECVFROM));
    let ends = [("object_kind", "tcp"), ("local", "127.0.0.1:80"), ("remote", "127.0.0.1:40")];
    scene.stack(34_000, 102, "tcp_recvmsg").waits_for(34_000, 102, &ends);
    scene.wake(39_000, 1, 102).switch(39_000, 1, 0, Leaves::R, 102);
    scene.switch(40_000, 0, 101, Leaves::S, 0).end(50_000);
    ask(&scene, &within("101", 1_000, 31_000))
}

#[test]
fn a_wait_for_a_connection_names_its_ends_and_who_has_the_other_one() {
    let why = connection(201);
    assert!(
        why.sentence.contains(
            "blocked 30.0 ms in recvfrom on TCP 127.0.0.1:80 (server[102]) until woken by third[201]"
        ),
        "{}",
        why.sentence
    );
    let object = why.waits[0].object.clone().expect("known");
    assert_eq!((&*object.kind, object.local.as_deref()), ("tcp", Some("127.0.0.1:40")));
    assert_eq!(object.peer.map(|who| who.tid), Some(102));
    // A thread that is already named is not named again.
    let why = connection(102);
    assert!(
        why.sentence
            .contains("blocked 30.0 ms in recvfrom on TCP 127.0.0.1:80 until woken by server[102]"),
        "{}",
        why.sentence
    );
}

/// A client wakes a server with a packet, and waits until a packet from the server wakes it.
fn request() -> Scene {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "client").name(201, "server");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch(1_500, 1, 201, Leaves::S, 0);
    let by = |waker, ago| {
        let packet = Value::Str(Text::Inline("packet"));
        [("waker", Value::Koid(Koid(waker))), ("via", packet), ("sent_ns", Value::Uint64(ago))]
    };
    scene.switch_with((2_000, 0), 100, Leaves::S, 0, &call(RECVFROM));
    scene.wake_with(2_100, 1, 201, &by(100, 200_000));
    scene.switch(2_200, 1, 0, Leaves::R, 201);
    scene.switch(42_000, 1, 201, Leaves::S, 0);
    scene.wake_with(52_000, 0, 100, &by(201, 12_000_000));
    scene.switch(52_010, 0, 0, Leaves::R, 100);
    scene.switch(54_000, 0, 100, Leaves::S, 0);
    scene.end(500_000);
    scene
}

#[test]
fn who_waits_for_a_packet_waits_for_what_its_sender_does_and_then_for_the_packet() {
    let why = ask(&request(), &Query { metric: Some(Metric::Blocked), ..Query::default() });
    assert_eq!(
        why.sentence,
        "client[100] made no progress for 50.0 ms: blocked 50.0 ms in recvfrom until woken by server[201] (by a packet), \
         which ran for 37.8 ms and sent a packet that was on its way for 12.0 ms."
    );
    let expected = [
        (2, "client packet", 100),
        (1, "server waiting", 100),
        (1, "server on_cpu", 37_800),
        (1, "server packet", 12_000),
    ];
    assert_eq!(chain(&why), links(&expected));
}

/// A wakeup by the completion of a request that `by` submitted this many microseconds earlier, and that the disk got later.
pub(super) fn done(by: u64, made: u64, issued: u64) -> [(&'static str, Value<'static>); 7] {
    let text = |text| Value::Str(Text::Inline(text));
    [
        ("interrupt", Value::Bool(true)),
        ("interrupt_kind", text("request")),
        ("interrupt_name", text("write vda")),
        ("request_bytes", Value::Uint32(4096)),
        ("request_by", Value::Koid(Koid(by))),
        ("request_ns", Value::Uint64(made * 1_000)),
        ("device_ns", Value::Uint64(issued * 1_000)),
    ]
}

#[test]
fn who_waits_for_its_own_request_to_a_disk() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "writer");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch_with((2_000, 0), 100, Leaves::D, 0, &call(FSYNC));
    scene.wake_with(19_000, 0, 100, &done(100, 17_100, 16_800));
    scene.switch(19_010, 0, 0, Leaves::R, 100);
    scene.switch(20_000, 0, 100, Leaves::S, 0);
    scene.end(100_000);
    let why = ask(&scene, &Query { metric: Some(Metric::Blocked), ..Query::default() });
    assert_eq!(
        why.sentence,
        "writer[100] made no progress for 17.0 ms: blocked 17.0 ms uninterruptibly in fsync until its 4.0 KiB write to \
         vda was done (300 us queued, 16.8 ms in the device)."
    );
    let request = why.chain[0].request.as_ref().expect("it is told");
    assert_eq!((request.queued_ns, request.device_ns), (Some(300_000), Some(16_800_000)));
    assert_eq!(
        (request.operation.as_deref(), request.disk.as_deref()),
        (Some("write"), Some("vda"))
    );
    assert_eq!(request.thread.as_ref().map(|who| who.koid), Some(100));
    assert_eq!(why.cause(), "disk");
}

#[test]
fn a_long_request_names_whose_others_the_same_disk_had_meanwhile() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "writer").name(201, "backup").name(202, "other").name(203, "brief");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch_with((2_000, 0), 100, Leaves::D, 0, &call(FSYNC));
    // Before, on another disk, and for a short part of the time.
    scene.wake_with(1_900, 1, 202, &done(202, 500, 400));
    let mut elsewhere = done(202, 9_000, 8_000);
    elsewhere[2].1 = Value::Str(Text::Inline("write sdb"));
    scene.wake_with(12_000, 1, 202, &elsewhere);
    scene.wake_with(13_000, 1, 203, &done(203, 1_000, 900));
    scene.wake_with(18_000, 1, 201, &done(201, 17_000, 16_000));
    scene.wake_with(19_000, 0, 100, &done(100, 17_000, 16_800));
    scene.switch(19_010, 0, 0, Leaves::R, 100);
    scene.switch(20_000, 0, 100, Leaves::S, 0);
    scene.end(100_000);
    let whole = Query { metric: Some(Metric::Blocked), ..Query::default() };
    for query in [whole, within("100", 2_000, 19_000)] {
        let why = ask(&scene, &query);
        assert!(
            why.sentence.ends_with(
                "was done (200 us queued, 16.8 ms in the device; meanwhile vda also had 4.0 KiB of backup[201])."
            ),
            "{}",
            why.sentence
        );
        let request = why.chain[0].request.as_ref().expect("it is told");
        let beside: Vec<_> = request.beside.iter().map(|it| (it.thread.koid, it.bytes)).collect();
        assert_eq!(beside, [(201, 4096)]);
    }
}

#[test]
fn a_short_request_after_a_long_wait_names_whose_others_the_disk_had_during_the_wait() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "writer").name(201, "backup");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch_with((2_000, 0), 100, Leaves::D, 0, &call(FSYNC));
    scene.wake_with(18_000, 1, 201, &done(201, 15_000, 14_000));
    scene.wake_with(19_000, 0, 100, &done(100, 400, 300));
    scene.switch(19_010, 0, 0, Leaves::R, 100);
    scene.switch(20_000, 0, 100, Leaves::S, 0);
    scene.end(100_000);
    let why = ask(&scene, &Query { metric: Some(Metric::Blocked), ..Query::default() });
    let reported =
        "(100 us queued, 300 us in the device; meanwhile vda also had 4.0 KiB of backup[201]).";
    assert!(why.sentence.ends_with(reported), "{}", why.sentence);
}

#[test]
fn of_several_requests_the_one_that_took_nearly_all_of_the_time_is_named() {
    for (second, named) in [(17_000, true), (2_000, false)] {
        let mut scene = Scene::of_command(ALL, 100);
        scene.name(100, "writer").switch(1_000, 0, 0, Leaves::R, 100);
        let mut now = 2_000;
        for takes in [1_000, second] {
            scene.switch_with((now, 0), 100, Leaves::D, 0, &call(FSYNC));
            now += takes;
            scene.wake_with(now, 0, 100, &done(100, takes - 200, 300));
            scene.switch(now + 10, 0, 0, Leaves::R, 100);
            now += 100;
        }
        scene.switch(now, 0, 100, Leaves::S, 0).end(100_000);
        let why = ask(&scene, &within("100", 2_000, now));
        let reported = "of it until its 4.0 KiB write to vda was done";
        assert_eq!(why.sentence.contains(reported), named, "{}", why.sentence);
        assert!(
            named || why.sentence.contains("until woken by the end of a write to vda"),
            "{}",
            why.sentence
        );
    }
}

/// A reader waits for a page that a worker writes, which computes before that.
#[test]
fn who_waits_for_a_request_of_another_waits_for_what_that_does_before_it() {
    let mut scene = Scene::of_command(ALL, 100);
    scene.name(100, "reader").name(201, "worker");
    scene.switch(1_000, 0, 0, Leaves::R, 100);
    scene.switch(1_500, 1, 0, Leaves::R, 201);
    scene.switch_with((2_000, 0), 100, Leaves::D, 0, &call(READ));
    scene.switch(45_000, 1, 201, Leaves::S, 0);
    scene.wake_with(52_000, 0, 100, &done(201, 10_000, 8_000));
    scene.switch(52_010, 0, 0, Leaves::R, 100);
    scene.switch(54_000, 0, 100, Leaves::S, 0);
    scene.end(500_000);
    let why = ask(&scene, &Query { metric: Some(Metric::Blocked), ..Query::default() });
    assert_eq!(
        why.sentence,
        "reader[100] made no progress for 50.0 ms: blocked 50.0 ms uninterruptibly in read until a 4.0 KiB write to \
         vda by worker[201] was done (2.00 ms queued, 8.00 ms in the device); until then worker[201] ran for 40.0 ms."
    );
    let expected = [(1, "worker on_cpu", 40_000), (1, "worker request", 10_000)];
    assert_eq!(chain(&why), links(&expected));
}
