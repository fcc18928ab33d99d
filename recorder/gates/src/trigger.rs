//! Triggers: gates that check each value while recording.
//!
//! ```text
//! trigger    = what [ "if" condition ]
//! what       = METRIC OP VALUE | lasting OP VALUE | "lost" OP NUMBER | "probe" NAME | "alert" NAME
//! lasting    = "turn" | "span" "(" TEXT ")" | "probe" "(" TEXT ")"
//! ```
//!
//! METRIC is one of the metrics of gates that are durations; OP, VALUE and `condition` are as in gates. NAME is a plain name or a quoted
//! text. A loss belongs to no thread, and for an alert only the process is known; neither takes a condition.

use std::fmt;
use std::str::FromStr;

use super::{Amount, Comparison, Condition, Metric, ParseError, parser};

/// The event that a trigger waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A duration of a thread.
    Length {
        metric: Metric,
        /// The comparison with the limit.
        comparison: Comparison,
        limit: Amount,
    },
    /// The length of something, from its beginning to its end.
    Lasts {
        what: Lasting,
        /// The comparison with the limit.
        comparison: Comparison,
        limit: Amount,
    },
    /// The number of events that the kernel dropped at once.
    Lost {
        /// The comparison with the limit.
        comparison: Comparison,
        limit: Amount,
    },
    /// A hit of the user probe of this name.
    Probe(String),
    /// An alert of this name, raised by a provider.
    Alert(String),
}

/// Something that begins and ends on a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// A thread's turn, from a wakeup to the next sleep.
    Turn,
    /// A span of this name that an application records.
    Span(String),
    /// A call of the function of the user probe of this name.
    Call(String),
}

/// An event to wait for while recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub(super) text: String,
    pub what: What,
    /// The threads whose values count; `None` for all.
    pub condition: Option<Condition>,
}

impl FromStr for Trigger {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Trigger, ParseError> {
        parser::trigger(text)
    }
}

/// The text from which it was parsed.
impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dimension;

    fn trigger(text: &str) -> Trigger {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The message, the marks under the line, and the help.
    fn refused(text: &str) -> [String; 3] {
        let shown = text.parse::<Trigger>().expect_err(text).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!((lines.len(), lines[2]), (5, &*format!("  {text}")), "{shown}");
        [lines[0], &lines[3][2..], lines[4].trim_start()].map(str::to_owned)
    }

    #[test]
    fn each_length_of_time_can_be_waited_for() {
        for metric in Metric::every() {
            let parsed = trigger(&format!("{metric} >= 1.5ms"));
            let limit = Amount { number: 1.5e6, dimension: Dimension::Time };
            assert_eq!(
                parsed.what,
                What::Length { metric, comparison: Comparison::AtLeast, limit }
            );
            assert_eq!(parsed.condition, None);
        }
    }

    #[test]
    fn what_lasts_can_be_waited_for() {
        let limit = Amount { number: 2e7, dimension: Dimension::Time };
        for (text, what) in [
            ("turn > 20ms", Lasting::Turn),
            (r#"span("app:request") > 20ms"#, Lasting::Span("app:request".to_owned())),
            ("probe ( 'lib:func' ) > 20ms", Lasting::Call("lib:func".to_owned())),
        ] {
            let comparison = Comparison::Above;
            assert_eq!(trigger(text).what, What::Lasts { what, comparison, limit }, "{text}");
            assert!(trigger(&format!("{text} if comm = 'app'")).condition.is_some());
        }
        let [message, marks, _] = refused("span('x') > 5");
        assert_eq!(message, "span is a duration and needs a unit");
        assert_eq!(marks, "            ^");
        let [message, ..] = refused("span('x') > 1ms if cpu = 1");
        assert!(message.starts_with("a span may be on several CPUs"), "{message}");
    }

    #[test]
    fn conditions_are_those_of_gates_and_the_text_is_kept() {
        let parsed = trigger(r#" wakeup > 5ms if comm ~ "audio*" and not cpu = 1 "#);
        assert!(matches!(parsed.condition, Some(Condition::All(parts)) if parts.len() == 2));
        let text = trigger(" lost > 0 ").to_string();
        assert_eq!(text, "lost > 0");
    }

    #[test]
    fn a_probe_has_a_name_and_a_condition() {
        assert_eq!(trigger("probe work").what, What::Probe("work".to_owned()));
        let parsed = trigger(r#"probe "app:tick" if pid = 7"#);
        assert_eq!(parsed.what, What::Probe("app:tick".to_owned()));
        assert_eq!(parsed.condition, Some(Condition::Pid(7)));
        assert_eq!(trigger("alert 'look here'").what, What::Alert("look here".to_owned()));
    }

    #[test]
    fn what_is_no_trigger_is_refused_where_it_stands() {
        let metrics = "wakeup, preempt, runqueue, slice, blocked, blocked_d, steal, throttled, irq, need_resched";
        let known = format!(
            "expected {metrics}, turn, span(NAME), probe(NAME), lost, probe NAME or alert NAME"
        );
        for (text, marks, message, help) in [
            (
                "wakeup.p99 > 2ms",
                "       ^^^",
                "a trigger tests each wakeup value, so it takes no statistic",
                "write wakeup alone, as in wakeup > 5ms",
            ),
            (
                "switches > 2",
                "^^^^^^^^",
                "switches is a count of the whole recording, so a trigger cannot test it",
                &known,
            ),
            (
                "wakup > 2ms",
                "^^^^^",
                "unknown trigger 'wakup'",
                &format!("{known}; did you mean wakeup?"),
            ),
            (
                "slice > 2",
                "        ^",
                "slice is a duration and needs a unit",
                "units are ns, us, ms, s, min and h, as in 2ms",
            ),
            (
                "lost > 2ms",
                "        ^^",
                "lost is a count and does not take the unit 'ms'",
                "write the number alone",
            ),
        ] {
            assert_eq!(refused(text), [message, marks, help].map(str::to_owned), "{text}");
        }
        let on_lost = "lost > 0 if cpu = 1".parse::<Trigger>().expect_err("a condition");
        assert!(on_lost.to_string().starts_with("lost is a figure of the whole recording"));
        assert!("alert x if cpu = 1".parse::<Trigger>().is_err(), "an alert is nobody's");
        for text in [
            "",
            "probe",
            "alert",
            "alert > 1",
            "probe > 2",
            "probe(work) > 2ms",
            "probe('work')",
            "span 'x'",
            "turn",
            "wakeup",
            "wakeup >",
            "wakeup > 1ms and lost > 0",
        ] {
            assert!(text.parse::<Trigger>().is_err(), "{text}");
        }
    }
}
