//! The known facts about koids: names, processes, and original ids in JSON.

use fxt_reader::Koid;
use rustc_hash::FxHashMap;

use super::json;

#[derive(Debug, Default)]
pub(super) struct Names {
    processes: FxHashMap<Koid, String>,
    threads: FxHashMap<Koid, ThreadName>,
    /// The JSON text of the original ids of generated koids.
    originals: FxHashMap<Koid, String>,
}

/// The known facts about a thread.
#[derive(Debug)]
pub(super) struct ThreadName {
    pub(super) name: String,
    pub(super) process: Option<Koid>,
}

impl Names {
    pub(super) fn set_process(&mut self, koid: Koid, name: &str) {
        self.processes.insert(koid, name.to_owned());
    }

    pub(super) fn set_thread(&mut self, koid: Koid, name: &str, process: Option<Koid>) {
        self.threads.insert(koid, ThreadName { name: name.to_owned(), process });
    }

    pub(super) fn set_original(&mut self, koid: Koid, json: String) {
        self.originals.insert(koid, json);
    }

    pub(super) fn thread(&self, koid: Koid) -> Option<&ThreadName> {
        self.threads.get(&koid)
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = (Koid, &str)> {
        self.processes.iter().map(|(koid, name)| (*koid, name.as_str()))
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = (Koid, &ThreadName)> {
        self.threads.iter().map(|(koid, name)| (*koid, name))
    }

    /// The process of a thread; the thread itself if unknown, as for a main thread.
    pub(super) fn process_of(&self, thread: Koid) -> Koid {
        self.thread(thread).and_then(|name| name.process).unwrap_or(thread)
    }

    /// The name of a thread, or a string that identifies it.
    pub(super) fn label(&self, thread: Koid) -> String {
        match self.thread(thread) {
            Some(name) if !name.name.is_empty() => name.name.clone(),
            _ => format!("thread {thread}"),
        }
    }

    /// Writes a process or thread id as in JSON.
    pub(super) fn write_id(&self, out: &mut Vec<u8>, koid: Koid) {
        match self.originals.get(&koid) {
            Some(json) => out.extend_from_slice(json.as_bytes()),
            None => json::id(out, koid.0),
        }
    }
}
