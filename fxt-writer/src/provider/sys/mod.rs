//! All system calls, and so all unsafe code, of the provider: the clock, the page
//! that a fork wipes, the shared buffer, the sockets.

mod clock;
mod fork;
mod mapping;
mod socket;
mod thread;

pub(in crate::provider) use clock::{find_namespace, now};
pub use fork::GENERATION;
pub(in crate::provider) use fork::{
    Generation, OVERDUE, OwnSocket, at_exit, begin_overdue, claim_process, client, end_overdue,
    generation, publish_client,
};
pub(in crate::provider) use mapping::{BufferError, Mapping};
pub(in crate::provider) use socket::{Received, connect, receive, receive_packet, send};
pub(in crate::provider) use thread::{spawn_without_signals, thread_id, thread_name};
