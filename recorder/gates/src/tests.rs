use super::*;

fn gate(text: &str) -> Gate {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The message, and the line of marks below the text.
fn refused(text: &str) -> (String, String) {
    let error = text.parse::<Gate>().expect_err(text);
    let shown = error.to_string();
    let mut lines = shown.lines();
    let message = lines.next().expect("a message").to_owned();
    assert_eq!(lines.next(), Some(""));
    assert_eq!(lines.next(), Some(&*format!("  {text}")), "the line is shown as it is");
    (message, lines.next().expect("marks")[2..].to_owned())
}

fn assert_refused(text: &str, marks: &str, message: &str) {
    assert_eq!(refused(text), (message.to_owned(), marks.to_owned()), "{text}");
}

fn subject(comm: &str) -> Subject<'_> {
    let (pid, tid, cgroup) = (Some(10), Some(11), Some("/pods/one"));
    Subject { comm, pid, tid, cgroup, cpu: Some(1), stack: &[], in_command: false }
}

/// Whether the condition is true of a thread `audio-io` of process 10, with id 11, on CPU 1.
fn holds(condition: &str) -> bool {
    let gate = gate(&format!("wakeup.max > 1ms if {condition}"));
    gate.condition.expect("a condition").holds(&subject("audio-io"))
}

#[test]
fn a_gate_says_what_how_and_how_much() {
    let parsed = gate(" wakeup.p99 > 2ms ");
    assert_eq!(parsed.quantity, Quantity::Statistic(Metric::Wakeup, Stat::P99));
    assert_eq!(parsed.comparison, Comparison::Above);
    assert_eq!(parsed.limit, Amount { number: 2e6, dimension: Dimension::Time });
    assert_eq!(parsed.condition, None);
    assert_eq!(parsed.to_string(), "wakeup.p99 > 2ms");
}

#[test]
fn a_condition_on_a_stack_is_true_where_a_function_has_the_text_in_its_name() {
    let stack = ["main".to_owned(), "__x64_sys_fsync".to_owned(), "op<a[1]>::run".to_owned()];
    let holds = |text: &str| {
        let condition = gate(&format!("blocked.max > 5ms if {text}")).condition;
        condition.expect("one").holds(&Subject { stack: &stack, ..subject("app") })
    };
    assert!(holds("stack ~ \"fsync\"") && holds("comm = \"app\" and stack ~ \"sys*sync\""));
    assert!(holds("stack ~ \"<a[1]>\"") && holds("stack !~ \"fdatasync\""));
    assert!(!holds("stack ~ \"sync_\"") && !holds("not stack ~ \"main\""));
    let may_hold = |text: &str| {
        let condition = gate(&format!("blocked.max > 5ms if {text}")).condition;
        condition.expect("one").may_hold(&Subject { stack: &stack, ..subject("app") })
    };
    for text in ["stack ~ \"leaf\"", "stack !~ \"leaf\"", "stack ~ \"fsync\" and stack ~ \"leaf\""]
    {
        assert!(may_hold(text), "{text}: another function may be called so");
    }
    for text in [
        "stack !~ \"fsync\"",
        "comm = \"b\" and stack ~ \"leaf\"",
        "not (stack ~ \"leaf\" or comm = \"app\")",
    ] {
        assert!(!may_hold(text), "{text}");
    }
    for (text, problem) in [
        ("wakeup.max > 5ms if stack ~ \"fsync\"", Problem::NoStack),
        ("lost.max > 5 if stack ~ \"fsync\"", Problem::NeedlessStat("lost")),
        ("blocked.max > 5ms if cpu = 1 or stack ~ \"fsync\"", Problem::CpuOfStack),
        (
            "blocked.max > 5ms if stack = \"fsync\"",
            Problem::Comparison { field: "stack", sign: "=".to_owned() },
        ),
    ] {
        assert_eq!(text.parse::<Gate>().expect_err(text).problem, problem, "{text}");
    }
    let trigger = "blocked > 5ms if stack ~ \"fsync\"";
    assert_eq!(trigger.parse::<Trigger>().expect_err("one").problem, Problem::StackOfTrigger);
}

#[test]
fn every_metric_and_statistic_can_be_asked_for() {
    for metric in Metric::every() {
        for stat in Stat::ALL {
            let quantity = Quantity::Statistic(metric, stat);
            let limit = if stat == Stat::Count { "5" } else { "5us" };
            assert_eq!(gate(&format!("{quantity} > {limit}")).quantity, quantity);
        }
    }
    for total in Total::ALL {
        let quantity = Quantity::Total(total);
        let unit = if quantity.dimension() == Dimension::Time { "ns" } else { "" };
        assert_eq!(gate(&format!("{quantity} >= 0{unit}")).quantity, quantity);
    }
}

#[test]
fn a_condition_on_command_is_true_of_the_threads_that_it_started() {
    let holds = |text: &str, in_command| {
        let condition = gate(&format!("cpu_time > 1ms if {text}")).condition.expect("one");
        condition.holds(&Subject { in_command, ..subject("app") })
    };
    assert!(holds("command", true) && !holds("command", false));
    assert!(holds("not command and comm = 'app'", false) && !holds("not command", true));
    let refused = "wakeup > 1ms if command".parse::<Trigger>().expect_err("a trigger");
    assert_eq!(refused.problem, Problem::CommandOfTrigger);
    let refused = "duration > 1s if command".parse::<Gate>().expect_err("nobody's");
    assert_eq!(refused.problem, Problem::NoCondition("duration"));
}

#[test]
fn limits_take_every_unit_of_time() {
    for (limit, nanos) in [
        ("7ns", 7.0),
        ("1.5us", 1_500.0),
        ("2µs", 2_000.0),
        ("2 ms", 2e6),
        ("0.25s", 2.5e8),
        ("1min", 6e10),
        ("2h", 7.2e12),
        ("0ms", 0.0),
    ] {
        assert_eq!(gate(&format!("slice.max > {limit}")).limit.number, nanos, "{limit}");
    }
}

#[test]
fn comparisons_hold_as_they_are_written() {
    for (sign, below, same, above) in [
        (">", false, false, true),
        (">=", false, true, true),
        ("<", true, false, false),
        ("<=", true, true, false),
        ("=", false, true, false),
        ("==", false, true, false),
        ("!=", true, false, true),
    ] {
        let comparison = gate(&format!("lost {sign} 5")).comparison;
        let holds = [4.0, 5.0, 6.0].map(|measured| comparison.holds(measured, 5.0));
        assert_eq!(holds, [below, same, above], "{sign}");
    }
}

#[test]
fn conditions_are_on_names_ids_and_cpus() {
    for condition in [
        "comm = \"audio-io\"",
        "comm ~ 'audio*'",
        "cgroup = '/pods/one'",
        "cgroup ~ '/pods/*'",
        "cgroup !~ '/system*'",
        "cgroup != '/pods'",
        "comm ~ \"audio-?[ox]\"",
        "comm !~ 'video*'",
        "comm != \"audio\"",
        "pid = 10",
        "tid == 11",
        "cpu = 1",
        "cpu != 0",
        "not cpu = 0",
    ] {
        assert!(holds(condition), "{condition}");
        assert!(!holds(&format!("not {condition}")), "not {condition}");
    }
}

#[test]
fn and_binds_closer_than_or_and_parentheses_closer_than_both() {
    assert!(holds("cpu = 1 or cpu = 0 and tid = 0"));
    assert!(!holds("(cpu = 1 or cpu = 0) and tid = 0"));
    assert!(holds("tid = 0 and cpu = 0 or cpu = 1"));
    assert!(holds("not tid = 0 and cpu = 1"));
    assert!(!holds("not (tid = 0 or cpu = 1)"));
}

#[test]
fn a_condition_knows_which_cpus_it_names() {
    let named = |condition: &str| {
        let gate = gate(&format!("wakeup.max > 1ms if {condition}"));
        gate.condition.expect("a condition").cpus()
    };
    assert_eq!(named("cpu = 3 and comm = 'a' or not (cpu = 1 or cpu = 3)"), [3, 1, 3]);
    assert_eq!(named("comm = 'a' and (pid = 1 or tid = 2)"), Vec::<u64>::new());
}

#[test]
fn a_measure_is_a_gate_without_its_limit() {
    let measure: Measure = "wakeup.p99 if comm ~ \"a*\"".parse().expect("a measure");
    assert_eq!(measure.quantity, Quantity::Statistic(Metric::Wakeup, Stat::P99));
    assert!(measure.condition.expect("a condition").holds(&subject("app")));
    let error = "wakeup.p99 > 2ms".parse::<Measure>().expect_err("this is a gate");
    assert_eq!(error.columns(), 11..12);
}

#[test]
fn an_unknown_metric_is_pointed_at_and_the_nearest_one_named() {
    assert_refused("wakup.p99 > 2ms", "^^^^^", "unknown metric 'wakup'");
    let text = "wakup.p99 > 2ms".parse::<Gate>().unwrap_err().to_string();
    assert!(
        text.ends_with(
            "migrations, moved, duration, cpu_time, blocked_time, span(NAME); did you mean wakeup?"
        ),
        "{text}"
    );
    let text = "throughput > 2".parse::<Gate>().unwrap_err().to_string();
    assert!(
        text.ends_with("migrations, moved, duration, cpu_time, blocked_time, span(NAME)"),
        "{text}"
    );
}

#[test]
fn an_unknown_statistic_is_pointed_at_alone() {
    assert_refused("wakeup.p98 > 2ms", "       ^^^", "wakeup has no statistic 'p98'");
    assert_refused("wakeup.p99.99 > 2ms", "       ^^^^^^", "wakeup has no statistic 'p99.99'");
    assert_refused("wakeup. > 2ms", "       ^", "wakeup has no statistic ''");
}

#[test]
fn a_statistic_is_neither_left_out_nor_too_many() {
    assert_refused("preempt > 2ms", "^^^^^^^", "preempt needs a statistic");
    assert_refused("lost.max > 0", "     ^^^", "lost is a single number and has no statistics");
}

#[test]
fn a_limit_must_be_of_the_kind_of_what_it_limits() {
    let message = "wakeup.p99 is a duration and needs a unit";
    assert_refused("wakeup.p99 > 2", "             ^", message);
    assert_refused("wakeup.p99 > 2 if cpu = 1", "             ^", message);
    let message = "wakeup.p99 is a duration and does not take the unit 'parsecs'";
    assert_refused("wakeup.p99 > 2parsecs", "              ^^^^^^^", message);
    assert_refused("lost > 3ms", "        ^^", "lost is a count and does not take the unit 'ms'");
    let message = "wakeup.count is a count and does not take the unit 'us'";
    assert_refused("wakeup.count > 3 us", "                 ^^", message);
    let message = "switches_per_s is a number per second and does not take the unit 's'";
    assert_refused("switches_per_s > 9s", "                  ^", message);
    assert_refused("wakeup.p99 > 1.2.3ms", "             ^^^^^", "not a number");
}

#[test]
fn what_is_missing_is_asked_for_where_it_should_be() {
    for (text, column, expected) in [
        ("", 0, "a metric, such as wakeup.p99"),
        ("> 2ms", 0, "a metric, such as wakeup.p99"),
        ("lost", 4, "a comparison (>, >=, <, <=, = or !=)"),
        ("wakeup.p99 >", 12, "a limit, such as 2ms"),
        ("lost > x", 7, "a number"),
        ("wakeup.p99 > 2ms comm = 'a'", 17, "`if` and a condition, or the end"),
        ("slice.max > 1s if", 17, "a condition on comm, cgroup, pid, tid, cpu, stack or command"),
        ("slice.max > 1s if comm", 22, "a comparison, such as ="),
        ("slice.max > 1s if comm = app", 25, "a string in quotes, such as \"app\""),
        ("slice.max > 1s if pid = \"1\"", 24, "a number"),
        ("slice.max > 1s if (pid = 1", 26, "`)`"),
        ("slice.max > 1s if pid = 1 pid", 26, "`and`, `or` or the end"),
        (
            "slice.max > 1s if pid = 1 and",
            29,
            "a condition on comm, cgroup, pid, tid, cpu, stack or command",
        ),
        ("slice.max > 1s if pid = 1)", 25, "`and`, `or` or the end"),
    ] {
        let error = text.parse::<Gate>().expect_err(text);
        assert_eq!(error.columns().start, column, "{error}");
        match error.problem {
            Problem::Expected { expected: wanted, .. } => assert_eq!(wanted, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_condition_that_cannot_be_is_pointed_at() {
    let beginning = "slice.max > 1s if ";
    let indent = " ".repeat(beginning.len());
    for (condition, marks, message) in [
        ("com = 'a'", "^^^", "unknown condition 'com'"),
        ("comm > 'a'", "     ^", "comm cannot be compared with >"),
        ("tid ~ 5", "    ^", "tid cannot be compared with ~"),
        ("cpu >= 5", "    ^^", "cpu cannot be compared with >="),
        ("pid = 1.5", "      ^^^", "not a valid id: the number is too large"),
        ("comm ~ 'a[b'", "       ^^^^^", "invalid pattern: invalid range pattern"),
        ("comm = 'a", "       ^^", "unterminated string"),
        (
            r#"comm = "a\n""#,
            "         ^^",
            "unknown escape: a backslash escapes a quote or another backslash, not 'n'",
        ),
        ("cpu & 1", "    ^", "unexpected character '&'"),
    ] {
        assert_refused(&format!("{beginning}{condition}"), &format!("{indent}{marks}"), message);
    }
    let message = "lost is a figure of the whole recording and takes no condition";
    assert_refused("lost > 0 if cpu = 1", "         ^^", message);
}

#[test]
fn marks_stand_under_the_place_behind_letters_of_several_bytes() {
    let text = "slice.max > 1s if comm = 'grün' or cmm = 'b'";
    let (_, marks) = refused(text);
    let before = text.split("cmm").next().expect("the text before");
    assert_eq!(marks, format!("{}^^^", " ".repeat(before.chars().count())));
}

#[test]
fn conditions_deep_inside_each_other_are_refused_and_do_not_overflow() {
    let deep = |depth: usize| {
        let (open, close) = ("(".repeat(depth), ")".repeat(depth));
        format!("slice.max > 1s if {open}cpu = 1{close}").parse::<Gate>()
    };
    assert!(deep(31).is_ok());
    assert_eq!(deep(32).unwrap_err().problem, Problem::Deep(32));
    assert_eq!(deep(100_000).unwrap_err().problem, Problem::Deep(32));
    let chain = format!("slice.max > 1s if {}cpu = 1", "not ".repeat(100_000));
    assert_eq!(chain.parse::<Gate>().unwrap_err().problem, Problem::Deep(32));
    // A long list is not deeply nested.
    let list = vec!["cpu = 1"; 50_000].join(" or ");
    assert!(format!("slice.max > 1s if {list}").parse::<Gate>().is_ok());
}

#[test]
fn every_part_of_a_span_can_be_asked_for() {
    for part in SpanPart::ALL {
        for stat in Stat::ALL {
            let span = SpanMetric { name: r#"app:say "hi""#.into(), part };
            let quantity = Quantity::Span(span, stat);
            let limit = if stat == Stat::Count { "5" } else { "5us" };
            let text = format!("{quantity} > {limit}");
            assert_eq!(gate(&text).quantity, quantity, "{text}");
        }
    }
    assert_eq!(gate(r#"span('x').p99.9 > 1ms"#), gate(r#"span('x').p99.9 > 1ms"#));
    let spread = gate(r#"span ( "x" ) . cpu.p99.9 >= 1ms if comm = "a" and not tid = 3"#);
    assert_eq!(spread.quantity, gate(r#"span("x").cpu.p99.9 > 1ms"#).quantity);
    assert!(spread.condition.is_some());
    let measure: Measure = r#"span("x").cpu.p90"#.parse().expect("a measure");
    assert_eq!(measure.quantity.samples_needed(), 10);
}

#[test]
fn what_is_no_part_of_a_span_is_refused_where_it_stands() {
    for (text, marks, message) in [
        (r#"span("x") > 1ms"#, "^^^^^^^^^^", "span needs a statistic"),
        (r#"span("x").cpu > 1ms"#, "^^^^^^^^^^^^^", "span needs a statistic"),
        (r#"span("x").p98 > 1ms"#, "          ^^^", "span has no statistic 'p98'"),
        (r#"span("x").cpu.p98 > 1ms"#, "              ^^^", "span has no statistic 'p98'"),
        (r#"span("x").cpi.p99 > 1ms"#, "          ^^^", "a span has no part 'cpi'"),
        (r#"span(x).p99 > 1ms"#, "     ^", "expected a string in quotes, such as \"app\", found x"),
        (r#"span("x".p99 > 1ms"#, "        ^", "expected `)`, found ."),
        (
            r#"span("x").p99 > 1"#,
            "                ^",
            "span(\"x\").p99 is a duration and needs a unit",
        ),
        (
            r#"span("x").p99 > 1ms if cpu = 1"#,
            "                    ^^^^^^^^^^",
            "a span may be on several CPUs, so a condition on cpu cannot select it",
        ),
    ] {
        assert_refused(text, marks, message);
    }
    let refused = r#"span("x").cpi.p99 > 1ms"#.parse::<Gate>().expect_err("no part").to_string();
    assert!(refused.ends_with("expected one of cpu, steal, irq, runqueue, strangers, throttled, blocked; did you mean cpu?"), "{refused}");
    assert!(r#"span("x").max > 1ms"#.parse::<Trigger>().is_err());
}
