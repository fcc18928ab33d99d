//! Everything that interacts with Linux: perf events and their rings, BPF, tracefs, procfs, namespaces, processes and signals.
//!
//! All `unsafe` of the recorder is in this crate. This crate knows nothing about traces: of the other crates, it uses `fxtrec-units` and,
//! for memory that is shared with applications or holds a trace, `fxt-writer`'s engine.

#[cfg(any(test, feature = "fake"))]
pub mod fake;

use fxtrec_units as units;

pub mod activation;
pub mod allocator;
pub mod bell;
pub mod bpf;
pub mod callchains;
pub mod caps;
pub mod cgroups;
pub mod child;
pub mod clock;
pub mod code;
pub mod code_records;
pub mod cpus;
pub mod directory;
pub mod event_list;
pub mod extra;
pub mod facts;
pub mod file_lock;
pub mod format;
pub mod ftrace;
pub mod helper;
pub mod hotplug;
pub mod idle_probe;
pub mod limits;
pub mod linger;
pub mod machine;
pub mod made_code;
pub mod memory;
pub mod namespaces;
pub mod notify;
pub mod pager;
pub mod patience;
pub mod peer;
pub mod perf;
pub mod pipe;
pub mod prev_state;
pub mod print_fmt;
pub mod priority;
pub mod process_files;
pub mod procfs;
pub mod progress;
pub mod quotas;
pub mod random;
pub mod refusal;
pub mod regular;
pub mod rights;
pub mod ring;
pub mod seqpacket;
pub mod shared_memory;
pub mod signals;
pub mod stack_source;
pub mod steal;
pub mod stop_token;
pub mod stream;
pub mod symbols;
pub mod sys;
pub mod syscalls;
pub mod terminal;
pub mod thread_times;
pub mod trace_memory;
pub mod tracefs;
pub mod uprobe;
pub mod user;
pub mod worker;
