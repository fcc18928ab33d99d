//! Everything that touches Linux: perf events and their rings, tracefs,
//! procfs, namespaces, processes and signals. All `unsafe` of the recorder is
//! in here, and nothing in here imports from the modules above it.

#[cfg(test)]
pub(crate) mod fake;

pub mod activation;
pub mod bell;
pub mod bpf;
pub mod caps;
pub mod child;
pub mod clock;
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
pub mod machine;
pub mod namespaces;
pub mod notify;
pub mod peer;
pub mod perf;
pub mod pipe;
pub mod prev_state;
pub mod print_fmt;
pub mod priority;
pub mod process_files;
pub mod procfs;
pub mod random;
pub mod refusal;
pub mod regular;
pub mod ring;
pub mod seqpacket;
pub mod shared_memory;
pub mod signals;
pub mod stream;
pub mod sys;
pub mod syscalls;
pub mod terminal;
pub mod thread_times;
pub mod tracefs;
pub mod uprobe;
pub mod user;
pub mod waker;
