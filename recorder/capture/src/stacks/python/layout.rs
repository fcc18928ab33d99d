//! Python interpreters in files, and the offsets that a walk needs in each version of CPython.
//!
//! CPython 3.13 and later describe themselves: `_PyRuntime` begins with a table of offsets (`_Py_DebugOffsets`). For earlier versions, the
//! offsets are those of a build for 64-bit Linux, according to its headers (`offsetof`); they are the same in all releases of a version.

use std::path::Path;

use fxtrec_kernel::bpf::stacks::Python as Walk;
use fxtrec_probe::elf::{Elf, ReadRef};

use super::super::wire::{Packed, Words};

/// An interpreter in a file. Addresses are the file's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Interpreter {
    /// `_PyRuntime`, from which all states are found.
    pub(in super::super) runtime: u64,
    /// `PyCode_Type`, which code objects point to.
    pub(in super::super) code_type: u64,
    /// The beginning and the end of `_PyEval_EvalFrameDefault`, which evaluates Python functions.
    pub(in super::super) evaluates: (u64, u64),
    /// `None` for an unknown version.
    pub(in super::super) layout: Option<Layout>,
}

/// The offsets of fields in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Layout {
    /// The version is 3 followed by this.
    pub(in super::super) minor: u8,
    /// For the walk, with addresses relative to `_PyRuntime`; no key is at address 0.
    pub(in super::super) walk: Walk,
    pub(in super::super) code: CodeLayout,
}

/// Where it has the parts of code objects and of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct CodeLayout {
    /// `co_qualname`, or `co_name` in versions without it.
    pub(in super::super) name: u64,
    pub(in super::super) file: u64,
    pub(in super::super) first_line: u64,
    /// `co_linetable` or `co_lnotab`.
    pub(in super::super) lines: u64,
    /// Where the instructions are in the code object; 0 if they are in another.
    pub(in super::super) instructions: u64,
    /// The sizes of the headers of strings: of ASCII strings, and of others.
    pub(in super::super) ascii: u64,
    pub(in super::super) compact: u64,
}

/// The first version whose frames are not objects, and the first in which a separate frame marks where a C function's frames begin.
const INNER_FRAMES: u8 = 11;
const SHIMS: u8 = 12;

/// The maximum number of bytes of the table of offsets that are used.
const TABLE_BYTES: u64 = 50 * 8;

/// Larger offsets are treated as damage.
const FAR: u64 = 1 << 20;

impl Interpreter {
    /// The interpreter in a file, if there is one.
    pub(in super::super) fn of<'d, R: ReadRef<'d>>(
        elf: &Elf<'d, R>,
        path: &Path,
    ) -> Option<Interpreter> {
        let wanted = ["_PyRuntime", "PyCode_Type", "_PyEval_EvalFrameDefault", "Py_Version"];
        let [Some((runtime, _)), Some((code_type, _)), Some((start, bytes)), version] =
            elf.exported(wanted)
        else {
            return None;
        };
        let version = version.and_then(|(at, _)| {
            let bytes = elf.mapped(at, 8)?.first_chunk()?;
            u32::try_from(u64::from_le_bytes(*bytes)).ok()
        });
        let name = || path.file_name()?.to_str().and_then(minor_of_name);
        let minor = match version {
            Some(version) => (version >> 24 == 3).then_some((version >> 16) as u8),
            None => name(),
        };
        let layout = minor.and_then(|minor| match minor {
            13.. => described(minor, elf.mapped(runtime, TABLE_BYTES)?),
            _ => Layout::of(minor),
        });
        Some(Interpreter {
            runtime,
            code_type,
            evaluates: (start, start.checked_add(bytes)?),
            layout,
        })
    }

    pub(in super::super) fn pack(&self, to: &mut Packed) {
        let (start, end) = self.evaluates;
        to.number(self.runtime).number(self.code_type).number(start).number(end);
        let Some(Layout { minor, walk, code }) = self.layout else {
            to.number(0);
            return;
        };
        to.number(minor.into());
        for number in walk.words() {
            to.number(number);
        }
        code.pack(to);
    }

    pub(in super::super) fn read(from: &mut Words<'_>) -> Option<Interpreter> {
        let (runtime, code_type) = (from.number()?, from.number()?);
        let evaluates = (from.number()?, from.number()?);
        let mut layout = None;
        if let minor @ 1.. = u8::try_from(from.number()?).ok()? {
            let mut words = [0; Walk::WORDS];
            for word in &mut words {
                *word = from.number()?;
            }
            layout =
                Some(Layout { minor, walk: Walk::of_words(words), code: CodeLayout::read(from)? });
        }
        Some(Interpreter { runtime, code_type, evaluates, layout })
    }
}

impl CodeLayout {
    pub(in super::super) fn pack(&self, to: &mut Packed) {
        let CodeLayout { name, file, first_line, lines, instructions, ascii, compact } = *self;
        for number in [name, file, first_line, lines, instructions, ascii, compact] {
            to.number(number);
        }
    }

    pub(in super::super) fn read(from: &mut Words<'_>) -> Option<CodeLayout> {
        Some(CodeLayout {
            name: from.number()?,
            file: from.number()?,
            first_line: from.number()?,
            lines: from.number()?,
            instructions: from.number()?,
            ascii: from.number()?,
            compact: from.number()?,
        })
    }
}

impl Layout {
    /// Whether each C function that evaluates runs one Python function.
    pub(in super::super) fn is_one_each(&self) -> bool {
        self.minor < INNER_FRAMES
    }

    /// Whether a frame that marks where a C function's frames begin also belongs to a Python function.
    pub(in super::super) fn marks_are_frames(&self) -> bool {
        self.minor < SHIMS
    }

    /// By the headers of this version.
    fn of(minor: u8) -> Option<Layout> {
        // PyFrameObject: f_back, f_code; PyThreadState: next, thread_id, frame; PyInterpreterState: tstate_head.
        let with_objects = |key, instruction| Walk {
            interpreter: 40,
            key,
            threads: 8,
            next_thread: 8,
            thread_id: 176,
            thread_frame: 24,
            inner_frame: 0,
            frame_bytes: instruction + 8,
            previous: 24,
            code: 32,
            instruction,
            entry: 0,
            least_entry: 256,
        };
        let walk = match minor {
            8 => with_objects(1392, 104),
            9 => with_objects(584, 104),
            10 => with_objects(584, 96),
            // PyThreadState.cframe leads to _PyCFrame.current_frame; _PyInterpreterFrame has is_entry.
            11 => Walk {
                interpreter: 48,
                key: 592,
                threads: 16,
                next_thread: 8,
                thread_id: 152,
                thread_frame: 56,
                inner_frame: 8 + 1,
                frame_bytes: 72,
                previous: 48,
                code: 32,
                instruction: 56,
                entry: 68,
                least_entry: 1,
            },
            // _PyInterpreterFrame.owner is FRAME_OWNED_BY_CSTACK in frames that are not Python's.
            12 => Walk {
                interpreter: 48,
                key: 1544,
                threads: 72,
                next_thread: 8,
                thread_id: 136,
                thread_frame: 56,
                inner_frame: 1,
                frame_bytes: 72,
                previous: 8,
                code: 0,
                instruction: 56,
                entry: 70,
                least_entry: OWNED_BY_C,
            },
            _ => return None,
        };
        let code = match minor {
            8..=10 => CodeLayout {
                name: 112,
                file: 104,
                first_line: 40,
                lines: 120,
                instructions: 0,
                ascii: 48,
                compact: 72,
            },
            11 => CodeLayout {
                name: 128,
                file: 112,
                first_line: 72,
                lines: 136,
                instructions: 184,
                ascii: 48,
                compact: 72,
            },
            _ => CodeLayout {
                name: 128,
                file: 112,
                first_line: 68,
                lines: 136,
                instructions: 192,
                ascii: 40,
                compact: 56,
            },
        };
        Some(Layout { minor, walk, code })
    }
}

/// The least `_PyInterpreterFrame.owner` of frames that do not belong to Python functions: `FRAME_OWNED_BY_CSTACK`, since 3.14
/// `FRAME_OWNED_BY_INTERPRETER`.
const OWNED_BY_C: u64 = 3;

/// The offset of `autoTSSkey` in `_PyRuntime` of 3.13, which its table does not contain. The results of the walk are checked.
const KEY_OF_13: u64 = 2160;

/// By the table of offsets at the beginning of `_PyRuntime`. Versions have added to its parts.
fn described(minor: u8, table: &[u8]) -> Option<Layout> {
    let (of_interpreter, of_frame) = match minor {
        13 => (13, 6),
        14 => (16, 8),
        _ => return None,
    };
    if !table.starts_with(b"xdebugpy") {
        return None;
    }
    let words: Vec<u64> =
        table.as_chunks().0.iter().map(|word: &[u8; 8]| u64::from_le_bytes(*word)).collect();
    let word = |at: usize| words.get(at).copied();
    let near = |at: usize| word(at).filter(|offset| *offset < FAR);
    // Without a global lock, objects have a different header, and threads have separate instructions.
    let (version, is_free_threaded) = (word(1)?, word(2)? != 0);
    if version >> 16 != u64::from(3_u16 << 8 | u16::from(minor)) || is_free_threaded {
        return None;
    }
    let interpreter = 6;
    let thread = interpreter + of_interpreter;
    let frame = thread + 9;
    let code = frame + of_frame;
    let (entry, instruction) = (near(frame + 5)?, near(frame + 3)?);
    // The rest of a frame is the interpreter's working data.
    let frame_bytes = near(frame + 4)?;
    let last = [near(frame + 1)?, near(frame + 2)?, instruction].into_iter().max()?;
    if !(8..120).contains(&frame_bytes) || last + 8 > frame_bytes || entry >= frame_bytes {
        return None;
    }
    Some(Layout {
        minor,
        walk: Walk {
            // `interpreters.main` follows `interpreters.head`.
            interpreter: near(5)? + 8,
            key: if minor == 13 { KEY_OF_13 } else { 0 },
            threads: near(interpreter + 3)?,
            next_thread: near(thread + 2)?,
            thread_id: near(thread + 5)?,
            thread_frame: near(thread + 4)?,
            inner_frame: 0,
            frame_bytes,
            previous: near(frame + 1)?,
            code: near(frame + 2)?,
            instruction,
            entry,
            least_entry: OWNED_BY_C,
        },
        code: CodeLayout {
            name: near(code + 3)?,
            file: near(code + 1)?,
            first_line: near(code + 5)?,
            lines: near(code + 4)?,
            instructions: near(code + 9)?,
            ascii: 40,
            compact: 56,
        },
    })
}

/// The version in the name of an interpreter's file, like `python3.9` and `libpython3.8.so.1.0`.
fn minor_of_name(name: &str) -> Option<u8> {
    let (_, version) = name.split_once("python3.")?;
    let end = version.find(|it: char| !it.is_ascii_digit()).unwrap_or(version.len());
    version[..end].parse().ok()
}

/// Whether a file's name is that of an interpreter: such a file is examined before a stack contains it.
pub(in super::super) fn is_named_so(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("python") || name.starts_with("libpython")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_distinguished_from_names() {
        for (name, minor) in [
            ("python3.9", Some(9)),
            ("libpython3.10.so.1.0", Some(10)),
            ("libpython3.8m.so", Some(8)),
            ("python3", None),
            ("python2.7", None),
            ("python3.999", None),
        ] {
            assert_eq!(minor_of_name(name), minor, "{name}");
        }
        assert!(is_named_so(Path::new("/usr/lib/libpython3.11.so.1.0")));
        assert!(!is_named_so(Path::new("/usr/lib/python3/dist-packages/_cffi.so")));
    }

    /// A table of 3.13 with the offsets that its headers give.
    fn table() -> Vec<u64> {
        let mut words = vec![u64::from_le_bytes(*b"xdebugpy"), 0x030d_00f0, 0];
        words.extend([1000, 900, 632]);
        words.extend([200_000, 7240, 7264, 7344, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        words.extend([304, 0, 8, 16, 72, 152, 160, 200, 32]);
        words.extend([80, 8, 0, 56, 72, 70]);
        words.extend([208, 112, 120, 128, 136, 68, 52, 96, 104, 200]);
        words
    }

    fn layout(minor: u8, words: &[u64]) -> Option<Layout> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        described(minor, &bytes)
    }

    #[test]
    fn a_table_of_offsets_is_read_and_an_implausible_one_is_none() {
        let found = layout(13, &table()).expect("a table");
        let walk = found.walk;
        assert_eq!((walk.interpreter, walk.threads, walk.thread_id), (640, 7344, 152));
        assert_eq!((walk.previous, walk.instruction, walk.entry), (8, 56, 70));
        assert_eq!((found.code.name, found.code.lines, found.code.instructions), (128, 136, 200));
        let mut longer = table();
        longer[1] = 0x030e_00f0;
        longer.splice(6 + 13..6 + 13, [1; 3]);
        longer.splice(6 + 16 + 9 + 6..6 + 16 + 9 + 6, [64, 0]);
        let later = layout(14, &longer).expect("a table");
        assert_eq!((later.walk.thread_frame, later.code), (72, found.code));
        for (at, value) in [(0, 1), (1, 0x030c_00f0), (2, 1), (5, u64::MAX), (32, 4000), (33, 72)] {
            let mut words = table();
            words[at] = value;
            assert_eq!(layout(13, &words), None, "{at}");
        }
        assert_eq!(layout(13, &table()[..40]), None);
        assert_eq!(layout(15, &table()), None);
    }

    #[test]
    fn an_interpreter_passes_the_boundary_between_processes_unchanged() {
        for layout in [Layout::of(8), Layout::of(11), Layout::of(12), Layout::of(7)] {
            let it = Interpreter { runtime: 1, code_type: 2, evaluates: (3, 4), layout };
            let mut packed = Packed::default();
            it.pack(&mut packed);
            assert_eq!(Interpreter::read(&mut Words::of(packed.bytes())), Some(it));
        }
    }
}
