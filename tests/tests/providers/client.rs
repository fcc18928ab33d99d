//! The provider in an application: what it records, how it counts, and that nothing a manager does harms it.
//!
//! Each test is a manager, the smallest there can be, with a process of `provider-client` as the application.

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
