//! Running other recorders.

use std::path::{Path, PathBuf};

/// The workload: two threads that wake each other in turn.
pub(crate) const PINGPONG: &str = env!("CARGO_BIN_EXE_pingpong");

/// A tracing instance, removed when dropped.
#[derive(Debug)]
pub(crate) struct Instance(PathBuf);

impl Instance {
    pub(crate) fn new(name: &str) -> Instance {
        let name = format!("fxtrec-test-{name}-{}", std::process::id());
        let path = Path::new("/sys/kernel/tracing/instances").join(name);
        std::fs::create_dir(&path).expect("tracefs is mounted, and root may make an instance");
        Instance(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, value: &str) {
        std::fs::write(self.path(name), value).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If a test has already failed, its message is more useful than this one.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Shell commands for a mount namespace of one's own. trace-cmd clears the filters of the function tracer, and gives up
/// where the kernel refuses that, which some virtual machines do; files of no effect stand in for them. Wherever tracefs is
/// mounted: trace-cmd prefers the one below debugfs.
pub(crate) fn hide_function_filters(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "echo 1 >{folder}/enabled; mount --bind {folder}/enabled /proc/sys/kernel/ftrace_enabled; \
         for tracefs in $(awk '$3 == \"tracefs\" {{ print $2 }}' /proc/mounts); do \
         for name in set_ftrace_filter set_ftrace_notrace set_ftrace_pid set_graph_function \
         set_graph_notrace; do : >{folder}/$name; file=$tracefs/$name; \
         [ ! -e $file ] || mount --bind {folder}/$name $file; done; done"
    )
}
