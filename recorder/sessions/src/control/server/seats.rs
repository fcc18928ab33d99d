//! How much each user has of what there is little of: connections, and processes that write outputs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many each user has.
pub(in crate::control) type Users = Arc<Mutex<HashMap<u32, usize>>>;

/// One among those of its user.
#[derive(Debug)]
pub(in crate::control) struct Seat {
    users: Users,
    uid: u32,
}

impl Seat {
    /// A seat for one more of this user, who may have `most`; root may have more.
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
