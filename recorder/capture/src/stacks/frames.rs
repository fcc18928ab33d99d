//! Frames of stacks whose functions have no names yet.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of distinct frames, over all programs, that get names. Further ones are only counted.
pub(super) const MOST_FRAMES: usize = 224 * 1024;

/// A program, an address in it, and whether the address is a return address.
pub(super) type Frame = (usize, u64, bool);

/// How a frame was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// If it was seen as both, the function is the same, except when a call is the last instruction of a function.
    returned_to: bool,
    /// The number of stacks that contain it.
    times: u32,
}

/// The frames of all stacks, each once.
#[derive(Debug, Default)]
pub(super) struct Frames {
    all: FxHashMap<(usize, u64), Seen>,
    /// Frames whose functions were not looked up yet.
    new: Vec<(usize, u64)>,
    /// Frames that get a name only when a file ends.
    pub(super) later: Vec<(usize, u64)>,
    /// The number of times that there was no space for a frame.
    pub(super) left_out: u64,
}

impl Frames {
    pub(super) fn note(&mut self, (program, frame, returned_to): Frame) {
        let is_full = !self.has_room();
        match self.all.entry((program, frame)) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.returned_to &= returned_to;
                known.times = known.times.saturating_add(1);
            }
            Entry::Vacant(_) if is_full => self.left_out += 1,
            Entry::Vacant(place) => {
                place.insert(Seen { returned_to, times: 1 });
                self.new.push((program, frame));
            }
        }
    }

    /// Whether there is room for more frames.
    pub(super) fn has_room(&self) -> bool {
        self.all.len() < MOST_FRAMES
    }

    /// Whether there will soon be no room.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.all.len() >= MOST_FRAMES / 4 * 3
    }

    pub(super) fn times(&self, program: usize, frame: u64) -> u64 {
        self.all.get(&(program, frame)).map_or(0, |seen| seen.times.into())
    }

    /// The new frames, to be taken from the end; at the end of a file, with the frames that wait for it.
    pub(super) fn take_new(&mut self, is_end: bool) -> Vec<Frame> {
        let mut new = std::mem::take(&mut self.new);
        if is_end {
            new.append(&mut self.later);
        }
        // Sorted so that frames of the same file are together.
        new.sort_unstable_by(|one, other| other.cmp(one));
        new.into_iter().filter_map(|key| self.frame(key)).collect()
    }

    /// Takes the frames without a name that `is_one` selects.
    pub(super) fn take_if(&mut self, is_one: impl Fn(Frame) -> bool) -> Vec<Frame> {
        let (mut new, mut later) = (std::mem::take(&mut self.new), std::mem::take(&mut self.later));
        let mut taken = Vec::new();
        for keys in [&mut new, &mut later] {
            keys.retain(|key| {
                // A frame that was dropped needs no name.
                let Some(frame) = self.frame(*key) else { return false };
                let is_one = is_one(frame);
                taken.extend(is_one.then_some(frame));
                !is_one
            });
        }
        (self.new, self.later) = (new, later);
        taken
    }

    fn frame(&self, key: (usize, u64)) -> Option<Frame> {
        Some((key.0, key.1, self.all.get(&key)?.returned_to))
    }

    pub(super) fn put_back(&mut self, frames: Vec<Frame>) {
        self.new.extend(frames.into_iter().map(|(program, frame, _)| (program, frame)));
    }

    pub(super) fn forget(&mut self, programs: &FxHashSet<usize>) {
        self.all.retain(|(program, _), _| !programs.contains(program));
        self.new.retain(|(program, _)| !programs.contains(program));
        self.later.retain(|(program, _)| !programs.contains(program));
    }
}

/// Frames in one file that have no name yet.
#[derive(Debug, Default)]
pub(super) struct FileFrames {
    /// How often they occur in stacks.
    pub(super) times: u64,
    /// Position in the file, program, and the address there.
    pub(super) frames: Vec<(u64, usize, u64)>,
}

impl FileFrames {
    pub(super) fn add(&mut self, times: u64, frame: (u64, usize, u64)) {
        self.times += times;
        self.frames.push(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_as_long_as_there_is_room_and_the_others_counted() {
        let mut frames = Frames::default();
        for frame in 0..MOST_FRAMES as u64 + 5 {
            frames.note((1, frame, true));
        }
        frames.note((1, 7, false));
        assert!(!frames.has_room() && frames.is_nearly_full());
        assert_eq!((frames.all.len(), frames.left_out), (MOST_FRAMES, 5));
        assert_eq!((frames.times(1, 7), frames.times(1, 8)), (2, 1));
        frames.later.push((2, 7));
        let taken = frames.take_if(|(program, frame, _)| program == 1 && frame == 7);
        assert_eq!(taken, [(1, 7, false)]);
        assert_eq!((frames.new.len(), frames.later.len()), (MOST_FRAMES - 1, 0));
        frames.forget(&FxHashSet::from_iter([1]));
        assert!(frames.has_room() && frames.take_new(true).is_empty());
    }
}
