//! How many connections each user has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections that one user may have; root may have more.
const CONNECTIONS: usize = 64;

/// How many connections each user has.
pub(super) type Users = Arc<Mutex<HashMap<u32, usize>>>;

/// One connection among those of its user.
#[derive(Debug)]
pub(super) struct Seat {
    users: Users,
    uid: u32,
}

impl Seat {
    /// A seat for one more connection of this user, if there is one.
    pub(super) fn take(users: &Users, uid: u32) -> Option<Seat> {
        let mut counts = users.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid).or_insert(0);
        if *count >= CONNECTIONS && uid != 0 {
            return None;
        }
        *count += 1;
        Some(Seat { users: users.clone(), uid })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}
