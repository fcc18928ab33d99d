//! The stacks of the page: each function, each caller and each stack is stored once.
//!
//! ```text
//!   names   main, lock, futex_wait      files   the kernel's, app, libc.so.6
//!   frames  a name and a file each
//!   nodes   1: main    2: lock, called by 1    3: futex_wait, called by 2
//!   stacks  a node and what the stack lacks
//! ```

use fxt_reader::{Koid, ProviderId};
use rustc_hash::FxHashMap;

use super::columns::Column;
use super::numbered::{Numbered, bytes_of, clean};
use crate::stacks::{Recorded, Stack};

/// The file number of a frame without a file, and that of the kernel.
const NO_FILE: u32 = 0;
const KERNEL: u32 = 1;

/// The size of one more entry of each table in the page, in bytes, compressed and as text.
const NODE_BYTES: u64 = 4;
const FRAME_BYTES: u64 = 4;
const STACK_BYTES: u64 = 4;

/// The common data of stacks with equal frames.
type Same = (Option<ProviderId>, Koid, Option<u16>, *const u64);

/// The stacks in the page.
#[derive(Debug)]
pub(super) struct Frames {
    names: Numbered<String>,
    files: Numbered<String>,
    /// A name and a file.
    frames: Numbered<(u32, u32)>,
    /// The caller's node, 0 for none, and a frame.
    nodes: Numbered<(u32, u32)>,
    /// The node of the innermost function, 0 for none, and what is missing.
    stacks: Numbered<(u32, u32)>,
    /// Nodes of earlier stacks with the same frames.
    nodes_of: FxHashMap<Same, u32>,
    bytes: u64,
}

/// The lengths of all tables at some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark([usize; 5], u64);

impl Default for Frames {
    fn default() -> Self {
        Self {
            names: Numbered::default(),
            files: Numbered::from(KERNEL + 1),
            frames: Numbered::default(),
            nodes: Numbered::from(1),
            stacks: Numbered::default(),
            nodes_of: FxHashMap::default(),
            bytes: 0,
        }
    }
}

impl Frames {
    /// The number of a stack of `recorded`.
    pub(super) fn number(&mut self, recorded: &Recorded, stack: &Stack) -> u32 {
        // Stacks with equal addresses share them.
        let (provider, process, module, addresses) = recorded.place(stack);
        let same = (provider, process, module, addresses.as_ptr());
        let node = match self.nodes_of.get(&same) {
            Some(node) => *node,
            None => {
                let node = self.node(recorded, stack);
                self.nodes_of.insert(same, node);
                node
            }
        };
        let (number, is_new) = self.stacks.number((node, stack.problems));
        self.bytes += u64::from(is_new) * STACK_BYTES;
        number
    }

    fn node(&mut self, recorded: &Recorded, stack: &Stack) -> u32 {
        let mut node = 0;
        for frame in recorded.frames(stack).rev() {
            let file = match frame.file() {
                _ if frame.in_kernel => KERNEL,
                Some((file, _)) => self.text(|it| &mut it.files, file),
                None => NO_FILE,
            };
            let name = self.text(|it| &mut it.names, &frame.label());
            let (frame, is_new) = self.frames.number((name, file));
            self.bytes += u64::from(is_new) * FRAME_BYTES;
            let (inner, is_new) = self.nodes.number((node, frame));
            self.bytes += u64::from(is_new) * NODE_BYTES;
            node = inner;
        }
        node
    }

    /// The number of a string, from which separators are removed.
    fn text(&mut self, of: fn(&mut Self) -> &mut Numbered<String>, text: &str) -> u32 {
        let text = clean(text);
        let bytes = bytes_of(&text);
        let (number, is_new) = of(self).number(text);
        self.bytes += u64::from(is_new) * bytes;
        number
    }

    /// The approximate size of all tables in the page, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn mark(&self) -> Mark {
        let lengths = [
            self.names.all.len(),
            self.files.all.len(),
            self.frames.all.len(),
            self.nodes.all.len(),
            self.stacks.all.len(),
        ];
        Mark(lengths, self.bytes)
    }

    /// Removes everything that was added since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        let Mark([names, files, frames, nodes, stacks], bytes) = mark;
        self.names.truncate(names);
        self.files.truncate(files);
        self.frames.truncate(frames);
        self.nodes.truncate(nodes);
        self.stacks.truncate(stacks);
        self.nodes_of.clear();
        self.bytes = bytes;
    }

    /// Names and files as text separated by zero bytes; then frames, nodes and stacks.
    pub(super) fn columns(&self) -> Vec<Column> {
        let mut columns: [Column; 8] = Default::default();
        let [names, files, frame_names, frame_files, callers, frames, nodes, problems] =
            &mut columns;
        names.texts(&self.names.all);
        files.texts(&self.files.all);
        for (name, file) in &self.frames.all {
            frame_names.number((*name).into());
            frame_files.number((*file).into());
        }
        for ((caller, frame), number) in self.nodes.all.iter().zip(1_u32..) {
            callers.number((number - caller).into());
            frames.number((*frame).into());
        }
        for (node, lacks) in &self.stacks.all {
            nodes.number((*node).into());
            problems.number((*lacks).into());
        }
        columns.into()
    }
}
