//! The cause of an incident in a word, for counters.

use super::answer::{Explanation, Link};

/// What [`Explanation::cause`] may return.
pub const CAUSES: [&str; 10] = [
    "blocked",
    "disk",
    "lock",
    "network",
    "on_cpu",
    "runqueue",
    "sleep",
    "stolen",
    "throttled",
    "unknown",
];

impl Explanation {
    /// The activity that takes most of the critical path: one of [`CAUSES`].
    pub fn cause(&self) -> &'static str {
        let mut sums = [0_u64; CAUSES.len()];
        let mut add = |cause: &str, ns: u64| {
            let at = CAUSES.iter().position(|it| *it == cause).expect("it is one of them");
            sums[at] += ns;
        };
        for link in &self.chain {
            let stolen = link.steal_ns.unwrap_or(0);
            add("stolen", stolen);
            add(of_link(link), (link.to_ns - link.from_ns).saturating_sub(stolen));
        }
        let most = CAUSES.iter().zip(sums).max_by_key(|(_, ns)| *ns);
        most.filter(|(_, ns)| *ns > 0).map_or("unknown", |(cause, _)| cause)
    }
}

fn of_link(link: &Link) -> &'static str {
    match (link.state, link.class) {
        ("on_cpu", _) => "on_cpu",
        ("waiting", _) => "runqueue",
        ("throttled", _) => "throttled",
        ("packet", _) => "network",
        ("request", _) => "disk",
        ("blocked", Some("lock" | "kernel_lock" | "join")) => "lock",
        ("blocked", Some("disk")) => "disk",
        ("blocked", Some("network")) => "network",
        ("blocked", Some("sleep")) => "sleep",
        ("blocked", Some("unknown") | None) => "unknown",
        ("blocked", Some(_)) => "blocked",
        _ => "unknown",
    }
}
