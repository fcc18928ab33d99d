//! fxtrec's guarantees on an otherwise idle machine: the command line, sources, losses, gates.
//!
//! Each test takes a [turn](fxtrec_tests::machine) when it uses the machine: exclusively, or next to compatible tests.

mod action;
mod alerts;
mod blocked;
mod callchains;
mod causes;
mod cgroups;
mod command_line;
mod compare;
mod debuginfod;
mod disturbed;
mod doctor;
mod files;
mod ftrace;
mod gates;
mod go;
mod herd;
mod hotplug;
mod locks;
mod losses;
mod many;
mod memory;
mod messages;
mod metrics;
mod objects;
mod occupants;
mod packets;
mod perfetto;
mod python;
mod quotas;
mod report;
mod requests;
mod short_lives;
mod slices;
mod sources;
mod stacks;
mod symbolize;
mod top;
mod truth;
mod unwinding;
mod watch;
mod weights;
mod why;
mod workflow;
mod workloads;
