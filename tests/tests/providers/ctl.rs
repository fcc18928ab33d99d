//! `fxtrec ctl`, against the real daemon: as root, and as a user who may do less.

mod alone;
mod daemon;
mod snapshots;
mod users;
mod verbs;
