//! Helpers that the end-to-end tests share.

pub mod archive;
pub mod binary;
pub mod c_example;
pub mod event;
pub mod folder;
pub mod hotplug;
pub mod locks;
pub mod machine;
pub mod placement;
pub mod process;
pub mod programs;
pub mod quota;
pub mod recording;
pub mod root;
pub mod skip;
pub mod synthetic;
pub mod tools;
pub mod trace;
pub mod tracing;
pub mod unwinding;
pub mod wait;
pub mod workload;
