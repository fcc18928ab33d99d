//! The causes of interrupts that wake threads, as recorded.

use std::collections::HashMap;

use fxtrec_units::escape::line;
use fxtrec_units::text;

/// The maximum number of distinct values: there are as many packet addresses as peers.
const MOST: usize = 1 << 16;

/// The words for a timer that a thread has set for itself before it slept.
pub const OWN_TIMER: &str = "its own timer";

const PACKET: &str = "packet";
const REQUEST: &str = "request";

/// One of the origins in a recording; the default is an unknown origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(u32);

/// The kinds and names of timers that a thread sets for itself before it sleeps.
const OWN_TIMERS: [(&str, &str); 2] = [("hrtimer", "hrtimer_wakeup"), ("timer", "process_timeout")];

impl Origin {
    /// Whether it is a timer that the thread had set for itself.
    pub fn is_own_timer(self) -> bool {
        (1..=OWN_TIMERS.len()).contains(&(self.0 as usize))
    }

    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    pub(crate) fn of_number(number: u64) -> Origin {
        Origin(number as u32)
    }
}

/// An origin: its kind, and which timer, device, interrupt or packet it is. Empty if that is not recorded.
type Key = (Box<str>, Box<str>);

/// All of a recording.
#[derive(Debug)]
pub struct Origins {
    all: Vec<Key>,
    by_name: HashMap<Key, Origin>,
}

impl Default for Origins {
    fn default() -> Origins {
        let mut origins = Origins { all: Vec::new(), by_name: HashMap::new() };
        for (kind, name) in OWN_TIMERS {
            origins.of(Some(kind), Some(name));
        }
        origins
    }
}

impl Origins {
    /// The origin of this kind and name.
    pub(crate) fn of(&mut self, kind: Option<&str>, name: Option<&str>) -> Origin {
        let Some(kind) = kind else { return Origin::default() };
        let name = name.unwrap_or_default();
        // For a packet the sender matters; distinguishing the many receiving sockets of a server would give too many origins.
        let own_end = (kind == PACKET).then(|| name.rsplit_once(' ')).flatten();
        let name = own_end.filter(|it| it.0.contains(' ')).map_or(name, |(peer, _)| peer);
        let key: Key = (kind.into(), name.into());
        if let Some(known) = self.by_name.get(&key) {
            return *known;
        }
        if self.all.len() >= MOST {
            return Origin::default();
        }
        self.all.push(key.clone());
        let new = Origin(self.all.len() as u32);
        self.by_name.insert(key, new);
        new
    }

    fn get(&self, origin: Origin) -> Option<(&str, &str)> {
        let (kind, name) = self.all.get((origin.0 as usize).checked_sub(1)?)?;
        Some((kind, name))
    }

    /// The kind, as in the recording.
    pub fn kind(&self, origin: Origin) -> Option<&str> {
        Some(self.get(origin)?.0)
    }

    /// Distinguishes origins of the same kind.
    pub fn name(&self, origin: Origin) -> Option<&str> {
        Some(self.get(origin)?.1).filter(|name| !name.is_empty())
    }

    /// A request of `bytes` bytes to a disk, in words, if it is the origin: `4.0 KiB write to vda`. A size of 0 is left out.
    pub fn request(&self, origin: Origin, bytes: u64) -> String {
        let (operation, disk) = self.operation(origin).unwrap_or(("request", "a disk"));
        let size = if bytes > 0 { format!("{} ", text::bytes(bytes)) } else { String::new() };
        let disk = line(disk);
        match operation {
            "read" => format!("{size}read from {disk}"),
            "write" => format!("{size}write to {disk}"),
            "flush" => format!("cache flush of {disk}"),
            "flush+write" => format!("{size}write with a cache flush to {disk}"),
            "other" => format!("{size}request to {disk}"),
            other => format!("{size}{} to {disk}", line(&other.replace('_', " "))),
        }
    }

    /// The operation and the disk, if a disk request is the origin.
    pub fn operation(&self, origin: Origin) -> Option<(&str, &str)> {
        let (kind, name) = self.get(origin)?;
        name.split_once(' ').filter(|_| kind == REQUEST)
    }

    /// The waker of a thread as text, to follow `woken by`.
    pub fn text(&self, origin: Origin) -> String {
        let name = self.name(origin).map(|name| line(name).into_owned());
        let with = |what: &str| match &name {
            Some(name) => format!("{what} ({name})"),
            None => what.to_owned(),
        };
        match (self.kind(origin), name.as_deref()) {
            _ if origin.is_own_timer() => OWN_TIMER.to_owned(),
            (Some("hrtimer" | "timer"), _) => with("a timer"),
            (Some("device"), Some(name)) => format!("the interrupt of {name}"),
            (Some("device"), None) => "the interrupt of a device".to_owned(),
            (Some(PACKET), Some(name)) => match name.split_once(' ') {
                Some((protocol, peer)) => format!("a packet of {peer} ({protocol})"),
                None => format!("a packet ({name})"),
            },
            (Some(PACKET), None) | (Some("softirq"), Some("NET_RX")) => {
                "a packet from the network".to_owned()
            }
            (Some(REQUEST), Some(_)) => format!("the end of a {}", self.request(origin, 0)),
            (Some(REQUEST), None) | (Some("softirq"), Some("BLOCK")) => {
                "the end of a disk request".to_owned()
            }
            (Some("softirq"), _) => with("a soft interrupt"),
            (Some("vector"), _) => with("an interrupt between CPUs or of a clock"),
            _ => "an interrupt or a timer".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_words_and_what_is_not_reported_has_the_general_ones() {
        let mut origins = Origins::default();
        let mut text = |kind, name| {
            let origin = origins.of(kind, name);
            origins.text(origin)
        };
        assert_eq!(text(None, Some("x")), "an interrupt or a timer");
        assert_eq!(text(Some("of_later_versions"), None), "an interrupt or a timer");
        assert_eq!(text(Some("hrtimer"), Some("hrtimer_wakeup")), "its own timer");
        assert_eq!(text(Some("hrtimer"), Some("posix_timer_fn")), "a timer (posix_timer_fn)");
        assert_eq!(text(Some("timer"), None), "a timer");
        assert_eq!(text(Some("device"), Some("eth0")), "the interrupt of eth0");
        assert_eq!(text(Some("softirq"), Some("RCU")), "a soft interrupt (RCU)");
        assert_eq!(text(Some("request"), Some("read vda")), "the end of a read from vda");
        assert_eq!(
            text(Some("request"), Some("write_zeroes vda")),
            "the end of a write zeroes to vda"
        );
        assert_eq!(text(Some("request"), None), "the end of a disk request");
        let ends = "tcp 10.0.0.5:5432 10.0.0.2:40000";
        assert_eq!(text(Some("packet"), Some(ends)), "a packet of 10.0.0.5:5432 (tcp)");
        // With pseudonyms instead of the names.
        assert_eq!(text(Some("packet"), Some("arg-1")), "a packet (arg-1)");
    }

    #[test]
    fn a_request_says_how_much_it_reads_or_writes_where() {
        let mut origins = Origins::default();
        let mut words = |name, bytes| {
            let origin = origins.of(Some("request"), name);
            origins.request(origin, bytes)
        };
        assert_eq!(words(Some("write vda"), 4096), "4.0 KiB write to vda");
        assert_eq!(words(Some("flush vda"), 0), "cache flush of vda");
        assert_eq!(words(Some("flush+write dm-0"), 512), "512 B write with a cache flush to dm-0");
        assert_eq!(words(Some("other sda"), 0), "request to sda");
        // With a pseudonym instead of the name.
        assert_eq!(words(Some("arg-1"), 512), "512 B request to a disk");
        assert_eq!(words(None, 0), "request to a disk");
    }

    #[test]
    fn the_same_origin_is_one_and_too_many_are_not_distinguished() {
        let mut origins = Origins::default();
        let first = origins.of(Some("packet"), Some("0"));
        assert_eq!(origins.of(Some("packet"), Some("0")), first);
        for number in 1..=MOST {
            origins.of(Some("packet"), Some(&number.to_string()));
        }
        assert_eq!(origins.of(Some("packet"), Some(&MOST.to_string())), Origin::default());
        assert_eq!(origins.of(Some("packet"), Some("0")), first);
    }
}
