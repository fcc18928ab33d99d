//! The provider in an application: what it records, how it counts, and that no action of a manager harms it.
//!
//! Each test is a minimal manager, with a process of `provider-client` as the application.

mod app;
mod archive;
mod beginnings;
mod c;
mod counting;
mod hostile;
mod lives;
mod manager;
mod processes;
mod records;
mod traced;
