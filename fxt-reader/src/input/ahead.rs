//! Reading ahead: a separate thread reads and decompresses while the caller processes records.
//!
//! A fixed number of blocks circulates. The thread passes a block on after each read, full or not, and the stream uses the block as its
//! buffer. The unread rest of the previous buffer is copied in front of it:
//!
//! ```text
//!   buffer    |consumed ======|left|
//!                               |
//!   block     | - - - - - |left|bytes of one read ----------|   becomes the buffer
//!             <--- LEAD --->
//! ```
//!
//! The thread ends at the end of the source, or when its reader has been dropped; then, at the latest, when its current
//! read returns.

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The number of blocks in circulation, which bounds how far the thread reads ahead.
const BLOCKS: usize = 4;

/// The size of one read: small enough for a core's own cache.
pub(super) const BLOCK: usize = 512 * 1024;

/// Room in front of the bytes of a block.
pub(super) const LEAD: usize = 64 * 1024;

/// A message from the thread; after either of the last two variants, there are no more.
pub(super) enum Message {
    /// A block, and where its bytes end. They begin at [`LEAD`].
    Bytes(Vec<u8>, usize),
    End,
    Failed(io::Error),
}

/// The reader's handle to the thread.
pub(super) struct Ahead {
    /// The channels to and from the thread; `None` once the reader is being dropped.
    ways: Option<(Sender<Vec<u8>>, Receiver<Message>)>,
    thread: Option<JoinHandle<()>>,
}

type Source = Box<dyn Read + Send>;

impl Ahead {
    /// Starts a thread that reads `source`. If `joined`, dropping the handle waits for the thread.
    ///
    /// # Errors
    ///
    /// Returns the source unchanged if no thread can be started, or if the process may use only one CPU.
    pub(super) fn start(source: Source, joined: bool) -> Result<Ahead, Source> {
        if thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
            return Err(source);
        }
        let (give_back, blocks) = channel();
        let (tell, reported) = channel();
        for _ in 0..BLOCKS {
            // Cannot fail: the receiver still exists.
            let _ = give_back.send(new_block());
        }
        // If the thread cannot be started, the source must not be lost.
        let place = Arc::new(Mutex::new(Some(source)));
        let theirs = place.clone();
        let thread = thread::Builder::new().name("fxt-read-ahead".to_owned()).spawn(move || {
            let source = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut source) = source {
                read(&mut source, &blocks, &tell);
            }
        });
        match thread {
            Ok(thread) => {
                let thread = joined.then_some(thread);
                Ok(Ahead { ways: Some((give_back, reported)), thread })
            }
            Err(_) => {
                let source = place.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(source.unwrap_or_else(|| Box::new(io::empty())))
            }
        }
    }

    /// Waits for the next message.
    pub(super) fn next(&self) -> Message {
        let reported = self.ways.as_ref().and_then(|(_, reported)| reported.recv().ok());
        // A thread that reached the end has sent that as its last message.
        reported.unwrap_or_else(|| {
            Message::Failed(io::Error::other("the thread that reads ahead panicked"))
        })
    }

    /// Returns a block, or a replacement for it, to the thread.
    pub(super) fn give_back(&self, block: Vec<u8>) {
        let block = if block.len() == LEAD + BLOCK { block } else { new_block() };
        if let Some((give_back, _)) = &self.ways {
            // If the thread has ended, its last message is still in the channel.
            let _ = give_back.send(block);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.ways = None;
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported as an error, or the reader is being dropped.
            let _ = thread.join();
        }
    }
}

fn new_block() -> Vec<u8> {
    vec![0; LEAD + BLOCK]
}

/// The thread's body.
fn read(source: &mut Source, blocks: &Receiver<Vec<u8>>, tell: &Sender<Message>) {
    while let Ok(mut block) = blocks.recv() {
        let reported = match read_block(source, &mut block) {
            Ok(0) => Message::End,
            Ok(count) => Message::Bytes(block, LEAD + count),
            Err(error) => Message::Failed(error),
        };
        let goes_on = matches!(reported, Message::Bytes(..));
        if tell.send(reported).is_err() || !goes_on {
            return;
        }
    }
}

/// Fills a block with the result of one read.
fn read_block(source: &mut Source, block: &mut [u8]) -> io::Result<usize> {
    let room = block.get_mut(LEAD..).unwrap_or_default();
    loop {
        match source.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map(|count| count.min(room.len())),
        }
    }
}
