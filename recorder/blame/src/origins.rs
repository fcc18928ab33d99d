//! What interrupts are about that wake threads, as the recording tells it.

use std::collections::HashMap;

use fxtrec_units::escape::line;

/// So many are told apart: the addresses of packets are as many as there are peers.
const MOST: usize = 1 << 16;

const PACKET: &str = "packet";

/// One of those of a recording; the default is one that is not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(u32);

impl Origin {
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    pub(crate) fn of_number(number: u64) -> Origin {
        Origin(number as u32)
    }
}

/// An origin: its kind, and which timer, device, interrupt or packet it is. Empty where that is not told.
type Told = (Box<str>, Box<str>);

/// All of a recording.
#[derive(Debug, Default)]
pub struct Origins {
    told: Vec<Told>,
    by_name: HashMap<Told, Origin>,
}

impl Origins {
    /// The origin of this kind and name.
    pub(crate) fn of(&mut self, kind: Option<&str>, name: Option<&str>) -> Origin {
        let Some(kind) = kind else { return Origin::default() };
        let name = name.unwrap_or_default();
        // Of a packet it matters who sent it: to which of many sockets of one server it went would tell too many apart.
        let own_end = (kind == PACKET).then(|| name.rsplit_once(' ')).flatten();
        let name = own_end.filter(|it| it.0.contains(' ')).map_or(name, |(peer, _)| peer);
        let told: Told = (kind.into(), name.into());
        if let Some(known) = self.by_name.get(&told) {
            return *known;
        }
        if self.told.len() >= MOST {
            return Origin::default();
        }
        self.told.push(told.clone());
        let new = Origin(self.told.len() as u32);
        self.by_name.insert(told, new);
        new
    }

    fn get(&self, origin: Origin) -> Option<(&str, &str)> {
        let (kind, name) = self.told.get((origin.0 as usize).checked_sub(1)?)?;
        Some((kind, name))
    }

    /// Its kind, as the recording has it.
    pub fn kind(&self, origin: Origin) -> Option<&str> {
        Some(self.get(origin)?.0)
    }

    /// Which one of these it is.
    pub fn name(&self, origin: Origin) -> Option<&str> {
        Some(self.get(origin)?.1).filter(|name| !name.is_empty())
    }

    /// Who or what woke a thread, in words, to be followed by `woke it`.
    pub fn text(&self, origin: Origin) -> String {
        let name = self.name(origin).map(|name| line(name).into_owned());
        let with = |what: &str| match &name {
            Some(name) => format!("{what} ({name})"),
            None => what.to_owned(),
        };
        match (self.kind(origin), name.as_deref()) {
            // Those that a thread sets for itself before it sleeps.
            (Some("hrtimer"), Some("hrtimer_wakeup"))
            | (Some("timer"), Some("process_timeout")) => "its own timer".to_owned(),
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
            (Some("softirq"), Some("BLOCK")) => "the end of a request to a disk".to_owned(),
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
    fn each_kind_has_its_words_and_what_is_not_told_has_the_general_ones() {
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
        let ends = "tcp 10.0.0.5:5432 10.0.0.2:40000";
        assert_eq!(text(Some("packet"), Some(ends)), "a packet of 10.0.0.5:5432 (tcp)");
        // With pseudonyms in their places.
        assert_eq!(text(Some("packet"), Some("arg-1")), "a packet (arg-1)");
    }

    #[test]
    fn the_same_origin_is_one_and_too_many_are_not_told_apart() {
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
