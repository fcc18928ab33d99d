//! Applications that record their own events: beside a recorder, in sessions of the daemon, and with a manager of the
//! tests' own.

mod client;
mod ctl;
mod daemon;
mod recorded;
mod systemd;
