//! fxtrec as its users meet it: exit statuses, signals, files, pipes, and what
//! is left when something goes wrong. Most of it needs root.
//!
//! No test relies on a pause: each waits for the condition that it expects.

mod demo;
mod files;
mod jobs;
mod kept;
mod mistakes;
mod pipes;
mod run;
mod scope;
mod signals;
mod status;
mod trace;
mod trouble;
