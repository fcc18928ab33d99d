//! Compresses blocks on other threads, in parallel with the code that generates them; both take about the same time.
//!
//! ```text
//!  columns 0, 1, 2, ...  --0, 2, ...-->  thread fxtrec-pack-0 \
//!                        --1, 3, ...-->  thread fxtrec-pack-1 --> blocks 0, 1, 2, ...
//! ```
//!
//! The result does not depend on the number of threads.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle, available_parallelism};

use super::columns::{Column, pack};

/// The maximum number of threads: the code that generates the columns cannot keep more of them busy.
const MOST_LANES: usize = 4;

/// The maximum number of blocks that wait for a thread.
const WAITING: usize = 4;

/// An item for a block, with the block's number.
type Numbered<T> = (usize, T);

type Packed = Vec<Numbered<Vec<u8>>>;

#[derive(Debug)]
struct Lane {
    columns: SyncSender<Numbered<Vec<Column>>>,
    thread: JoinHandle<io::Result<Packed>>,
}

/// Compresses blocks in the order in which they arrive.
#[derive(Debug, Default)]
pub(super) struct Packer {
    lanes: Vec<Lane>,
    /// Whether all threads are started.
    complete: bool,
    /// Blocks that were packed on the calling thread because no thread could be started.
    here: Packed,
    taken: usize,
}

impl Packer {
    /// Takes the columns of the next block.
    ///
    /// # Errors
    ///
    /// The errors of the compressor. Errors of other threads are returned by [`finish`](Self::finish).
    pub(super) fn take(&mut self, columns: Vec<Column>) -> io::Result<()> {
        // Each of the first blocks starts a thread.
        if !self.complete {
            let most = available_parallelism().map_or(1, usize::from).min(MOST_LANES);
            self.lanes.extend(lane(self.lanes.len()));
            self.complete = self.lanes.len() != self.taken + 1 || self.lanes.len() == most;
        }
        let number = self.taken;
        self.taken += 1;
        match number.checked_rem(self.lanes.len()).and_then(|at| self.lanes.get(at)) {
            // A thread that no longer receives has failed; `finish` returns its error.
            Some(lane) => drop(lane.columns.send((number, columns))),
            None => self.here.push((number, pack(&columns)?)),
        }
        Ok(())
    }

    /// Waits for all blocks, and returns them in order.
    ///
    /// # Errors
    ///
    /// The errors of the compressor, which does not fail for output in memory.
    pub(super) fn finish(self) -> io::Result<Vec<Vec<u8>>> {
        let mut blocks = self.here;
        // Closes all channels before it waits for the first thread.
        let threads: Vec<_> = self.lanes.into_iter().map(|lane| lane.thread).collect();
        for thread in threads {
            let died = |_| Err(io::Error::other("a thread that packs has panicked"));
            blocks.extend(thread.join().unwrap_or_else(died)?);
        }
        blocks.sort_unstable_by_key(|(number, _)| *number);
        Ok(blocks.into_iter().map(|(_, block)| block).collect())
    }
}

/// Starts a thread that packs, if possible.
fn lane(number: usize) -> Option<Lane> {
    let (columns, to_pack) = sync_channel(WAITING);
    let name = format!("fxtrec-pack-{number}");
    let thread = Builder::new().name(name).spawn(move || pack_all(&to_pack)).ok()?;
    Some(Lane { columns, thread })
}

fn pack_all(to_pack: &Receiver<Numbered<Vec<Column>>>) -> io::Result<Packed> {
    to_pack.iter().map(|(number, columns)| Ok((number, pack(&columns)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(number: u64) -> Vec<Column> {
        let mut column = Column::default();
        (0..1000).for_each(|n| column.number(n * number));
        vec![column]
    }

    fn packed(packer: Packer, count: u64) {
        let mut packer = packer;
        (0..count).for_each(|number| packer.take(columns(number)).unwrap());
        let expected: Vec<_> = (0..count).map(|number| pack(&columns(number)).unwrap()).collect();
        assert_eq!(packer.finish().unwrap(), expected);
    }

    #[test]
    fn blocks_come_in_the_order_of_their_columns_with_any_number_of_threads() {
        for count in [0, 1, 2, 3, 40] {
            packed(Packer::default(), count);
            packed(Packer { complete: true, ..Packer::default() }, count);
            let lanes = (0..3).filter_map(lane).collect();
            packed(Packer { complete: true, lanes, ..Packer::default() }, count);
        }
    }
}
