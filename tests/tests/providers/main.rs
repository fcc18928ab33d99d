//! Applications that record their own events: next to a recorder, in sessions of the daemon, and with a manager of the tests.

mod client;
mod ctl;
mod daemon;
mod recorded;
mod systemd;
