//! Managers that send nonsense: the provider leaves them, and the application does not notice.

use std::os::fd::AsRawFd;
use std::time::Duration;

use fxt_writer::Koid;
use fxt_writer::engine::{BufferDisposition, Mode};
use fxt_writer::packet::Packet;
use fxt_writer::provider::wire::{FromManager, Session, Start};

use super::app::App;
use super::manager::{Ask, Manager, buffer, unsealed_buffer};

fn start(bytes: u64) -> Vec<u8> {
    let start = Start {
        mode: Mode::Streaming,
        disposition: BufferDisposition::ClearEntire,
        buffer_bytes: bytes,
        process: Koid(1),
        categories: Vec::new(),
    };
    let session = Session::new(7).expect("not zero");
    FromManager::Start { session, start }.encode().expect("a message")
}

/// Sends a message with these descriptors; the provider must close the connection, and be available to the next manager.
fn assert_refused(message: &[u8], descriptors: &[i32]) {
    let manager = Manager::new();
    let mut app = App::start(&manager, "sessions", &[]);
    let peer = manager.accept();
    peer.send_raw(message, descriptors);
    assert_eq!(peer.receive(), None);
    let mut peer = manager.accept();
    let recording = peer.start(Ask::default());
    assert_eq!(app.number(), Some(0));
    assert_eq!(peer.stop(recording).events.len(), 1);
    drop(peer);
    app.end_well();
}

#[test]
fn a_buffer_that_can_shrink_is_refused() {
    let file = unsealed_buffer(1 << 20);
    let fifo = buffer(4096);
    assert_refused(&start(1 << 20), &[file.as_raw_fd(), fifo.as_raw_fd()]);
}

#[test]
fn a_buffer_of_another_size_is_refused() {
    let file = buffer(1 << 20);
    let fifo = buffer(4096);
    assert_refused(&start(2 << 20), &[file.as_raw_fd(), fifo.as_raw_fd()]);
    assert_refused(&start(u64::MAX), &[file.as_raw_fd(), fifo.as_raw_fd()]);
}

#[test]
fn a_buffer_too_small_for_an_engine_is_refused() {
    let file = buffer(64);
    let fifo = buffer(4096);
    assert_refused(&start(64), &[file.as_raw_fd(), fifo.as_raw_fd()]);
}

#[test]
fn a_start_without_its_descriptors_is_refused() {
    let file = buffer(1 << 20);
    assert_refused(&start(1 << 20), &[]);
    assert_refused(&start(1 << 20), &[file.as_raw_fd()]);
    assert_refused(&start(1 << 20), &[file.as_raw_fd(); 3]);
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    assert_refused(&[1, 2, 3], &[]);
    assert_refused(&vec![0xff; 100_000], &[]);
}

#[test]
fn a_manager_of_another_version_is_left_for_good() {
    let manager = Manager::new();
    let mut app = App::start(&manager, "idle", &[]);
    let peer = manager.accept();
    let mut message = start(1 << 20);
    message[2..4].copy_from_slice(&2_u16.to_ne_bytes());
    peer.send_raw(&message, &[]);
    assert_eq!(peer.receive(), None);
    // It would connect again within 100 ms.
    assert!(!manager.has_caller(Duration::from_secs(1)));
    assert_eq!(app.number(), Some(1));
    app.end_well();
}

#[test]
fn answers_to_what_nobody_asked_end_the_session() {
    for nonsense in [
        Packet::save_buffer(0, 0).buffer_saved().to_bytes().to_vec(),
        Packet::started().to_bytes().to_vec(),
        vec![0; 16],
        vec![0; 5],
        vec![0; 17],
    ] {
        let manager = Manager::new();
        let mut app = App::start(&manager, "sessions", &[]);
        let mut peer = manager.accept();
        let mut recording = peer.start(Ask::default());
        assert_eq!(app.number(), Some(0));
        recording.send_raw(&nonsense);
        assert_eq!(recording.packet(Duration::from_secs(20)), None, "its end is closed");
        drop(recording);
        let recording = peer.start(Ask::default());
        app.go_on();
        assert_eq!(app.number(), Some(1));
        assert_eq!(peer.stop(recording).events.len(), 1);
        app.kill();
    }
}
