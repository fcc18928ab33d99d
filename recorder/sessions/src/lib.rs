//! Recordings across processes: applications that record their own events, and clients that start and stop recordings.
//!
//! [`manager`] runs the sessions of providers in shared memory; with [`control`], clients start and stop recordings of
//! applications, through the manager, and of the kernel, through a separate recorder.

#![forbid(unsafe_code)]

pub mod control;
pub mod manager;
pub mod settings;
