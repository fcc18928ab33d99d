//! Names the functions that frames are in: during the recording, when a file is deleted, and when a file of the recording ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::collector::{Collector, KERNEL, LOOK, Placed};
use super::frames::{FileFrames, Frame};
use super::jit_code::MOST_MADE;
use super::message::Message;

/// How often to check for deleted files, the part of the time that the checks may take (one part in this number), and how long their
/// functions may be looked up.
pub(super) const DELETED: Duration = Duration::from_secs(1);
const DELETED_PART: u32 = 50;
const DELETED_NAMING: Duration = Duration::from_secs(1);

impl Collector {
    /// Sends the names of the functions that frames are in, for frames that were not looked up before: until all are sent, or the time has
    /// expired.
    pub(super) fn name_functions(&mut self, time: Option<Duration>) {
        let frames = self.frames.take_new(time.is_none());
        let left = self.name_each(frames, time.map(|time| Instant::now() + time), time.is_none());
        self.frames.put_back(left);
    }

    /// Names these frames, from the end of the list, until a deadline; returns the rest. `is_end` is set when a file ends.
    fn name_each(
        &mut self,
        mut frames: Vec<Frame>,
        until: Option<Instant>,
        is_end: bool,
    ) -> Vec<Frame> {
        while let Some((number, address, returned_to)) = frames.pop() {
            self.named.add(1);
            // The call is before its return address, which may belong to another function.
            let within = address.saturating_sub(u64::from(returned_to));
            let name = match number {
                KERNEL => {
                    self.kernel_frame(address);
                    if self.symbols.is_none() {
                        continue;
                    }
                    self.kernel().symbol(within).map(|(name, _)| name.into())
                }
                number if self.is_made(number, address) => {
                    // The program still adds to its map, which is long: it is read when the file ends.
                    if !is_end {
                        self.frames.later.push((number, address));
                        continue;
                    }
                    let needs_room = self.programs.get(&number).is_some_and(|it| it.made.is_new());
                    let room = if needs_room { self.room_for_made() } else { 0 };
                    let Some(program) = self.programs.get_mut(&number) else { continue };
                    let (files, pid) = (self.images.files(), program.pid);
                    let name = program.made.function(files, (pid, room), within).map(Arc::from);
                    let is_silent = program.made.is_silent();
                    self.counts.unanswered_addresses += u64::from(is_silent);
                    self.counts.unnamed_generated += u64::from(name.is_none() && !is_silent);
                    name
                }
                // Its symbols are read in pieces at that time. The case that it has no symbols is counted at that time.
                number if self.symbols.is_some() && self.waits_for_the_end(number, within) => {
                    self.frames.later.push((number, address));
                    continue;
                }
                number if self.symbols.is_some() => self.user_function(number, within),
                _ => None,
            };
            if let Some(name) = name {
                self.counts.symbols += 1;
                self.tell(Message::Symbol { program: number, address, name });
            }
            if until.is_some_and(|until| self.named.is_over(until)) {
                break;
            }
            if self.fetched.elapsed() >= LOOK {
                self.fetch();
            }
        }
        frames
    }

    /// Reports all remaining names when a file of the recording ends, until the time is up: those of a file of code together, regardless of
    /// the program, so that its symbols are read in pieces and not kept; the files with the most frames in stacks first.
    pub(super) fn name_rest(&mut self) {
        let until = Instant::now() + self.symbols.unwrap_or(super::NAMING);
        let mut of_files: FxHashMap<usize, FileFrames> = FxHashMap::default();
        let mut others = Vec::new();
        let mut unnamed = 0;
        let all = self.frames.take_new(true);
        self.named.begin(all.len());
        for (number, address, returned_to) in all {
            let within = address.saturating_sub(u64::from(returned_to));
            let is_of_file =
                self.symbols.is_some() && number != KERNEL && !self.is_made(number, address);
            match self.in_file(number, within).filter(|_| is_of_file) {
                Some((image, _)) if !self.images.has_symbols(image) => {
                    unnamed += 1;
                    self.frames.later.push((number, address));
                }
                Some((image, at)) => {
                    let times = self.frames.times(number, address);
                    of_files.entry(image).or_default().add(times, (at, number, address));
                }
                None => others.push((number, address, returned_to)),
            }
        }
        others.sort_by_cached_key(|(number, address, _)| self.frames.times(*number, *address));
        let left = self.name_each(others, Some(until), true);
        unnamed += left.len() as u64;
        self.frames.later.extend(left.into_iter().map(|(number, address, _)| (number, address)));
        unnamed += self.name_files(of_files, until);
        // The rest is tried again when the next file ends.
        self.counts.unnamed = self.frames.left_out + self.lost_names + unnamed;
    }

    /// Releases files that were deleted, after naming their functions that occurred so far.
    pub(super) fn let_deleted_go(&mut self) {
        let begun = Instant::now();
        if begun < self.deleted {
            return;
        }
        let deleted: FxHashSet<usize> = self.images.deleted().into_iter().collect();
        if !deleted.is_empty() && self.symbols.is_some() {
            let mut frames = std::mem::take(&mut self.frames);
            let mut of_files: FxHashMap<usize, FileFrames> = FxHashMap::default();
            let place = |(number, address, returned_to): Frame| {
                let within = address.saturating_sub(u64::from(returned_to));
                let in_file = self.in_file(number, within).filter(|_| number != KERNEL);
                in_file.filter(|(image, _)| deleted.contains(image))
            };
            for frame in frames.take_if(|frame| place(frame).is_some()) {
                if let Some((image, at)) = place(frame) {
                    let (number, address, _) = frame;
                    let times = frames.times(number, address);
                    of_files.entry(image).or_default().add(times, (at, number, address));
                }
            }
            self.frames = frames;
            // The rest is counted when a file of the recording ends.
            self.name_files(of_files, begun + DELETED_NAMING);
        }
        deleted.into_iter().for_each(|image| self.images.let_go(image));
        self.images.free_tables();
        self.deleted = Instant::now() + DELETED.max(begun.elapsed() * DELETED_PART);
    }

    /// Reports the names of functions in files until the time is up, starting with the files with the most frames in stacks. Returns how
    /// many names remain for the next call.
    fn name_files(&mut self, of_files: FxHashMap<usize, FileFrames>, until: Instant) -> u64 {
        let mut unnamed = 0;
        let mut of_files: Vec<_> = of_files.into_iter().collect();
        of_files.sort_unstable_by_key(|(image, it)| (std::cmp::Reverse(it.times), *image));
        for (image, FileFrames { mut frames, .. }) in of_files {
            frames.sort_unstable();
            let mut addresses: Vec<u64> = frames.iter().map(|(at, ..)| *at).collect();
            addresses.dedup();
            let mut names: FxHashMap<u64, Arc<str>> = FxHashMap::default();
            let take = |at, name: String| drop(names.insert(at, name.into()));
            let left = until.saturating_duration_since(Instant::now());
            let is_done =
                !self.named.is_over(until) && self.images.name_all(image, &addresses, left, take);
            self.named.add(frames.len());
            for (at, program, address) in frames {
                match names.get(&at).cloned() {
                    Some(name) => {
                        self.counts.symbols += 1;
                        self.tell(Message::Symbol { program, address, name });
                    }
                    None if !is_done => {
                        unnamed += 1;
                        self.frames.later.push((program, address));
                    }
                    None => {}
                }
            }
            if self.fetched.elapsed() >= LOOK {
                self.fetch();
            }
        }
        unnamed
    }

    fn is_made(&self, number: usize, address: u64) -> bool {
        self.programs.get(&number).is_some_and(|program| program.made.has(address))
    }

    /// How many more bytes names of just-in-time compiled functions may take.
    fn room_for_made(&self) -> usize {
        let taken: usize = self.programs.values().map(|program| program.made.bytes()).sum();
        MOST_MADE.saturating_sub(taken)
    }

    fn user_function(&mut self, number: usize, address: u64) -> Option<Arc<str>> {
        let (image, within) = self.in_file(number, address)?;
        self.images.function(image, within).map(Arc::from)
    }

    fn waits_for_the_end(&self, number: usize, address: u64) -> bool {
        let image = self.in_file(number, address);
        let images = &self.images;
        image.is_some_and(|(image, _)| images.has_many_symbols(image) || !images.has_symbols(image))
    }

    /// The file that contains a program's address, and the address in it.
    fn in_file(&self, number: usize, address: u64) -> Option<(usize, u64)> {
        let program = self.programs.get(&number)?;
        let Placed { mapping, image, .. } = program.places.at(address)?;
        Some(((*image)?, (address - mapping.start).wrapping_add(mapping.module_address)))
    }
}
