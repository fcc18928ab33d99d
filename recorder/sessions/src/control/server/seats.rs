//! Limits per user for connections and for processes that write outputs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of seats of each user.
pub(in crate::control) type Users = Arc<Mutex<HashMap<u32, usize>>>;

/// A seat (one of a user's permitted connections), which counts for its user until it is dropped.
#[derive(Debug)]
pub(in crate::control) struct Seat {
    users: Users,
    uid: u32,
}

impl Seat {
    /// Another seat for this user, who may have at most `most`; root may have more.
    pub(in crate::control) fn take(users: &Users, uid: u32, most: usize) -> Option<Seat> {
        let mut counts = users.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(uid).or_insert(0);
        if *count >= most && uid != 0 {
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
