//! User probes that are defined in tracefs, because the kernel fetches arguments for them.
//!
//! A definition outlives its process. So each is in a group whose name contains the owner's process id and start time, and a guard removes
//! it. If a recorder was killed before it could do so, the next recorder does ([`sweep`]), and so does doctor. A definition in use cannot
//! be removed, so a recorder that is not visible, in another pid namespace, keeps its own.

use std::io;
use std::path::PathBuf;

use super::ProbeSite;
use crate::format::Format;
use crate::ftrace::owner::Owner;
use crate::sys::Sys;
use crate::tracefs::{Tracefs, TracefsError};

const PREFIX: &str = "fxtrec_";

/// An argument that the kernel fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Its name: a letter or underscore, then letters, digits and underscores.
    pub name: String,
    /// How to fetch it, in the kernel's syntax: `%di:u32`, `+0(%si):string`.
    pub how: String,
}

/// The reason why a definition could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// The kernel has no such file.
    #[error(
        "this kernel has no user probes with arguments ({} does not exist): it is built without \
         CONFIG_UPROBE_EVENTS; probes without arguments may work",
        path.display()
    )]
    Absent { path: PathBuf },
    #[error("the kernel refused the probe definition `{line}`: {reason}")]
    Refused { line: String, reason: String },
    /// The definition cannot be found or read afterwards.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
}

/// The definitions of this process. Dropping it removes them, and must happen after their events were closed.
#[derive(Debug)]
#[must_use]
pub struct Definitions {
    sys: Box<dyn Sys + Send>,
    tracefs: Tracefs,
    group: String,
    names: Vec<String>,
}

/// A defined event.
#[derive(Clone, Debug)]
pub struct Defined {
    /// Its name in the group of this process.
    pub name: String,
    /// How its samples are laid out.
    pub format: Format,
}

fn letter(place: &ProbeSite) -> char {
    if place.on_return { 'r' } else { 'p' }
}

fn file(tracefs: &Tracefs) -> PathBuf {
    tracefs.path().join("uprobe_events")
}

impl Definitions {
    pub fn new(sys: Box<dyn Sys + Send>, tracefs: Tracefs) -> Definitions {
        let owner = Owner::current(&*sys);
        let group = format!("{PREFIX}{}_{}", owner.pid(), owner.start());
        Definitions { sys, tracefs, group, names: Vec::new() }
    }

    /// Defines an event of one location, and returns the layout of its samples.
    ///
    /// # Errors
    /// Returns [`DefinitionError`].
    pub fn add(&mut self, place: &ProbeSite, args: &[Fetch]) -> Result<Defined, DefinitionError> {
        let name = format!("{}{}", letter(place), self.names.len());
        self.define(&name, place, args)?;
        self.names.push(name.clone());
        let format = self.tracefs.event_format(&*self.sys, &self.group, &name)?;
        Ok(Defined { name, format })
    }

    /// Adds another location to a defined event, of the same kind and with arguments of the same names and types. Kernels before 5.4 refuse
    /// that.
    ///
    /// # Errors
    /// Returns [`DefinitionError`].
    pub fn extend(
        &mut self,
        event: &str,
        place: &ProbeSite,
        args: &[Fetch],
    ) -> Result<(), DefinitionError> {
        self.define(event, place, args)
    }

    fn define(&self, name: &str, place: &ProbeSite, args: &[Fetch]) -> Result<(), DefinitionError> {
        let (kind, path) = (letter(place), place.binary.path());
        let mut line =
            format!("{kind}:{}/{name} {}:{:#x}", self.group, path.display(), place.offset);
        if let Some(semaphore) = place.semaphore {
            line.push_str(&format!("({semaphore:#x})"));
        }
        for arg in args {
            line.push_str(&format!(" {}={}", arg.name, arg.how));
        }
        self.write(&line)
    }

    fn write(&self, line: &str) -> Result<(), DefinitionError> {
        let path = file(&self.tracefs);
        let Err(error) = self.sys.append(&path, line) else { return Ok(()) };
        if error.kind() == io::ErrorKind::NotFound {
            return Err(DefinitionError::Absent { path });
        }
        let reason = self.complaint().unwrap_or_else(|| error.to_string());
        Err(DefinitionError::Refused { line: line.to_owned(), reason })
    }

    /// The kernel's error message about the last refused line of this process.
    fn complaint(&self) -> Option<String> {
        let log = self.sys.read(&self.tracefs.path().join("error_log")).ok()?;
        complaint_about(&String::from_utf8_lossy(&log), &self.group)
    }
}

/// The last complaint in the kernel's log about a command that contains `word`.
///
/// ```text
/// [  123.456] trace_uprobe: error: Unknown register name
///   Command: p:group/p0 /proc/self/fd/5:0x10 a=%zz:u32
///                                              ^
/// ```
fn complaint_about(log: &str, word: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let at = lines.iter().rposition(|line| line.contains("Command:") && line.contains(word))?;
    let (_, text) = lines[at.checked_sub(1)?].split_once("error: ")?;
    Some(text.trim().to_owned())
}

impl Drop for Definitions {
    fn drop(&mut self) {
        for name in &self.names {
            // If one remains, the next recorder removes it.
            let _ = self.sys.append(&file(&self.tracefs), &format!("-:{}/{name}", self.group));
        }
    }
}

/// Removes the definitions of recorders that no longer exist, and returns how many there were.
///
/// # Errors
/// Errors of reading the list of definitions. A definition that cannot be removed is in use, and stays.
pub fn sweep(sys: &dyn Sys, tracefs: &Tracefs) -> io::Result<usize> {
    let path = file(tracefs);
    let list = match sys.read(&path) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let list = String::from_utf8_lossy(&list).into_owned();
    let stale = list.lines().filter_map(event_of).filter(|event| is_stale(sys, event));
    Ok(stale.filter(|event| sys.append(&path, &format!("-:{event}")).is_ok()).count())
}

/// `GROUP/NAME` of a line `p:GROUP/NAME PATH:OFFSET ...` of the list.
fn event_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    rest.split_whitespace().next()
}

fn is_stale(sys: &dyn Sys, event: &str) -> bool {
    owner_of(event).is_some_and(|owner| !owner.is_alive(sys))
}

/// The recorder that an event `GROUP/NAME` belongs to; `None` if it belongs to none.
fn owner_of(event: &str) -> Option<Owner> {
    let (group, _) = event.split_once('/')?;
    let (pid, start) = group.strip_prefix(PREFIX)?.split_once('_')?;
    Some(Owner::new(pid.parse().ok()?, start.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::fake::Fake;
    use crate::uprobe::Binary;

    const EVENTS: &str = "/sys/kernel/tracing/uprobe_events";
    const STAT: &str = "(a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";

    fn stat(pid: &str) -> String {
        format!("{pid} {STAT}")
    }

    fn machine() -> (Fake, Tracefs) {
        let sys = Fake::default()
            .refuse("/sys/kernel/tracing/events", libc::EISDIR)
            .file(&format!("/proc/{}/stat", std::process::id()), &stat("1"))
            .file(EVENTS, "");
        let tracefs = Tracefs::find(&sys).expect("mounted");
        (sys, tracefs)
    }

    fn place() -> ProbeSite {
        let binary = Binary::new(File::open("/dev/null").expect("there is one"));
        ProbeSite { binary, offset: 0x1139, on_return: false, semaphore: Some(0x4010) }
    }

    fn group() -> String {
        format!("fxtrec_{}_777", std::process::id())
    }

    #[test]
    fn a_definition_names_its_owner_and_is_taken_back() {
        let (sys, tracefs) = machine();
        let format = format!("/sys/kernel/tracing/events/{}/p0/format", group());
        sys.write(&format, "name: p0\nID: 2326\nformat:\n\nprint fmt: \"\"\n");
        let mut definitions = Definitions::new(Box::new(sys.clone()), tracefs);
        let args = [Fetch { name: "n".into(), how: "%di:s32".into() }];
        let place = place();
        let defined = definitions.add(&place, &args).expect("nothing is refused");
        assert_eq!((defined.format.id, defined.name.as_str()), (2326, "p0"));
        let second = ProbeSite { offset: 0x1200, semaphore: None, ..place.clone() };
        definitions.extend(&defined.name, &second, &args).expect("nothing is refused");
        drop(definitions);
        let path = place.binary.path();
        assert_eq!(
            sys.appended(),
            [
                format!("p:{}/p0 {}:0x1139(0x4010) n=%di:s32", group(), path.display()),
                format!("p:{}/p0 {}:0x1200 n=%di:s32", group(), path.display()),
                format!("-:{}/p0", group()),
            ]
        );
    }

    #[test]
    fn a_refused_definition_says_why_in_the_kernels_words() {
        let (sys, tracefs) = machine();
        let log = format!(
            "[ 1.0] trace_uprobe: error: Other\n  Command: p:g/p0 x\n  ^\n\
             [ 2.0] trace_uprobe: error: Unknown register name\n  Command: p:{}/p0 x a=%zz\n  ^\n",
            group()
        );
        let sys = sys.file("/sys/kernel/tracing/error_log", &log).fail("append", libc::EINVAL);
        let mut definitions = Definitions::new(Box::new(sys), tracefs);
        let error = definitions.add(&place(), &[]).expect_err("refused");
        assert!(error.to_string().ends_with("Unknown register name"), "{error}");
    }

    #[test]
    fn a_kernel_without_definitions_is_named_as_such() {
        let (sys, tracefs) = machine();
        let sys = sys.fail("append", libc::ENOENT);
        let mut definitions = Definitions::new(Box::new(sys), tracefs);
        let error = definitions.add(&place(), &[]).expect_err("no such file");
        assert!(error.to_string().contains("CONFIG_UPROBE_EVENTS"), "{error}");
    }

    #[test]
    fn only_what_dead_recorders_left_is_swept() {
        let (sys, tracefs) = machine();
        sys.write("/proc/50/stat", &stat("50"));
        sys.write("/proc/51/stat", &stat("51"));
        sys.write(
            EVENTS,
            "p:fxtrec_50_777/p0 /proc/self/fd/3:0x10\n\
             r:fxtrec_51_776/r0 /proc/self/fd/3:0x10 ret=$retval\n\
             p:fxtrec_52_1/p0 /proc/self/fd/3:0x20\n\
             p:fxtrec_mine/p0 /bin/sh:0x20\n\
             p:perf/p0 /bin/sh:0x20\n",
        );
        assert_eq!(sweep(&sys, &tracefs).expect("readable"), 2);
        assert_eq!(sys.appended(), ["-:fxtrec_51_776/r0", "-:fxtrec_52_1/p0"]);
    }

    #[test]
    fn a_machine_without_the_list_has_nothing_to_sweep() {
        let (sys, tracefs) = machine();
        let sys = sys.refuse(EVENTS, libc::ENOENT);
        assert_eq!(sweep(&sys, &tracefs).expect("nothing to do"), 0);
    }
}
