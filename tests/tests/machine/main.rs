//! What fxtrec promises of a machine that others leave alone: the command line, sources, losses, gates.
//!
//! Each test takes a [turn](fxtrec_tests::machine) when it uses the machine: alone, or beside others that do not mind.

mod blocked;
mod causes;
mod command_line;
mod compare;
mod doctor;
mod ftrace;
mod gates;
mod hotplug;
mod losses;
mod report;
mod slices;
mod sources;
mod stacks;
mod truth;
mod why;
mod workflow;
mod workloads;
