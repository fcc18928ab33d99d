//! Managers that start and exit under running applications.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fxt_writer::record::{Magic, Record};
use fxtrec::kernel::seqpacket::{Address, Listener};
use fxtrec::manager::{Manager, Options, SessionConfig, StartOptions};
use fxtrec_tests::archive::{Archive, Provider};
use fxtrec_tests::process::spawn;
use fxtrec_tests::wait;

use super::APP;

const PATIENCE: Duration = Duration::from_secs(20);

/// A manager with a session, and its output.
struct Stage {
    manager: Manager,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Stage {
    fn at(path: &Path) -> Stage {
        // The previous one has left its file.
        let _ = std::fs::remove_file(path);
        let listener = Listener::bind(Address::Path(path.to_owned())).expect("a free address");
        let written = Arc::new(Mutex::new(Vec::new()));
        let theirs = written.clone();
        let archive = move |bytes: Vec<u8>| theirs.lock().expect("no panic").extend(bytes);
        let manager = Manager::spawn(listener, Options::default(), Box::new(archive));
        let manager = manager.expect("a thread");
        manager.start(SessionConfig::default(), StartOptions::default()).expect("none runs");
        Stage { manager, written }
    }

    fn wait_for_records(&self, bytes: usize) {
        wait::until("records", || self.written.lock().expect("no panic").len() > bytes);
    }

    /// Exits without a message, and leaves the data that it had written.
    fn only(self, folder: &Path) -> Provider {
        drop(self.manager);
        let path = folder.join("archive.fxt");
        let mut archive = Vec::new();
        Magic.write(&mut archive).expect("a vector");
        archive.extend_from_slice(&self.written.lock().expect("no panic"));
        std::fs::write(&path, archive).expect("room for it");
        Archive::read(&path).only()
    }
}

/// An application that records numbers, and continues until it is killed.
struct App(Child);

impl App {
    fn start(manager: &Path) -> App {
        let mut app = spawn(
            Command::new(APP)
                .arg("forever")
                .env("FXTREC_PROVIDER_SOCKET", manager)
                .stdin(Stdio::null())
                .stdout(Stdio::piped()),
        );
        let out = app.stdout.take().expect("piped");
        // Its output must be read; otherwise it blocks.
        std::thread::spawn(move || BufReader::new(out).lines().for_each(drop));
        App(app)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it ran until now");
    }
}

#[test]
fn a_new_manager_finds_applications_that_run_and_nothing_of_the_old_session_comes_with_them() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let address = folder.path().join("providers");
    let first = Stage::at(&address);
    let _app = App::start(&address);
    // Several buffers.
    first.wait_for_records(10 << 20);
    let before = first.only(folder.path());
    let second = Stage::at(&address);
    second.wait_for_records(10 << 20);
    let stopped = second.manager.stop(true, PATIENCE).expect("one runs");
    assert_eq!((stopped.providers.len(), &stopped.silent[..]), (1, &[][..]));
    assert_eq!(stopped.providers[0].fault, None);
    let after = second.only(folder.path());

    // Each is valid by itself: it contains every string and thread that a record refers to.
    let [old, new] = [&before, &after].map(|provider| provider.numbers("step"));
    for numbers in [&old, &new] {
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
    }
    assert_eq!((before.name.as_str(), after.name.as_str()), ("spans", "spans"));
    assert!(new[0] > *old.last().expect("there are some"), "none is in both");
    assert_eq!(stopped.providers[0].stats.tally.unfinished, 0);
}
