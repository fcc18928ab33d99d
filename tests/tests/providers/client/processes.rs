//! Fork: a child never writes to its parent's buffer.

use super::app::App;
use super::manager::{Ask, Manager};

#[test]
fn children_record_nothing_into_the_parents_buffer() {
    let manager = Manager::new();
    let app = App::start(&manager, "fork", &[1000]);
    let mut peer = manager.accept();
    let recording = peer.start(Ask::default());
    let archive = peer.save_to_death(recording);
    let parent = app.id();
    app.end_well();
    assert_eq!(archive.named("child").count() + archive.named("child span").count(), 0);
    let numbers: Vec<_> = archive.named("parent").map(|event| event.number("number")).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(archive.named("around").count(), 2, "children do not end what the parent began");
    assert!(archive.events.iter().all(|event| event.thread == parent));
}

#[test]
fn a_child_may_become_a_provider_of_its_own() {
    let manager = Manager::new();
    let app = App::start(&manager, "heir", &[1000]);
    let mut parent = manager.accept();
    let recording = parent.start(Ask::default());
    let mut child = manager.accept();
    assert_eq!(child.name, "heir");
    let of_child = child.start(Ask::default());
    let inherited = child.save_to_death(of_child);
    let own = parent.save_to_death(recording);
    app.end_well();
    assert_eq!(inherited.named("child").count(), 1000);
    assert_eq!(inherited.named("parent").count(), 0);
    let numbers: Vec<_> = own.named("parent").map(|event| event.number("number")).collect();
    assert_eq!((own.events.len(), numbers), (2, vec![0, 1]));
}

#[test]
fn a_child_that_lives_on_does_not_keep_the_connection_open() {
    let manager = Manager::new();
    let app = App::start(&manager, "orphan", &[]);
    let mut peer = manager.accept();
    let recording = peer.start(Ask::default());
    // Returns when the parent has ended; the child waits for input that is still open.
    let archive = peer.save_to_death(recording);
    assert_eq!(archive.named("parent").count(), 1);
    app.end_well();
}
