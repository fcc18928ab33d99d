mod by_hand;
mod hostile;
mod last_words;
mod rotations;
mod sessions;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fxt_reader::{Reader, Record};

use super::*;
use by_hand::{ByHand, PATIENCE};
use fxtrec_kernel::seqpacket::{Received, Seqpacket};

/// Ends threads that work until a flag is set, also where a test fails: a scope waits for them.
struct Ends<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A manager, and the archive that it writes.
struct Stage {
    manager: Manager,
    address: Address,
    archive: Arc<Mutex<Vec<u8>>>,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(Options::default())
    }

    fn with(options: Options) -> Stage {
        let archive = Arc::new(Mutex::new(MAGIC.to_le_bytes().to_vec()));
        let theirs = archive.clone();
        let write = move |bytes: Vec<u8>| theirs.lock().expect("no panic").extend(bytes);
        let listener = listen_privately().expect("a socket");
        let address = listener.address().clone();
        let manager = Manager::spawn(listener, options, Box::new(write)).expect("a thread");
        Stage { manager, address, archive }
    }

    fn start(&self, mode: fxt_writer::engine::Mode) -> Started {
        let config = SessionConfig { mode, ..SessionConfig::default() };
        self.manager.start(config, StartOptions::default()).expect("none runs")
    }

    fn streaming(&self) {
        self.start(fxt_writer::engine::Mode::Streaming);
    }

    /// The same where a provider answers START only later, from the test's own thread.
    fn streaming_at_once(&self) {
        let mode = fxt_writer::engine::Mode::Streaming;
        let config = SessionConfig { mode, ..SessionConfig::default() };
        let options = StartOptions { timeout: Duration::ZERO, ..StartOptions::default() };
        self.manager.start(config, options).expect("none runs");
    }

    fn register(&self, name: &str) -> ByHand {
        ByHand::register(&self.address, name, &[])
    }

    fn stop(&self) -> Stopped {
        self.manager.stop(true, PATIENCE).expect("one runs")
    }

    /// Waits until a provider is in this state.
    fn wait_for(&self, name: &str, state: ProviderState) -> ProviderStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            let providers = self.manager.providers().expect("it runs");
            let found = providers.iter().find(|one| one.name == name && one.state == state);
            if let Some(found) = found {
                return found.clone();
            }
            assert!(Instant::now() < until, "{name} is not {state:?} in {providers:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until no provider of this name is connected any more.
    fn wait_until_gone(&self, name: &str) {
        let until = Instant::now() + PATIENCE;
        while self.manager.providers().expect("it runs").iter().any(|one| one.name == name) {
            assert!(Instant::now() < until, "{name} does not go");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The names of events by provider, in order. The archive must be valid, and end with fxtrec's own section.
    fn events(&self) -> BTreeMap<String, Vec<String>> {
        events_in(&self.archive.lock().expect("no panic"))
    }

    /// The same for a snapshot, as a separate archive.
    fn events_in_snapshot(&self) -> BTreeMap<String, Vec<String>> {
        let mut archive = MAGIC.to_le_bytes().to_vec();
        archive.extend(self.manager.snapshot().expect("it runs"));
        events_in(&archive)
    }

    fn events_of(&self, name: &str) -> Vec<String> {
        self.events().remove(name).unwrap_or_default()
    }
}

/// The first word of an archive.
const MAGIC: u64 = 0x0016_5478_4604_0010;

/// The names of events by provider, in order, each with its category.
fn events_in(archive: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut reader = Reader::from_slice(archive);
    let mut names = BTreeMap::from([(1, "fxtrec".to_owned())]);
    let mut current = 1;
    let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Some(item) = reader.next().expect("a sound archive") {
        match item.record {
            Record::ProviderInfo(info) => {
                current = info.id.0;
                names.insert(current, info.name.to_owned());
            }
            Record::ProviderSection(section) => current = section.id.0,
            Record::Event(event) => {
                let provider = names.get(&current).expect("introduced").clone();
                events.entry(provider).or_default().push(event.name.to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(current, 1);
    events
}

fn only(stopped: &Stopped) -> &ProviderStatus {
    assert_eq!(stopped.providers.len(), 1, "{stopped:?}");
    &stopped.providers[0]
}
