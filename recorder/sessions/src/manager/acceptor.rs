//! Decides which providers are accepted.
//!
//! There is space for a hundred providers. Users in the list, and root, may use all of it. If every user is admitted, each user is limited
//! to a share, so that no user can exclude all others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::config::{MAX_PROVIDERS, Options};
use super::provider::Provider;
use super::status::Refusals;
use fxtrec_kernel::seqpacket::{Listener, Peer, Seqpacket};

/// The time before the next attempt when descriptors have run out.
pub(super) const DEAF: Duration = Duration::from_millis(500);

/// The number of users whose rejected connections are counted separately.
const USERS: usize = 1024;

#[derive(Debug)]
pub(super) struct Acceptor {
    listener: Listener,
    /// Until when connections are ignored.
    paused_until: Option<Instant>,
    refusals: Refusals,
    /// For each user, how often there was no space for another provider.
    turned_away: BTreeMap<u32, u64>,
}

impl Acceptor {
    pub(super) fn new(listener: Listener) -> Acceptor {
        let (refusals, turned_away) = (Refusals::default(), BTreeMap::new());
        Acceptor { listener, paused_until: None, refusals, turned_away }
    }

    /// The listener to wait for; `None` while no connection can be accepted.
    pub(super) fn listener(&self) -> Option<&Listener> {
        self.paused_until.is_none().then_some(&self.listener)
    }

    /// Until when no connections are accepted.
    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    /// Checks whether connections can be accepted again.
    pub(super) fn check_timeouts(&mut self, now: Instant) {
        self.paused_until = self.paused_until.filter(|until| now < *until);
    }

    /// The next waiting connection, if any.
    pub(super) fn next(&mut self) -> Option<(Seqpacket, Peer)> {
        self.listener.accept().unwrap_or_else(|_| {
            self.paused_until = Some(Instant::now() + DEAF);
            None
        })
    }

    /// Whether this peer may connect in addition to those that are `present`.
    pub(super) fn lets_in(&mut self, peer: Peer, options: &Options, present: &[Provider]) -> bool {
        let Peer { uid, pid, .. } = peer;
        let invited = uid == 0 || options.uids.contains(&uid);
        let theirs = || present.iter().filter(|provider| provider.uid() == uid).count();
        let count = if !invited && !options.everybody {
            &mut self.refusals.foreign_user
        } else if pid == 0 {
            &mut self.refusals.invisible
        } else if present.len() >= MAX_PROVIDERS {
            self.turn_away(uid);
            &mut self.refusals.too_many
        } else if !invited && theirs() >= options.per_user {
            self.turn_away(uid);
            &mut self.refusals.too_many_of_one_user
        } else {
            return true;
        };
        *count += 1;
        false
    }

    fn turn_away(&mut self, uid: u32) {
        if self.turned_away.len() < USERS || self.turned_away.contains_key(&uid) {
            *self.turned_away.entry(uid).or_default() += 1;
        }
    }

    /// Counts a connection that ended without having registered.
    pub(super) fn count_unregistered(&mut self) {
        self.refusals.unregistered += 1;
    }

    /// Connections that were rejected so far.
    pub(super) fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// For each user, how often a connection was rejected because there was no space.
    pub(super) fn turned_away(&self) -> BTreeMap<u32, u64> {
        self.turned_away.clone()
    }
}

#[cfg(test)]
mod tests {
    use fxt_writer::{Koid, ProviderId};

    use super::*;
    use crate::manager::listen_privately;

    const ROOT: u32 = 0;
    const INVITED: u32 = 1000;
    const ONE: u32 = 1001;
    const OTHER: u32 = 1002;

    /// An acceptor, and the connected providers.
    struct House {
        acceptor: Acceptor,
        options: Options,
        present: Vec<Provider>,
    }

    impl House {
        fn new(per_user: usize) -> House {
            let acceptor = Acceptor::new(listen_privately().expect("a socket"));
            let uids = vec![INVITED];
            let options = Options { uids, everybody: true, per_user, ..Options::default() };
            House { acceptor, options, present: Vec::new() }
        }

        /// Whether one more connection of this user is admitted.
        fn comes(&mut self, uid: u32) -> bool {
            let peer = Peer { pid: 7, uid };
            let comes = self.acceptor.lets_in(peer, &self.options, &self.present);
            if comes {
                let (connection, _) = Seqpacket::pair().expect("two sockets");
                self.present.push(Provider::new(ProviderId(2), connection, peer, Koid(7)));
            }
            comes
        }
    }

    #[test]
    fn where_everyone_may_come_a_user_has_no_more_than_a_share() {
        let mut house = House::new(2);
        assert_eq!([ONE; 3].map(|uid| house.comes(uid)), [true, true, false]);
        assert!(house.comes(OTHER), "others have theirs");
        assert!([ROOT, INVITED].repeat(3).into_iter().all(|uid| house.comes(uid)));
        house.present.remove(0);
        assert!(house.comes(ONE), "there is room again");
        assert!(!house.comes(ONE));
        assert_eq!(house.acceptor.turned_away(), BTreeMap::from([(ONE, 2)]));
        let refusals = house.acceptor.refusals();
        assert_eq!((refusals.too_many_of_one_user, refusals.total()), (2, 2));
    }

    #[test]
    fn when_all_places_are_taken_nobody_comes_in() {
        let mut house = House::new(MAX_PROVIDERS);
        assert!((0..MAX_PROVIDERS).all(|_| house.comes(INVITED)));
        assert_eq!([ROOT, INVITED, ONE].map(|uid| house.comes(uid)), [false; 3]);
        assert_eq!(house.acceptor.refusals().too_many, 3);
        assert_eq!(house.acceptor.turned_away().len(), 3);
    }

    #[test]
    fn where_only_some_are_invited_others_are_not_let_in() {
        let mut house = House::new(MAX_PROVIDERS);
        house.options.everybody = false;
        assert_eq!([ROOT, INVITED, ONE].map(|uid| house.comes(uid)), [true, true, false]);
        assert_eq!(house.acceptor.refusals().foreign_user, 1);
        assert!(house.acceptor.turned_away().is_empty(), "it is not for want of room");
        let unseen = Peer { pid: 0, uid: INVITED };
        assert!(!house.acceptor.lets_in(unseen, &house.options, &house.present));
        assert_eq!(house.acceptor.refusals().invisible, 1);
    }
}
