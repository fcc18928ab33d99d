//! How far the clock of one recording is ahead of the clock of another, from messages between their machines.
//!
//! ```text
//!  a's clock   send 100 ------------.            .--> receive 160      a to b:  offset <= 1130 - 100 = 1030
//!                                    \          /
//!  b's clock                          `-> 1130  send 1150              b to a:  offset >= 1150 - 160 =  990
//! ```
//!
//! A message arrives after it was sent: each message from a to b gives an upper bound of how far b's clock is ahead, and each message from
//! b to a gives a lower bound. The fastest message in each direction counts. The offset is the middle between both bounds, and is wrong by
//! half of their distance at most, if the clocks ran equally fast.

use std::path::Path;

use fxt_reader::record::{Event, EventKind};
use rustc_hash::FxHashMap;

use super::error::ConvertError;
use super::tef::ids_are_local;

/// Maximum number of messages of a recording that are used in each direction.
const MOST: usize = 1 << 20;

/// Which records are the sending and the receiving of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Messages {
    /// A flow that begins in one recording and continues or ends in another one with the same id.
    Flows,
    /// Events of these names, as `NAME` or `CATEGORY:NAME`, with the same values of these arguments.
    Events { send: String, receive: String, keys: Vec<String> },
}

/// The pattern that distinguishes messages cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected flows, or SEND,RECEIVE,ARGUMENT[,ARGUMENT...]: names of two events, and of arguments that both have"
)]
pub struct NoMessages;

impl std::str::FromStr for Messages {
    type Err = NoMessages;

    fn from_str(text: &str) -> Result<Messages, NoMessages> {
        let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
        match &words[..] {
            [flows] if flows == "flows" => Ok(Messages::Flows),
            [send, receive, keys @ ..]
                if !keys.is_empty() && words.iter().all(|word| !word.is_empty()) =>
            {
                let (send, receive) = (send.clone(), receive.clone());
                Ok(Messages::Events { send, receive, keys: keys.to_vec() })
            }
            _ => Err(NoMessages),
        }
    }
}

/// When a message was sent or received, and by which thread; `None` if several have the same key.
type Times = FxHashMap<Box<str>, Option<End>>;

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// By the clock of its recording.
    pub(crate) time: u64,
    /// The koid of the thread, in its recording.
    pub(crate) thread: u64,
}

/// The ends of messages in a recording.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    sent: Times,
    received: Times,
    /// Whether they are the ends of flows: a flow that begins in both recordings is a different one in each.
    are_flows: bool,
}

/// How far one clock is ahead of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) nanos: i64,
    /// By how much the offset may be wrong.
    pub(crate) error: u64,
    /// The number of messages in each direction.
    pub(crate) messages: (usize, usize),
}

/// The reason why there is no offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unbounded {
    /// The number of messages in each direction; in at least one direction, there are none.
    Missing(usize, usize),
    /// The bounds contradict each other by this much.
    Contradictory(u64),
}

impl Messages {
    fn is(event: &Event<'_>, name: &str) -> bool {
        let rest = name.strip_prefix(event.category).and_then(|rest| rest.strip_prefix(':'));
        event.name == name || rest == Some(event.name)
    }

    /// What distinguishes the message of this key, as text.
    pub(crate) fn name(&self, key: &str) -> String {
        match self {
            Messages::Flows => format!("flow {key}"),
            Messages::Events { keys, .. } => {
                let values = keys.iter().zip(key.split('\0'));
                let parts: Vec<String> =
                    values.map(|(name, value)| format!("{name}={value}")).collect();
                fxtrec_units::escape::line(&parts.join(" ")).into_owned()
            }
        }
    }

    /// Whether an event is one end of a message, which one, and of which message.
    fn end(&self, event: &Event<'_>) -> Option<(bool, Box<str>)> {
        match self {
            // A flow within a single process does not reach another machine.
            Messages::Flows if ids_are_local(event) => None,
            Messages::Flows => match event.kind {
                EventKind::FlowBegin { id } => Some((true, id.to_string().into())),
                EventKind::FlowStep { id } | EventKind::FlowEnd { id } => {
                    Some((false, id.to_string().into()))
                }
                _ => None,
            },
            Messages::Events { send, receive, keys } => {
                let sends = Messages::is(event, send);
                if !sends && !Messages::is(event, receive) {
                    return None;
                }
                let mut key = String::new();
                for name in keys {
                    key += &event.args.get(name)?.to_string();
                    key.push('\0');
                }
                Some((sends, key.into()))
            }
        }
    }
}

impl Ends {
    /// None yet.
    pub(crate) fn of(messages: &Messages) -> Ends {
        Ends { are_flows: *messages == Messages::Flows, ..Ends::default() }
    }

    /// Records an event that is one end of a message.
    pub(crate) fn note(&mut self, event: &Event<'_>, messages: &Messages) {
        if let Some((sends, key)) = messages.end(event) {
            let end = End { time: event.time.0, thread: event.thread.thread.0 };
            self.add(sends, key, end, self.are_flows);
        }
    }

    /// The least difference between the time of receiving there and the time of sending here, each by its own clock.
    pub(crate) fn least_to(&self, there: &Ends) -> Option<i128> {
        fastest(&self.sent, there).1
    }

    /// A flow may have several steps; the first counts. Events with one key are different messages.
    fn add(&mut self, sends: bool, key: Box<str>, end: End, first_counts: bool) {
        let times = if sends { &mut self.sent } else { &mut self.received };
        if times.len() >= MOST && !times.contains_key(&key) {
            return;
        }
        let keeps_first = first_counts && !sends;
        times
            .entry(key)
            .and_modify(|known| *known = known.filter(|_| keeps_first))
            .or_insert(Some(end));
    }

    /// How far the clock of `other` is ahead of this one's.
    pub(crate) fn offset_of(&self, other: &Ends) -> Result<Offset, Unbounded> {
        let (forth, most) = fastest(&self.sent, other);
        let (back, least) = fastest(&other.sent, self);
        let (Some(most), Some(least)) = (most, least.map(|least| -least)) else {
            return Err(Unbounded::Missing(forth, back));
        };
        if least > most {
            return Err(Unbounded::Contradictory(u64::try_from(least - most).unwrap_or(u64::MAX)));
        }
        let nanos = i64::try_from(least + (most - least) / 2).unwrap_or(i64::MAX);
        // Rounded up.
        let error = u64::try_from((most - least + 1) / 2).unwrap_or(u64::MAX);
        Ok(Offset { nanos, error, messages: (forth, back) })
    }
}

/// For messages that were sent here and received there: their number, and the least difference of their times.
fn fastest(sent: &Times, there: &Ends) -> (usize, Option<i128>) {
    let differences = sent.iter().filter_map(|(key, &sent)| {
        if there.are_flows && there.sent.contains_key(key) {
            return None;
        }
        let received = (*there.received.get(key)?)?;
        Some(i128::from(received.time) - i128::from(sent?.time))
    });
    differences.fold((0, None), |(count, least), difference| {
        (count + 1, Some(least.map_or(difference, |least: i128| least.min(difference))))
    })
}

/// A message that another machine answered with the same key, and the answer: a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) key: Box<str>,
    /// Which recording has the sending of the request, and which has its receiving.
    pub(crate) client: usize,
    pub(crate) server: usize,
    pub(crate) sent: End,
    pub(crate) received: End,
    /// Unknown for flows.
    pub(crate) replied: Option<End>,
    pub(crate) answered: End,
}

impl Request {
    /// How long the client waited for the answer, in nanoseconds.
    pub(crate) fn length(&self) -> u64 {
        self.answered.time - self.sent.time
    }
}

/// All requests of these recordings, the longest first.
pub(crate) fn requests(ends: &[&Ends]) -> Vec<Request> {
    let mut requests = Vec::new();
    for (client, own) in ends.iter().enumerate() {
        for (key, sent) in &own.sent {
            let (Some(sent), Some(Some(answered))) = (*sent, own.received.get(key).copied()) else {
                continue;
            };
            let others = ends.iter().enumerate().filter(|(other, _)| *other != client);
            let mut served = others.filter_map(|(server, ends)| {
                let received = (*ends.received.get(key)?)?;
                let replied = ends.sent.get(key).copied().flatten();
                let is_one = if own.are_flows {
                    replied.is_none()
                } else {
                    replied.is_some_and(|replied| received.time <= replied.time)
                };
                is_one.then_some((server, received, replied))
            });
            if let Some((server, received, replied)) = served.next()
                && sent.time <= answered.time
            {
                let key = key.clone();
                requests.push(Request { key, client, server, sent, received, replied, answered });
            }
        }
    }
    requests.sort_by(|a, b| (b.length(), &a.key).cmp(&(a.length(), &b.key)));
    requests
}

/// A recording whose clock is aligned by messages, and the recordings to and from which these were sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) by: usize,
    pub(crate) offset: Offset,
}

/// How far each clock is ahead of the first one: directly, or through another recording if that is more precise.
///
/// # Errors
/// Returns an error when there is no path of messages from a recording to the first.
pub(crate) fn offsets(paths: &[&Path], ends: &[&Ends]) -> Result<Vec<Option<Set>>, ConvertError> {
    // As in Dijkstra's algorithm, the recording whose offset is known most precisely is next.
    let mut set: Vec<Option<Set>> = vec![None; paths.len()];
    let origin = Offset { nanos: 0, error: 0, messages: (0, 0) };
    let mut done = vec![0];
    while done.len() < paths.len() {
        let mut best: Option<(usize, Set)> = None;
        let mut problem = None;
        for at in (1..paths.len()).filter(|at| !done.contains(at)) {
            for &by in &done {
                let known = set[by].map_or(origin, |set| set.offset);
                match ends[by].offset_of(ends[at]) {
                    Ok(offset) => {
                        let nanos = known.nanos.saturating_add(offset.nanos);
                        let error = known.error.saturating_add(offset.error);
                        let offset = Offset { nanos, error, ..offset };
                        if best.is_none_or(|(_, best)| error < best.offset.error) {
                            best = Some((at, Set { by, offset }));
                        }
                    }
                    Err(why) if by == 0 => problem = problem.or(Some((at, why))),
                    Err(_) => {}
                }
            }
        }
        match (best, problem) {
            (Some((at, found)), _) => {
                set[at] = Some(found);
                done.push(at);
            }
            (None, Some((at, why))) => {
                let (path, first) = (paths[at].to_owned(), paths[0].to_owned());
                return Err(match why {
                    Unbounded::Missing(forth, back) => {
                        ConvertError::NoMessages { path, first, forth, back }
                    }
                    Unbounded::Contradictory(nanos) => {
                        ConvertError::Contradictory { path, first, nanos }
                    }
                });
            }
            (None, None) => break,
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(sent: &[(&str, u64)], received: &[(&str, u64)]) -> Ends {
        let mut ends = Ends::default();
        for (sends, list) in [(true, sent), (false, received)] {
            for &(key, time) in list {
                ends.add(sends, key.into(), End { time, thread: time / 1000 }, false);
            }
        }
        ends
    }

    #[test]
    fn the_picture_is_true_and_slower_messages_change_nothing() {
        let a = ends(&[("1", 100), ("3", 5000)], &[("2", 160), ("4", 9000)]);
        let b = ends(&[("2", 1150), ("4", 7000)], &[("1", 1130), ("3", 6900)]);
        let offset = a.offset_of(&b).expect("bounded");
        assert_eq!(offset, Offset { nanos: 1010, error: 20, messages: (2, 2) });
        let back = b.offset_of(&a).expect("bounded");
        assert_eq!((back.nanos, back.error), (-1010, 20));
    }

    #[test]
    fn one_way_and_contradictions_are_no_offset_and_keys_of_several_messages_do_not_count() {
        let a = ends(&[("1", 100), ("1", 120), ("3", 200)], &[("2", 160)]);
        let b = ends(&[("2", 1150)], &[("1", 1130), ("3", 1100)]);
        assert_eq!(a.offset_of(&b), Err(Unbounded::Contradictory(90)));
        let mute = ends(&[], &[("3", 300)]);
        assert_eq!(a.offset_of(&mute), Err(Unbounded::Missing(1, 0)));
    }

    #[test]
    fn what_is_answered_with_the_same_key_is_a_request_and_the_longest_is_first() {
        // 3 has no answer, two messages have the key 4, and b asks 5.
        let a = ends(
            &[("1", 100), ("2", 3000), ("3", 4000), ("4", 5000), ("4", 5100), ("5", 9200)],
            &[("1", 400), ("2", 3900), ("4", 5900), ("5", 9100)],
        );
        let b = ends(
            &[("1", 1300), ("2", 4500), ("4", 5800), ("5", 8000)],
            &[("1", 1200), ("2", 4100), ("3", 5000), ("4", 5500), ("5", 8070)],
        );
        let found = requests(&[&a, &b]);
        let lengths: Vec<_> = found.iter().map(|it| (&*it.key, it.client, it.length())).collect();
        assert_eq!(lengths, [("2", 0, 900), ("1", 0, 300), ("5", 1, 70)]);
        let Request { server, sent, received, replied, answered, .. } = &found[0];
        assert_eq!(*server, 1);
        assert_eq!((sent.time, sent.thread, answered.time), (3000, 3, 3900));
        assert_eq!(
            (received.time, replied.map(|end| (end.time, end.thread))),
            (4100, Some((4500, 4)))
        );
    }

    #[test]
    fn a_flow_that_begins_in_both_is_no_message() {
        let flows = |sent, received| Ends { are_flows: true, ..ends(sent, received) };
        // Flow 7 is a different one on each machine; 1 and 2 are messages.
        let a = flows(&[("1", 100), ("7", 110)], &[("2", 160), ("7", 120)]);
        let b = flows(&[("2", 1150), ("7", 5)], &[("1", 1130), ("7", 9)]);
        let offset = a.offset_of(&b).expect("bounded");
        assert_eq!(offset, Offset { nanos: 1010, error: 20, messages: (1, 1) });
    }

    #[test]
    fn what_messages_are_is_flows_or_names_and_arguments() {
        assert_eq!("flows".parse(), Ok(Messages::Flows));
        let (send, receive) = ("net:send".to_owned(), "recv".to_owned());
        let keys = vec!["seq".to_owned(), "port".to_owned()];
        assert_eq!("net:send,recv,seq,port".parse(), Ok(Messages::Events { send, receive, keys }));
        for bad in ["", "send", "send,recv", "send,,seq", "a,b,"] {
            assert_eq!(bad.parse::<Messages>(), Err(NoMessages), "{bad}");
        }
    }
}
