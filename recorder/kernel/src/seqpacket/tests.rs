use fxt_writer::engine::SharedWords;

use super::*;
use crate::shared_memory::SharedMemory;

fn address() -> Address {
    Address::unguessable("fxtrec-test").expect("random bytes")
}

#[test]
fn who_connects_is_known_by_process_and_user() {
    let listener = Listener::bind(address()).expect("nobody is there");
    assert!(listener.accept().expect("accept").is_none());
    let theirs = Seqpacket::connect(listener.address()).expect("somebody listens");
    let (ours, peer) = listener.accept().expect("accept").expect("a connection waits");
    let uid = nix::unistd::geteuid().as_raw();
    assert_eq!(peer, Peer { pid: std::process::id(), uid });

    let mut buffer = [0; 16];
    assert_eq!(ours.receive(&mut buffer).expect("open"), Received::Nothing);
    theirs.send(b"one", &[]).expect("open");
    theirs.send(b"second", &[]).expect("open");
    drop(theirs);
    assert_eq!(ours.receive(&mut buffer).expect("a message"), Received::Message(3));
    assert_eq!(ours.receive(&mut buffer).expect("a message"), Received::Message(6));
    assert_eq!(&buffer[..6], b"second");
    assert_eq!(ours.receive(&mut buffer).expect("the end"), Received::End);
    assert_eq!(ours.send(b"x", &[]).expect_err("gone").raw_os_error(), Some(libc::EPIPE));
}

#[test]
fn an_address_is_what_the_environment_says() {
    let name = address();
    let Address::Abstract(random) = &name else { panic!("{name} is abstract") };
    // A token has 16 bytes, two digits each.
    assert_eq!(random.len(), "fxtrec-test-".len() + 2 * 16);
    assert_ne!(name, address());
    for address in [name, Address::Path("/run/fxtrec/providers.sock".into())] {
        assert_eq!(Address::parse(&address.to_string()), address);
    }
}

#[test]
fn a_taken_address_is_refused() {
    let listener = Listener::bind(address()).expect("nobody is there");
    let error = Listener::bind(listener.address().clone()).expect_err("taken");
    assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let (ours, theirs) = Seqpacket::pair().expect("a pair");
    let (mine, given) = Seqpacket::pair().expect("a pair");
    match theirs.send(b"hello", &[given.as_fd()]) {
        Ok(()) => {
            assert_eq!(ours.receive(&mut [0; 16]).expect("a message"), Received::Message(5));
        }
        // Supported since Linux 6.16.
        Err(refused) => assert_eq!(refused.raw_os_error(), Some(libc::EPERM)),
    }
    drop(given);
    // Its last copy was in the message.
    assert_eq!(mine.receive(&mut [0; 16]).expect("the end"), Received::End);
}

#[test]
fn descriptors_arrive_with_the_message_they_were_sent_with() {
    let (ours, theirs) = Seqpacket::pair().expect("a pair");
    let memory = SharedMemory::new("test", 4096).expect("a memfd");
    let (mine, given) = Seqpacket::pair().expect("a pair");
    ours.send(b"take it", &[memory.file(), given.as_fd()]).expect("open");
    drop(given);
    ours.send(b"nothing", &[]).expect("open");

    let mut descriptors = Vec::new();
    let received = theirs.receive_with(&mut [0; 16], &mut descriptors).expect("a message");
    assert_eq!((received, descriptors.len()), (Received::Message(7), 2));
    nix::sys::uio::pwrite(&descriptors[0], &9_u64.to_ne_bytes(), 8).expect("the memory");
    assert_eq!(memory.into_words().load(1), 9);
    let given = Seqpacket::from(descriptors.remove(1));
    given.send(b"hello", &[]).expect("open");
    assert_eq!(mine.receive(&mut [0; 16]).expect("a message"), Received::Message(5));

    let received = theirs.receive_with(&mut [0; 16], &mut descriptors).expect("a message");
    assert_eq!((received, descriptors.len()), (Received::Message(7), 1));
}

#[test]
fn a_side_that_reads_nothing_blocks_no_thread() {
    let (ours, _theirs) = Seqpacket::pair().expect("a pair");
    let full = (0..100_000).find_map(|_| ours.send(&[0; 1024], &[]).err());
    assert_eq!(full.expect("it is full").raw_os_error(), Some(libc::EAGAIN));
}
