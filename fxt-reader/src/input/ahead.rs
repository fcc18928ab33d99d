//! Reading ahead: a thread of its own reads, and decompresses, while the records are looked at.
//!
//! A fixed number of blocks goes round. The thread hands over whatever one read brought, so that nothing waits for a block
//! to be full, and the stream takes the block as its buffer. What is left of the buffer before is copied in front of it:
//!
//! ```text
//!   buffer    |consumed ======|left|
//!                               |
//!   block     | - - - - - |left|bytes of one read ----------|   becomes the buffer
//!             <--- LEAD --->
//! ```
//!
//! The thread ends with the source, or when it has nobody to read for any more; then at the latest when the read returns
//! that it is in.

use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Blocks that go round. They bound how far the thread is ahead.
const BLOCKS: usize = 4;

/// How much is read at once: not more than stays in a core's own cache.
pub(super) const BLOCK: usize = 512 * 1024;

/// Room in front of the bytes of a block.
pub(super) const LEAD: usize = 64 * 1024;

/// What the thread has to say; the last two end it.
pub(super) enum Told {
    /// A block, and where its bytes end. They begin at [`LEAD`].
    Bytes(Vec<u8>, usize),
    End,
    Failed(io::Error),
}

/// The thread, as whoever it reads for sees it.
pub(super) struct Ahead {
    /// What goes to the thread and comes from it; `None` when nothing is wanted any more.
    ways: Option<(Sender<Vec<u8>>, Receiver<Told>)>,
    thread: Option<JoinHandle<()>>,
}

type Source = Box<dyn Read + Send>;

impl Ahead {
    /// Lets a thread read `source`. When it is dropped, it waits for the thread if that is `joined`.
    ///
    /// # Errors
    ///
    /// The source, when there is no thread to be had, or no CPU that would be free for one.
    pub(super) fn start(source: Source, joined: bool) -> Result<Ahead, Source> {
        if thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
            return Err(source);
        }
        let (give_back, blocks) = channel();
        let (tell, told) = channel();
        for _ in 0..BLOCKS {
            // The other end is there.
            let _ = give_back.send(new_block());
        }
        // Whoever cannot be given the source must not lose it.
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
                Ok(Ahead { ways: Some((give_back, told)), thread })
            }
            Err(_) => {
                let source = place.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(source.unwrap_or_else(|| Box::new(io::empty())))
            }
        }
    }

    /// What comes next; waits for it.
    pub(super) fn next(&self) -> Told {
        let told = self.ways.as_ref().and_then(|(_, told)| told.recv().ok());
        // A thread that is at its end has said so.
        told.unwrap_or_else(|| {
            Told::Failed(io::Error::other("the thread that reads ahead panicked"))
        })
    }

    /// The thread may fill this block again, or one in its place.
    pub(super) fn give_back(&self, block: Vec<u8>) {
        let block = if block.len() == LEAD + BLOCK { block } else { new_block() };
        if let Some((give_back, _)) = &self.ways {
            // If the thread has ended, what it said last is still to be heard.
            let _ = give_back.send(block);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.ways = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was heard of, or nobody wanted to know.
            let _ = thread.join();
        }
    }
}

fn new_block() -> Vec<u8> {
    vec![0; LEAD + BLOCK]
}

/// What the thread does.
fn read(source: &mut Source, blocks: &Receiver<Vec<u8>>, tell: &Sender<Told>) {
    while let Ok(mut block) = blocks.recv() {
        let told = match read_block(source, &mut block) {
            Ok(0) => Told::End,
            Ok(count) => Told::Bytes(block, LEAD + count),
            Err(error) => Told::Failed(error),
        };
        let goes_on = matches!(told, Told::Bytes(..));
        if tell.send(told).is_err() || !goes_on {
            return;
        }
    }
}

/// Reads into a block, as much as comes at once.
fn read_block(source: &mut Source, block: &mut [u8]) -> io::Result<usize> {
    let room = block.get_mut(LEAD..).unwrap_or_default();
    loop {
        match source.read(room) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map(|count| count.min(room.len())),
        }
    }
}
