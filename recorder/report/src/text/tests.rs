use super::*;
use crate::scene::{Leaves, Scene};
use crate::{GroupBy, Metric, Report};
use fxtrec_units::look::Look;

/// Thread 101 waits 5 us and 45 us, 202 waits 20 us; 101 runs most.
fn report() -> Report {
    let mut scene = Scene::new();
    scene.wake_by(10, 0, 101, 202);
    scene.switch(15, 0, 0, Leaves::R, 101);
    scene.wake(20, 0, 202);
    scene.switch(40, 0, 101, Leaves::R, 202);
    scene.switch(85, 0, 202, Leaves::S, 101);
    scene.switch(185, 0, 101, Leaves::S, 0);
    scene.report()
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("memory takes all");
    String::from_utf8(out).expect("text")
}

fn tasks(sort: SortKey, rows: Option<usize>) -> Vec<String> {
    let style = TableStyle { metric: Metric::RunQueue, sort, rows, look: Look::PLAIN };
    let table = text(|out| write_threads(&report(), style, out));
    let lines = table.lines().skip(3).take_while(|line| !line.is_empty());
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_table_has_a_row_for_each_thread_sorted_as_asked_and_a_total() {
    let by_max = tasks(SortKey::Max, None);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let first = words(&by_max[0]);
    let expected = ["t101:101", "0.125", "2", "2", "0.025", "0.005", "0.045", "0.045"];
    assert_eq!(first[..8], expected);
    assert_eq!(first[8..], ["0.000085000", "0", "0"], "when the longest ended, and no more");
    assert!(by_max[1].starts_with("t202:202"), "{by_max:?}");
    assert!(by_max[2].starts_with("TOTAL"), "{by_max:?}");
    assert!(tasks(SortKey::Name, None)[1].starts_with("t202"));
    assert!(tasks(SortKey::Percentile(500), None)[0].starts_with("t202"));
    assert!(tasks(SortKey::Runtime, None)[0].starts_with("t101"));
}

#[test]
fn rows_that_are_left_out_are_counted() {
    let short = tasks(SortKey::Max, Some(1));
    assert_eq!(short.len(), 3);
    assert_eq!(short[2], "and 1 more thread (--rows 0 shows all)");
}

#[test]
fn what_many_traces_lost_is_reported_as_that_of_one_is() {
    let head = |losses: &[(u64, u64)]| {
        let mut fleet = crate::fleet::Fleet::default();
        for (number, (events, unreported)) in losses.iter().enumerate() {
            let mut report = report();
            report.losses.gaps = u64::from(*events > 0);
            report.losses.events = *events;
            report.losses.unreported = *unreported;
            fleet.add(number, format!("{number}.fxt"), report);
        }
        text(|out| write_fleet_head(&fleet.finish(), Look::PLAIN, out))
    };
    let lost = head(&[(5, 0), (0, 3), (7, 1)]);
    assert!(lost.contains("LOST 12 events in 2 gaps of 2 traces; values"), "{lost}");
    assert!(lost.contains("\n4 events are missing: the kernel counted"), "{lost}");
    let whole = head(&[(0, 0), (0, 0)]);
    assert!(!whole.contains("LOST") && !whole.contains("missing"), "{whole}");
}

#[test]
fn numbers_agree_with_their_nouns() {
    let head = |change: fn(&mut crate::Losses)| {
        let mut report = report();
        change(&mut report.losses);
        text(|out| write_head(&report, Look::PLAIN, out))
    };
    let one = head(|losses| {
        (losses.gaps, losses.events, losses.others) = (1, 1, 1);
        (losses.unreported, losses.damaged) = (1, 1);
    });
    for line in [
        "LOST 1 event in 1 gap;",
        "LOST 1 event of system calls",
        "1 event is missing: the kernel counted but never wrote it; its time is unknown",
        "DAMAGED in 1 place;",
    ] {
        assert!(one.contains(line), "{line} in {one}");
    }
    let two = head(|losses| (losses.gaps, losses.events, losses.damaged) = (2, 2, 2));
    assert!(two.contains("LOST 2 events in 2 gaps;") && two.contains("in 2 places;"), "{two}");
}

#[test]
fn the_head_says_where_and_of_what_as_far_as_the_trace_does() {
    let said = |host: &str, release: &str, command_line: &str| {
        let mut report = report();
        let [host, release, command_line] = [host, release, command_line].map(str::to_owned);
        report.origin = Some(crate::Origin { host, release, command_line, ..Default::default() });
        let head = text(|out| write_head(&report, Look::PLAIN, out));
        head.lines().nth(1).map(str::to_owned)
    };
    let expected = |line: &str| Some(line.to_owned());
    assert_eq!(said("a", "6.12", "make"), expected("recorded on a (Linux 6.12): make"));
    assert_eq!(said("", "6.12", ""), expected("recorded (Linux 6.12)"));
    assert_eq!(said("a", "", ""), expected("recorded on a"));
    assert_eq!(said("", "", "make"), expected("recorded: make"));
    assert_eq!(said("", "", ""), expected(""), "the head ends there");
    let by = |source: &str| {
        let mut report = report();
        let [host, version, source] = ["a", "0.1.0", source].map(str::to_owned);
        report.origin = Some(crate::Origin { host, version, source, ..Default::default() });
        let head = text(|out| write_head(&report, Look::PLAIN, out));
        head.lines().nth(1).map(str::to_owned)
    };
    assert_eq!(by("bpf"), expected("recorded on a by fxtrec 0.1.0"));
    assert_eq!(by("perf.data"), expected("recorded on a"), "fxtrec has only imported it");
}

#[test]
fn the_head_says_at_what_time_of_day_the_recording_began() {
    let mut report = report();
    let begin = report.span.begin;
    report.origin =
        Some(crate::Origin { wall_clock_offset: Some(3_600_000_000_000), ..Default::default() });
    let head = text(|out| write_head(&report, Look::PLAIN, out));
    assert!(head.contains(&format!(" s from {begin} (01:00:00.")), "{head}");
}

#[test]
fn a_merged_trace_names_its_hosts_in_the_head_in_sentences_and_once_in_a_table() {
    let mut scene = crate::scene::Scene::of_command("waker", 100);
    scene.name_on(100, "client", "web-1").name_on(201, "hog", "web-2").name_on(301, "sh", "web-1");
    scene.host_cpus("web-1", 0).host_cpus("web-2", 1);
    scene.switch(1_000, 0, 0, Leaves::R, 100).switch(2_000, 0, 100, Leaves::R, 201);
    scene.switch(32_000, 0, 201, Leaves::R, 100).switch(33_000, 0, 100, Leaves::S, 301);
    scene.switch(34_000, 0, 301, Leaves::S, 0).end(100_000);
    let mut report = scene.report();
    let head = text(|out| write_head(&report, Look::PLAIN, out));
    assert!(head.contains("\nrecorded on web-1, web-2"), "{head}");
    let (_, worst) = super::worst_of_all(&report).expect("a delay");
    assert!(worst.contains("client[100]@web-1") && worst.contains("hog[201]@web-2"), "{worst}");
    assert!(worst.contains(" for CPU 0@web-1; "), "{worst}");
    assert_eq!(report.cpu_name(fxt_reader::Cpu(3)), "2@web-2");
    let twice = scene.host_cpus("web-2", 5).report();
    let names = [0, 3, 6].map(|cpu| twice.cpu_name(fxt_reader::Cpu(cpu)));
    assert_eq!(names, ["0@web-1", "3", "6"], "two recordings of one host");
    let of = |host: &str, line: &str| {
        let [host, command_line] = [host, line].map(str::to_owned);
        crate::Origin { host, command_line, ..Default::default() }
    };
    report.merged = vec![of("web-1", "fxtrec -a"), of("web-2", "fxtrec -d 1")];
    let head = text(|out| write_head(&report, Look::PLAIN, out));
    let lines = "\nrecorded on web-1: fxtrec -a\nrecorded on web-2: fxtrec -d 1\n";
    assert!(head.contains(lines), "{head}");
    report.group_by(crate::GroupBy::Host);
    let mut rows: Vec<_> = report.threads().iter().map(|it| (&*it.comm, it.threads)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("web-1", 2), ("web-2", 1)]);
}

#[test]
fn what_applications_dropped_is_reported_by_name() {
    let mut report = report();
    let one = |name: &str, records, gaps, unknown| crate::model::ProviderLosses {
        name: name.to_owned(),
        records,
        gaps,
        unknown,
        list: Vec::new(),
    };
    report.losses.providers = vec![
        one("app", 31_390, 3, 0),
        one("db", 1, 2, 1),
        one("web", 0, 1, 1),
        one("a", 1, 1, 0),
        one("b", 1, 1, 0),
    ];
    let head = text(|out| write_head(&report, Look::PLAIN, out));
    for line in [
        "LOST 31 390 records of app in 3 gaps: its buffer was full;",
        "LOST 1 record of db in 2 gaps, an unknown number more in 1 of them: its",
        "LOST an unknown number of records of web in 1 gap: its",
        "LOST 1 record of 1 more application\n",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
}

#[test]
fn sort_keys_are_those_that_the_error_lists() {
    let error = "latency".parse::<SortKey>().expect_err("no such key").to_string();
    let list = error.split("expected ").nth(1).expect("a list");
    for name in list.replace(" or ", ", ").replace(" (avg)", ", avg").split(", ") {
        assert!(name.parse::<SortKey>().is_ok(), "{name}");
    }
}

#[test]
fn a_worst_wait_is_reported_with_its_antagonists_and_its_waker() {
    let worst = text(|out| write_worst(&report(), 10, usize::MAX, Look::PLAIN, out));
    let lines: Vec<&str> = worst.lines().collect();
    assert_eq!(
        lines[0],
        "The worst wait: 45.0 us: t101[101] for CPU 0; ran instead: t202[202] 45.0 us"
    );
    assert_eq!(
        lines[2],
        "   1.  45.0 us  t101[101] on CPU 0, preempted, 0.000040000 to 0.000085000"
    );
    assert_eq!(lines[3].trim(), "CPU 0: t202[202] 45.0 us");
    assert!(worst.contains("t101[101] on CPU 0, woken by t202[202]"), "{worst}");
    assert!(worst.contains("CPU 0: idle 5.00 us"), "{worst}");
}

#[test]
fn the_time_of_antagonists_that_are_not_named_is_told_together() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101);
    scene.wake(10, 0, 109);
    scene.switch(40, 0, 101, Leaves::S, 102);
    scene.switch(60, 0, 102, Leaves::S, 103);
    scene.switch(70, 0, 103, Leaves::S, 109);
    let report = scene.report();
    let wait = &report.worst()[0];
    assert_eq!(antagonists(wait, 1), "t101[101] 30.0 us, 2 more 30.0 us");
    assert_eq!(antagonists(wait, 9), "t101[101] 30.0 us, t102[102] 20.0 us, t103[103] 10.0 us");
}

#[test]
fn the_overview_names_every_metric_and_every_cpu() {
    let metrics = text(|out| write_metrics(&report(), Look::PLAIN, out));
    for metric in Metric::ALL {
        assert!(metrics.contains(metric.title()), "{metrics}");
    }
    let cpus = text(|out| write_cpus(&report(), Look::PLAIN, out));
    assert!(cpus.lines().nth(2).is_some_and(|line| line.trim().starts_with("0  97.1 %")), "{cpus}");
}

#[test]
fn losses_and_a_narrow_scope_are_reported_at_the_head() {
    let plain = text(|out| write_head(&report(), Look::PLAIN, out));
    assert!(!plain.contains("LOST") && !plain.contains("scope"), "{plain}");
    let mut scene = Scene::of_scope("app");
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.lose(20, 0, 1234);
    scene.switch(30, 0, 101, Leaves::S, 0);
    scene.blame(40, "1 234 on CPU 0: the output blocked");
    let head = text(|out| write_head(&scene.report(), Look::PLAIN, out));
    assert!(head.contains("LOST 1 234 events in 1 gap;"), "{head}");
    assert!(head.contains("\n  1 234 on CPU 0: the output blocked\n"), "{head}");
    assert!(head.contains("(scope app)"), "{head}");
}

#[test]
fn the_sum_of_recorded_threads_is_left_out_where_groups_also_have_others() {
    let mut scene = Scene::of_scope("cgroups");
    scene.name_in(101, "web", Some("/web")).name_in(201, "sh", Some("/")).name_in(
        301,
        "cc",
        Some("/"),
    );
    scene.wake(10, 0, 101).switch(15, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::R, 301);
    scene.wake(25, 0, 201).switch(30, 0, 301, Leaves::R, 201).switch(35, 0, 201, Leaves::S, 101);
    scene.switch(40, 0, 101, Leaves::S, 0);
    let mut report = scene.report();
    let style =
        TableStyle { metric: Metric::RunQueue, sort: SortKey::Max, rows: None, look: Look::PLAIN };
    let plain = text(|out| write_threads(&report, style, out));
    assert!(plain.contains("RECORDED (2 threads)"), "{plain}");
    report.group_by(GroupBy::Cgroup);
    let grouped = text(|out| write_threads(&report, style, out));
    assert!(grouped.contains("/ (2 threads)") && !grouped.contains("RECORDED"), "{grouped}");
}

#[test]
fn the_short_form_has_the_waits_the_worst_of_them_and_the_cpus() {
    let brief = text(|out| write_brief(&report(), out));
    let lines: Vec<&str> = brief.lines().collect();
    assert_eq!(lines[0], "  wakeup     p50 5.00 us, p99 20.0 us, max 20.0 us (2 samples)");
    assert_eq!(
        lines[3],
        "  worst wait 45.0 us: t101[101] for CPU 0; ran instead: t202[202] 45.0 us"
    );
    assert_eq!(lines[4], "  busy       CPU 0 97.1 %");
    assert_eq!(text(|out| write_brief(&Report::default(), out)), "");
}

/// The same as [`report`], with 101 throttled for 30 us of its preemption, and one value of each other fact.
fn with_causes() -> Report {
    use fxt_writer::{Text, Value};
    let mut scene = Scene::with_causes(
        "steal,irq,throttled,migrate,need_resched,waker,syscall,quotas,interrupt_kind,packets,\
         requests",
    );
    scene.wake_with(10, 0, 101, &[("interrupt", Value::Bool(true))]);
    scene.switch(15, 0, 0, Leaves::R, 101);
    scene.wake(20, 0, 202);
    let leaves = [
        ("steal_ns", Value::Uint64(4_000)),
        ("irq_ns", Value::Uint64(3_000)),
        ("irqs", Value::Uint32(2)),
        ("need_resched_ns", Value::Uint64(1_500)),
        ("throttled", Value::Bool(true)),
    ];
    scene.switch_with((40, 0), 101, Leaves::R, 202, &leaves).migrate(75, 101, 0, 1);
    let held = [
        ("throttled_ns", Value::Uint64(30_000)),
        ("throttled_by", Value::Str(Text::Inline("/a\x1b"))),
    ];
    scene.switch_with((85, 1), 0, Leaves::R, 101, &held).switch(90, 0, 202, Leaves::S, 0);
    scene.switch(185, 1, 101, Leaves::S, 0);
    scene.host_steal(190, 0, 31, 1000).host_steal(190, 1, 0, 1000).report()
}

#[test]
fn what_a_recording_tells_besides_has_columns_where_there_is_any() {
    let style =
        TableStyle { metric: Metric::RunQueue, sort: SortKey::Max, rows: None, look: Look::PLAIN };
    let table = text(|out| write_threads(&with_causes(), style, out));
    let heads = table.lines().nth(1).expect("headings");
    assert!(heads.ends_with("Migr  Steal ms  Throttled ms  IRQ ms  Resched max ms"), "{heads}");
    let row = table.lines().find(|line| line.contains("t101:101")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[words.len() - 5..], ["1", "0.004", "0.030", "0.003", "0.002"], "{table}");
    let plain = text(|out| write_threads(&report(), style, out));
    assert!(plain.lines().nth(1).is_some_and(|heads| heads.ends_with("Migr")), "{plain}");
}

#[test]
fn the_causes_have_a_table_of_their_own_which_says_what_is_not_recorded() {
    let table = text(|out| write_causes(&with_causes(), None, Look::PLAIN, out));
    let row = table.lines().find(|line| line.contains("t101:101")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().skip(1).collect();
    let steal_throttled = ["0.004", "0.004", "0.030", "0.030", "1"];
    let rest = ["0.003", "2", "0.002", "0.002", "1"];
    assert_eq!(words, [steal_throttled, rest].concat(), "{table}");
    assert!(table.contains("the host took 31.0 us of CPU 0 in 1.00 ms (3.1 %)"), "{table}");
    assert!(!table.contains("not recorded"), "{table}");
    let some = Scene::with_causes("irq").switch(10, 0, 0, Leaves::R, 101).report();
    let table = text(|out| write_causes(&some, None, Look::PLAIN, out));
    let lacks = "not recorded: steal, throttled, migrate, need_resched, waker, syscall, quotas, \
                 interrupt_kind, packets, requests\n";
    assert!(table.contains(lacks) && !table.contains("Steal"), "{table}");
    let none = text(|out| write_causes(&report(), None, Look::PLAIN, out));
    assert!(none.contains("not recorded") && !none.contains("TOTAL"), "{none}");
}

#[test]
fn a_worst_wait_says_how_long_it_was_throttled_where_it_moved_and_that_an_interrupt_woke_it() {
    let worst = text(|out| write_worst(&with_causes(), 10, usize::MAX, Look::PLAIN, out));
    let lines: Vec<&str> = worst.lines().map(str::trim).collect();
    let expected = [
        "2.  15.0 us  t101[101] for CPU 0, switched in on CPU 1, preempted, 0.000040000 to 0.000085000",
        "moved from CPU 0 to 1 at 0.000075000",
        "also throttled by /a\\x1b for 30.0 us",
        "CPU 0, 1: idle 10.0 us, unknown 5.00 us",
    ];
    let at =
        lines.iter().position(|line| *line == expected[0]).unwrap_or_else(|| panic!("{worst}"));
    assert_eq!(lines[at..at + 4], expected, "{worst}");
    assert!(worst.contains("on CPU 0, woken by an interrupt, "), "{worst}");
}

#[test]
fn what_the_host_took_is_said_before_any_figure() {
    let head = text(|out| write_head(&with_causes(), Look::PLAIN, out));
    assert!(head.contains("\nthe host took 3.1 % of CPU 0: latencies include it\n"), "{head}");
    let brief = text(|out| write_brief(&with_causes(), out));
    assert!(brief.contains("  throttled  30.0 us, max 30.0 us (in 1 wait)\n"), "{brief}");
    assert!(brief.contains("  steal      4.00 us, max 4.00 us (in 1 slice)\n"), "{brief}");
    let mut quiet = Scene::new();
    quiet.switch(10, 0, 0, Leaves::R, 101).host_steal(20, 0, 1, 100_000);
    let head = text(|out| write_head(&quiet.report(), Look::PLAIN, out));
    assert!(!head.contains("host took"), "{head}");
}

#[test]
fn cgroups_that_quotas_stopped_are_named_and_whose_waits_is_said_to_be_unknown() {
    let mut scene = Scene::with_causes("migrate,quotas");
    scene.switch(10, 0, 0, Leaves::R, 101);
    scene.quota_stat(20, "/x", 306_000, (12, 30)).quota_stat(20, "/y", 900, (1, 30));
    let head = text(|out| write_head(&scene.report(), Look::PLAIN, out));
    let line = "\nquotas stopped /x for 306 ms in 12 periods, /y for 900 us in 1 period; \
                the recording does not show which threads\n";
    assert!(head.contains(line), "{head}");
    let table = text(|out| write_causes(&scene.report(), None, Look::PLAIN, out));
    let line = "  quotas stopped /x for 306 ms, all CPUs together, in 12 of 30 periods\n";
    assert!(table.contains(line), "{table}");

    let mut known = Scene::with_causes("throttled,quotas");
    known.switch(10, 0, 0, Leaves::R, 101).quota_stat(20, "/x", 306_000, (12, 30));
    let head = text(|out| write_head(&known.report(), Look::PLAIN, out));
    assert!(head.contains("\nquotas stopped /x for 306 ms in 12 periods\n"), "{head}");
}

#[test]
fn of_many_cpus_those_of_which_the_host_took_most_are_named() {
    let mut scene = Scene::new();
    scene.switch(10, 0, 0, Leaves::R, 101);
    for cpu in 0..20 {
        scene.host_steal(20, cpu, u64::from(cpu) * 10, 1000);
    }
    let head = text(|out| write_head(&scene.report(), Look::PLAIN, out));
    let line = head.lines().find(|line| line.starts_with("the host took")).expect("a line");
    assert!(line.starts_with("the host took 19.0 % of CPU 19, 18.0 % of CPU 18, "), "{line}");
    assert!(
        line.ends_with("12.0 % of CPU 12, less of 11 more CPUs: latencies include it"),
        "{line}"
    );
}

#[test]
fn system_calls_that_threads_were_blocked_in_are_named_those_that_took_longest_first() {
    use fxt_writer::Value;
    let mut scene = Scene::with_causes("syscall");
    scene.switch(0, 0, 0, Leaves::R, 101);
    for (at, number, length) in [(10, 0, 20), (50, 202, 30), (90, 1000, 1)] {
        let call = [("syscall", Value::Uint32(number))];
        scene.switch_with((at, 0), 101, Leaves::S, 0, &call);
        scene.wake(at + length, 0, 101).switch(at + length + 1, 0, 0, Leaves::R, 101);
    }
    let table = text(|out| write_causes(&scene.report(), Some(2), Look::PLAIN, out));
    let lines: Vec<&str> = table.lines().collect();
    let at = lines.iter().position(|line| line.contains("Blocked in")).expect("a heading");
    let words = |line: usize| lines[at + line].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(2), ["t101:101", "futex", "1", "0.030", "0.030"], "{table}");
    assert_eq!(words(3), ["t101:101", "read", "1", "0.020", "0.020"], "{table}");
    assert_eq!(lines[at + 4].trim(), "and 1 more (--rows 0 shows all)");
    let all = text(|out| write_causes(&scene.report(), None, Look::PLAIN, out));
    assert!(all.contains("system call 1000"), "{all}");
}

/// COMMAND's process 100 with four threads that wait and sleep, longer for greater ids, and six other threads that wait longer than these.
fn with_command() -> Scene {
    let mut scene = Scene::of_command("waker,syscall", 100);
    scene.switch(0, 0, 0, Leaves::R, 1);
    let mut at = 10;
    for thread in (101..105).chain(201..207) {
        let length = thread - 90;
        scene.wake_by(at, 0, thread, 1).switch(at + length, 0, 1, Leaves::R, thread);
        let call = [("syscall", fxt_writer::Value::Uint32(202))];
        at += length + 10;
        scene.switch_with((at, 0), thread, Leaves::S, 1, &call);
        at += 2 * length;
        scene.wake_by(at, 0, thread, 1);
        scene.switch(at + 1, 0, 1, Leaves::R, thread).switch(at + 5, 0, thread, Leaves::S, 1);
        at += 10;
    }
    scene.end(at);
    scene
}

#[test]
fn commands_threads_come_first_and_leave_a_third_of_the_rows_to_others() {
    let report = with_command().report();
    let table = |rows| {
        let style =
            TableStyle { metric: Metric::RunQueue, sort: SortKey::Max, rows, look: Look::PLAIN };
        let text = text(|out| write_threads(&report, style, out));
        let names = text.lines().skip(3).map(|line| line.split("  ").nth(1).unwrap_or(""));
        names.map(|it| it.trim().to_owned()).collect::<Vec<_>>()
    };
    let command = "COMMAND (4 threads)";
    assert_eq!(
        table(Some(5)),
        ["t104:104", "t103:103", "t102:102", "t101:101", command, "t206:206", "TOTAL"]
            .into_iter()
            .chain(["and 6 more threads (--rows 0 shows all)", ""])
            .collect::<Vec<_>>()
    );
    assert_eq!(
        table(Some(4)),
        ["t104:104", "t103:103", "t102:102", command, "t206:206", "TOTAL"]
            .into_iter()
            .chain(["and 7 more threads, 1 of COMMAND (--rows 0 shows all)", ""])
            .collect::<Vec<_>>()
    );
    assert_eq!(table(None).len(), 11 + 3, "all, the sum of COMMAND, the total, and an empty line");
}

#[test]
fn waits_of_commands_threads_come_first_and_what_blocked_them_follows() {
    let report = with_command().report();
    let lines = |text: &str| {
        let lines = text.lines().filter(|line| line.trim_start().starts_with(char::is_numeric));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let waits = lines(&text(|out| write_worst(&report, 3, 1, Look::PLAIN, out)));
    let who: Vec<&str> = waits.iter().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(who, ["t104[104]", "t103[103]", "t206[206]"]);
    let text = text(|out| write_blocked(&report, 2, Look::PLAIN, out));
    assert!(text.starts_with("The longest blocked times of each thread, and who woke it:\n"));
    let blocked = lines(&text);
    assert_eq!(blocked.len(), 2, "{text}");
    assert!(
        blocked[0].starts_with("1.  28.0 us  t104[104] blocked in futex, woken by t1[1], 0.000")
    );
    assert!(blocked[1].starts_with("2.  26.0 us  t103[103] blocked in futex"), "{text}");
}

#[test]
fn a_blocked_time_names_the_file_or_socket_if_the_trace_has_it() {
    let mut scene = Scene::new();
    let file = [("object_kind", "file"), ("path", "pg_wal/0\u{1b}1"), ("device", "vda")];
    scene.switch(0, 0, 0, Leaves::R, 101).switch(10, 0, 101, Leaves::D, 0);
    scene.wake(40, 0, 101).switch(41, 0, 0, Leaves::R, 101).waits_for(10, 101, &file);
    scene.switch(45, 0, 101, Leaves::D, 0);
    // Records that belong to no wait change nothing.
    scene.waits_for(11, 101, &[("object_kind", "pipe")]).waits_for(12, 102, &[]);
    scene.wake(65, 0, 101).switch(66, 0, 0, Leaves::R, 101).end(200);
    let all = text(|out| write_blocked(&scene.report(), 9, Look::PLAIN, out));
    assert!(all.contains("30.0 us  t101[101] blocked on pg_wal/0\\x1b1 (vda), woken, "), "{all}");
    let longest = scene.report().blocked().sleeps[0].waited_for.clone();
    assert_eq!(longest.as_deref(), Some("pg_wal/0\u{1b}1 (vda)"));
}

#[test]
fn without_a_command_only_uninterruptible_sleeps_are_told_and_of_those_that_were_chosen_all() {
    let mut scene = Scene::new();
    scene.switch(0, 0, 0, Leaves::R, 101).switch(10, 0, 101, Leaves::S, 0);
    scene.wake(40, 0, 101).switch(41, 0, 0, Leaves::R, 101).switch(45, 0, 101, Leaves::D, 0);
    scene.wake(65, 0, 101).switch(66, 0, 0, Leaves::R, 101).end(200);
    let all = text(|out| write_blocked(&scene.report(), 9, Look::PLAIN, out));
    assert!(all.starts_with("The longest uninterruptibly blocked times of each thread"), "{all}");
    assert!(all.contains("   1.  20.0 us  t101[101] blocked, woken, "), "{all}");
    let threads = crate::ThreadFilter { tids: vec![101], ..Default::default() };
    let selection = crate::Selection { threads, ..Default::default() };
    let chosen = scene.report_with(crate::Options { selection, worst: 9 });
    let chosen = text(|out| write_blocked(&chosen, 9, Look::PLAIN, out));
    assert!(chosen.contains("   1.  30.0 us  t101[101] blocked, woken, "), "{chosen}");
    let none = text(|out| write_blocked(&report(), 9, Look::PLAIN, out));
    assert_eq!(none, "");
}

#[test]
fn what_takes_more_than_half_of_a_recording_is_how_a_thread_lives() {
    let mut scene = Scene::of_command("waker", 100);
    scene.switch(0, 0, 0, Leaves::R, 101).switch(10, 0, 101, Leaves::S, 0);
    scene.wake(80, 0, 101).switch(81, 0, 0, Leaves::R, 101).switch(85, 0, 101, Leaves::S, 0);
    scene.wake(95, 0, 101).switch(96, 0, 0, Leaves::R, 101).end(100);
    let reported = text(|out| write_blocked(&scene.report(), 9, Look::PLAIN, out));
    assert!(
        reported.contains("1.  10.0 us  t101[101]") && !reported.contains("70.0 us"),
        "{reported}"
    );
}
