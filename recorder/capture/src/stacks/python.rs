//! Python functions in stacks.
//!
//! CPython evaluates Python functions in its own function, `_PyEval_EvalFrameDefault`, so a native stack does not show which Python
//! functions run. The program that takes the stack also walks the interpreter's list of frames (`python.h`), in processes that are known to
//! have an interpreter. Here these code objects get names, and replace that function:
//!
//! ```text
//!   native           poll | select_poll_poll | _PyEval_EvalFrameDefault | ... | _PyEval_EvalFrameDefault   | ... | main
//!   interpreter                                wait <- handle           |       run <- <module>
//!   written          poll | select_poll_poll | wait (a.py:3) | handle (a.py:9) | ... | run (b.py:5) | <module> (b.py:8) | ... | main
//! ```
//!
//! Since CPython 3.11, one native call evaluates several functions; the frames show where the next call begins. If the two do not agree,
//! the Python functions come first, together, and the stack is marked.
//!
//! `fxtrec-files` reads names from the process's memory when a sample arrives, and checks them again in each round with a sample: a code
//! object may be freed, and another one may take its place. In a stack, a Python function and its line are represented by an address that
//! contains no code.

pub(super) mod layout;
mod lines;
pub(super) mod objects;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use fxtrec_kernel::bpf::stacks::{PythonEnd, PythonFrame, Sample, UserStack, Walked};
use fxtrec_kernel::code::ExecutableMapping;
use fxtrec_sched::backtrace::problem;
use fxtrec_units::Pid;

use super::collector::{Collector, mappings};
use super::files::Files;
use super::mapping_history::Change;
use super::message::Message;
use super::unwind::MOST;
use layout::{Interpreter, Layout, is_named_so};
use objects::{Found, Function};

/// The first address for Python functions, above all addresses of the kernel and of programs.
const FIRST: u64 = 1 << 62;

/// The maximum size of the functions of all programs, in bytes. Beyond that limit, all are read again.
pub(super) const MOST_BYTES: usize = 6 << 20;

/// The maximum number of programs whose memory is held open at the same time. Functions of other programs have no names.
const MOST_MEMORIES: usize = 256;

const UNREAD: &str = "[a Python function that could not be read]";
const MORE: &str = "[more Python functions]";

/// The known facts about a code object.
#[derive(Debug)]
struct Known {
    mark: u64,
    function: Option<Function>,
    /// The round in which it was checked.
    checked: u64,
}

/// The Python functions of a program.
#[derive(Debug)]
pub(super) struct Functions {
    interpreter: Arc<Interpreter>,
    layout: Layout,
    /// The offset of addresses of the interpreter's file.
    base: u64,
    mapping: ExecutableMapping,
    /// The memory that is held, with the token that counts it.
    memory: Option<(OwnedFd, Arc<()>)>,
    /// Whether the memory is inaccessible or did not respond.
    is_closed: bool,
    known: FxHashMap<u64, Known>,
    /// The addresses that represent functions in stacks.
    addresses: FxHashMap<Arc<str>, u64>,
}

/// The interpreters of all processes.
#[derive(Debug, Default)]
pub(super) struct Interpreters {
    /// The processes that the stack program walks, each with the address of `_PyRuntime`.
    walked: FxHashMap<Pid, (Arc<Interpreter>, u64)>,
    /// The number of addresses assigned to functions.
    given: u64,
    /// Memory of the functions, in bytes.
    bytes: usize,
    /// Counts the open descriptors of processes' memory: each has a clone of this.
    memories: Arc<()>,
}

impl Functions {
    /// Reads these code objects; returns by how many bytes the memory for functions has grown.
    fn read(
        &mut self,
        files: &mut Files,
        memories: &Arc<()>,
        (pid, wanted, round): (u32, &[u64], u64),
    ) -> usize {
        if self.memory.is_none() && !self.is_closed {
            let counted = memories.clone();
            // One clone is in `counted`, the other belongs to the collector.
            let has_room = Arc::strong_count(&counted) <= MOST_MEMORIES + 2;
            let opened = has_room.then(|| files.memory(pid, &self.mapping).ok().flatten());
            self.memory = opened.flatten().map(|memory| (memory, counted));
            self.is_closed = has_room && self.memory.is_none();
        }
        let Some((memory, _)) = &self.memory else { return 0 };
        let mark = |code| self.known.get(code).map_or(0, |known| known.mark);
        let codes: Vec<u64> = wanted.iter().flat_map(|code| [*code, mark(code)]).collect();
        let code_type = self.base.wrapping_add(self.interpreter.code_type);
        let Ok(found) = files.python(memory, (code_type, &self.layout.code), &codes) else {
            (self.memory, self.is_closed) = (None, true);
            return 0;
        };
        let mut added = 0;
        for (code, found) in wanted.iter().zip(found) {
            let known = self.known.entry(*code).or_insert_with(|| {
                added += size_of::<(u64, Known)>();
                Known { mark: 0, function: None, checked: round }
            });
            known.checked = round;
            match found {
                // After the process has ended, its last contents remain valid.
                Found::Same | Found::Gone => {}
                Found::Nothing => (known.mark, known.function) = (0, None),
                Found::New(mark, function) => {
                    added += function.bytes();
                    (known.mark, known.function) = (mark, Some(function));
                }
            }
        }
        added
    }

    /// The representation of a frame in a stack.
    fn text(&self, frame: PythonFrame) -> String {
        let known = self.known.get(&frame.code).and_then(|known| known.function.as_ref());
        let Some(function) = known else { return UNREAD.to_owned() };
        let Layout { minor, code, .. } = self.layout;
        let at = match minor {
            ..10 => frame.instruction & u64::from(u32::MAX),
            // A number of instructions.
            10 => (frame.instruction & u64::from(u32::MAX)) * 2,
            _ => frame.instruction.wrapping_sub(frame.code + code.instructions),
        };
        let line = lines::line(minor, function.first_line, &function.lines, at);
        let (name, file) = (&function.name, short(&function.file));
        match line {
            Some(line) => format!("{name} ({file}:{line})"),
            None => format!("{name} ({file})"),
        }
    }

    /// The frames of each evaluating native call, the innermost first.
    fn calls(&self, frames: &[PythonFrame]) -> Vec<Vec<PythonFrame>> {
        let mut calls = Vec::new();
        let mut call = Vec::new();
        for frame in frames {
            let is_mark = frame.is_entry || self.layout.is_one_each();
            if !is_mark || self.layout.marks_are_frames() {
                call.push(*frame);
            }
            if is_mark && !call.is_empty() {
                calls.push(std::mem::take(&mut call));
            }
        }
        calls.extend((!call.is_empty()).then_some(call));
        calls
    }

    /// Whether a native frame evaluates Python functions.
    fn evaluates(&self, frame: u64, returned_to: bool) -> bool {
        let (start, end) = self.interpreter.evaluates;
        let within = frame.wrapping_sub(u64::from(returned_to)).wrapping_sub(self.base);
        (start..end).contains(&within)
    }

    /// The code objects among these frames.
    fn codes<'a>(&self, frames: &'a [PythonFrame]) -> impl Iterator<Item = u64> + 'a {
        let skips_marks = !self.layout.marks_are_frames();
        frames.iter().filter(move |it| !(skips_marks && it.is_entry)).map(|it| it.code)
    }
}

/// The name of a file without directories, but with the last directory if the name alone says little, as in `json/__init__.py`.
fn short(path: &str) -> &str {
    let name = path.rfind('/').map_or(0, |at| at + 1);
    if !path[name..].starts_with("__") || name == 0 {
        return &path[name..];
    }
    &path[path[..name - 1].rfind('/').map_or(0, |at| at + 1)..]
}

/// Replaces each evaluating frame with the Python functions of its native call. `cut` says which of the two lists lacks its outer part.
/// `None` if they do not agree.
fn merged(
    native: &[u64],
    evaluates: impl Fn(usize) -> bool,
    calls: &[Vec<u64>],
    (native_is_cut, python_is_cut): (bool, bool),
) -> Option<Vec<u64>> {
    let places = (0..native.len()).filter(|at| evaluates(*at)).count();
    let agree = places == calls.len()
        || (native_is_cut && places < calls.len())
        || (python_is_cut && places > calls.len());
    if !agree {
        return None;
    }
    let (mut calls, mut both) = (calls.iter(), Vec::new());
    for (at, frame) in native.iter().enumerate() {
        match evaluates(at).then(|| calls.next()).flatten() {
            Some(call) => both.extend(call),
            None => both.push(*frame),
        }
    }
    both.extend(calls.flatten());
    Some(both)
}

impl Collector {
    /// Finds the interpreters of processes that exist already.
    pub(super) fn find_interpreters(&mut self) {
        if !self.rings.walks_python() {
            return;
        }
        self.lives.follow_pythons();
        let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = names.filter_map(|it| it.file_name().to_str()?.parse().ok());
        for pid in pids {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            if exe.is_ok_and(|exe| is_named_so(&exe)) {
                let found = mappings(&mut self.locked, Pid(pid));
                for mapping in found.iter().filter(|mapping| is_named_so(&mapping.path)) {
                    self.meet_python(Pid(pid), mapping);
                }
            }
        }
    }

    /// Follows the mappings of processes with interpreters.
    pub(super) fn follow_pythons(&mut self) {
        for (pid, change) in self.lives.take_changes() {
            match change {
                Change::Mapped(mapping) => self.meet_python(pid, &mapping),
                Change::BornOf(parent) => {
                    if let Some((interpreter, base)) = self.pythons.walked.get(&parent).cloned() {
                        self.tell_python(pid, interpreter, base);
                    }
                }
                Change::Over => {
                    if self.pythons.walked.remove(&pid).is_some() {
                        let _ = self.rings.set_python(pid, None);
                    }
                }
            }
        }
    }

    /// Requests that the Python functions of a process be walked if this mapping is of an interpreter.
    fn meet_python(&mut self, pid: Pid, mapping: &ExecutableMapping) {
        let Some(image) = self.images.of(pid.0, mapping) else { return };
        if let Some(interpreter) = self.images.python(image).cloned() {
            let base = mapping.start.wrapping_sub(self.images.address(image, mapping));
            self.tell_python(pid, interpreter, base);
        }
    }

    fn tell_python(&mut self, pid: Pid, interpreter: Arc<Interpreter>, base: u64) {
        let Some(Layout { walk, .. }) = interpreter.layout else { return };
        let is_known =
            |(it, at): &(Arc<Interpreter>, u64)| Arc::ptr_eq(it, &interpreter) && *at == base;
        if self.pythons.walked.get(&pid).is_some_and(is_known) {
            return;
        }
        let runtime = base.wrapping_add(interpreter.runtime);
        let key = if walk.key == 0 { 0 } else { runtime.wrapping_add(walk.key) };
        let main = runtime.wrapping_add(walk.interpreter);
        let walk = fxtrec_kernel::bpf::stacks::Python { interpreter: main, key, ..walk };
        if self.rings.set_python(pid, Some(&walk)).is_err() {
            // There is no room: when the end of other processes is noticed, some is freed, and this process will be seen again.
            for (pid, _) in self.pythons.walked.drain() {
                let _ = self.rings.set_python(pid, None);
            }
            let _ = self.rings.set_python(pid, Some(&walk));
        }
        self.pythons.walked.insert(pid, (interpreter, base));
    }

    /// Remembers that a program has this mapping, if it is of an interpreter.
    pub(super) fn note_python(&mut self, number: usize, pid: Pid, mapping: &ExecutableMapping) {
        if !self.rings.walks_python() {
            return;
        }
        self.meet_python(pid, mapping);
        let Some(image) = self.images.of(pid.0, mapping) else { return };
        let Some(interpreter) = self.images.python(image).cloned() else { return };
        let Some(program) = self.programs.get_mut(&number) else { return };
        let Some(layout) = interpreter.layout else {
            let is_new = !std::mem::replace(&mut program.python_is_unknown, true);
            self.counts.unknown_pythons += u64::from(is_new);
            return;
        };
        if program.python.is_none() {
            program.python = Some(Box::new(Functions {
                base: mapping.start.wrapping_sub(self.images.address(image, mapping)),
                interpreter,
                layout,
                mapping: mapping.clone(),
                memory: None,
                is_closed: false,
                known: FxHashMap::default(),
                addresses: FxHashMap::default(),
            }));
        }
    }

    /// Reads the names of the Python functions of a sample while they exist.
    pub(super) fn read_python(&mut self, number: usize, walked: &Walked) {
        if self.pythons.bytes > MOST_BYTES {
            self.pythons.bytes = 0;
            for python in self.programs.values_mut().filter_map(|it| it.python.as_mut()) {
                python.known = FxHashMap::default();
                python.addresses = FxHashMap::default();
            }
        }
        let Some(program) = self.programs.get_mut(&number) else { return };
        let (pid, Some(python)) = (program.pid, &mut program.python) else { return };
        let is_new =
            |code: &u64| python.known.get(code).is_none_or(|known| known.checked != self.looks);
        let mut wanted: Vec<u64> = python.codes(&walked.python).filter(is_new).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if !wanted.is_empty() {
            let (files, memories) = (self.images.files(), &self.pythons.memories);
            self.pythons.bytes += python.read(files, memories, (pid, &wanted, self.looks));
        }
    }

    /// The functions of a program, with Python functions in their places, and the missing parts.
    pub(super) fn with_python(
        &mut self,
        native: Vec<u64>,
        (problems, sample): (u32, &Sample),
    ) -> (Vec<u64>, u32) {
        let UserStack::Walked(walked) = &sample.user else { return (native, problems) };
        if walked.python_end == PythonEnd::None {
            return (native, problems);
        }
        let number = self.program(sample);
        let Some(mut python) = self.programs.get_mut(&number).and_then(|it| it.python.take())
        else {
            return (native, problems);
        };
        let both = self.mixed(number, &mut python, (native, problems), walked);
        self.programs.entry(number).or_default().python = Some(python);
        both
    }

    fn mixed(
        &mut self,
        number: usize,
        python: &mut Functions,
        (native, mut problems): (Vec<u64>, u32),
        walked: &Walked,
    ) -> (Vec<u64>, u32) {
        let is_cut = walked.python_end != PythonEnd::Whole;
        let calls = python.calls(&walked.python);
        let places: Vec<bool> =
            native.iter().enumerate().map(|(at, frame)| python.evaluates(*frame, at > 0)).collect();
        // A thread that does not run Python.
        if calls.is_empty() && !places.contains(&true) {
            return (native, problems);
        }
        let mut addresses: Vec<Vec<u64>> = Vec::new();
        for call in calls {
            let texts: Vec<String> = call.iter().map(|frame| python.text(*frame)).collect();
            let address = |text| self.python_address(number, python, text);
            addresses.push(texts.into_iter().map(address).collect());
        }
        if let (true, Some(last)) = (is_cut, addresses.last_mut()) {
            last.push(self.python_address(number, python, MORE.to_owned()));
        }
        let is_native_cut = problems & (problem::USER_CUT | problem::USER_TOO_DEEP) != 0;
        let merged = merged(&native, |at| places[at], &addresses, (is_native_cut, is_cut));
        if is_cut || merged.is_none() {
            problems |= problem::PYTHON;
        }
        let apart = || addresses.iter().flatten().chain(&native).copied().collect();
        let mut both = merged.unwrap_or_else(apart);
        if both.len() > MOST {
            both.truncate(MOST);
            problems |= problem::USER_TOO_DEEP;
        }
        (both, problems)
    }

    /// The address that represents a function and its line.
    fn python_address(&mut self, number: usize, python: &mut Functions, text: String) -> u64 {
        if let Some(address) = python.addresses.get(text.as_str()) {
            return *address;
        }
        let (address, name) = (FIRST + self.pythons.given, Arc::<str>::from(text));
        self.pythons.given += 1;
        self.pythons.bytes += size_of::<(Arc<str>, u64)>() + name.len();
        python.addresses.insert(name.clone(), address);
        self.counts.symbols += 1;
        self.tell(Message::Symbol { program: number, address, name });
        address
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn functions(minor: u8) -> Functions {
        let code = layout::CodeLayout {
            name: 0,
            file: 0,
            first_line: 0,
            lines: 0,
            instructions: 0x40,
            ascii: 0,
            compact: 0,
        };
        let layout = Layout { minor, walk: Default::default(), code };
        Functions {
            interpreter: Arc::new(Interpreter {
                runtime: 0,
                code_type: 0,
                evaluates: (0x100, 0x200),
                layout: Some(layout),
            }),
            layout,
            base: 0x1000,
            mapping: ExecutableMapping {
                start: 0,
                end: 1,
                flags: 5,
                offset: 0,
                file: None,
                path: PathBuf::new(),
            },
            memory: None,
            is_closed: true,
            known: FxHashMap::default(),
            addresses: FxHashMap::default(),
        }
    }

    fn frame(code: u64, is_entry: bool) -> PythonFrame {
        PythonFrame { code, instruction: 0, is_entry }
    }

    fn calls(minor: u8, frames: &[PythonFrame]) -> Vec<Vec<u64>> {
        let calls = functions(minor).calls(frames);
        calls.into_iter().map(|call| call.iter().map(|it| it.code).collect()).collect()
    }

    #[test]
    fn frames_are_divided_into_calls_as_each_version_marks_them() {
        let frames = [frame(1, false), frame(2, true), frame(3, true), frame(4, false)];
        assert_eq!(calls(9, &frames), [[1], [2], [3], [4]]);
        assert_eq!(calls(11, &frames), [vec![1, 2], vec![3], vec![4]]);
        assert_eq!(calls(12, &frames), [[1], [4]]);
        assert_eq!(calls(13, &[]), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn python_functions_take_the_places_of_the_native_ones_or_none_does() {
        const E: u64 = 7;
        let native = [1, E, 2, E, 3];
        let evaluates = |at: usize| native[at] == E;
        let merged = |calls: &[Vec<u64>], cut| merged(&native, evaluates, calls, cut);
        let (whole, both) = ((false, false), Some(vec![1, 10, 11, 2, 12, 3]));
        assert_eq!(merged(&[vec![10, 11], vec![12]], whole), both);
        assert_eq!(merged(&[vec![10, 11]], whole), None, "one is missing");
        assert_eq!(merged(&[vec![10], vec![11], vec![12]], whole), None, "one is too many");
        // A list without its outer part agrees if the existing part does.
        let of_cut = merged(&[vec![10], vec![11], vec![12, 13]], (true, false));
        assert_eq!(of_cut, Some(vec![1, 10, 2, 11, 3, 12, 13]));
        assert_eq!(merged(&[vec![10]], (true, false)), None);
        assert_eq!(merged(&[vec![10]], (false, true)), Some(vec![1, 10, 2, E, 3]));
        assert_eq!(merged(&[vec![10], vec![11], vec![12]], (false, true)), None);
    }

    #[test]
    fn a_function_stands_with_its_file_and_line_and_an_unread_one_says_so() {
        let mut python = functions(9);
        assert_eq!(python.text(frame(0x500, false)), UNREAD);
        let function = Function {
            name: "match".to_owned(),
            file: "/usr/lib/python3.9/re/__init__.py".to_owned(),
            first_line: 160,
            lines: vec![4, 6],
        };
        let known = Known { mark: 1, function: Some(function), checked: 0 };
        python.known.insert(0x500, known);
        let at = |instruction| PythonFrame { code: 0x500, instruction, is_entry: false };
        assert_eq!(python.text(at(2)), "match (re/__init__.py:160)");
        // An `int` in memory: bytes after it do not count.
        assert_eq!(python.text(at(4 | 9 << 32)), "match (re/__init__.py:166)");
        python.layout.minor = 11;
        assert_eq!(python.text(at(0x10)), "match (re/__init__.py)", "outside of its instructions");
        for (path, name) in [
            ("/a/b/re.py", "re.py"),
            ("__main__.py", "__main__.py"),
            ("/__main__.py", "/__main__.py"),
            ("<string>", "<string>"),
            ("", ""),
        ] {
            assert_eq!(short(path), name);
        }
    }

    #[test]
    fn native_functions_that_evaluate_are_known_by_their_addresses() {
        let python = functions(12);
        assert!(python.evaluates(0x1100, false) && python.evaluates(0x11ff, false));
        assert!(!python.evaluates(0x1200, false) && python.evaluates(0x1200, true));
        assert!(!python.evaluates(0x100, false) && !python.evaluates(0x1100, true));
    }
}
