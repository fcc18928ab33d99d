//! Recordings of several processes together: applications that record their own events, and whoever starts and stops them.
//!
//! [`manager`] has the sessions of providers in shared memory; [`control`] lets others start and stop recordings, of
//! applications through the manager and of the kernel through a recorder of its own.

#![forbid(unsafe_code)]

pub mod control;
pub mod manager;
pub mod settings;
