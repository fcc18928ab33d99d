//! Which records of a provider are written to the archive.
//!
//! The manager does not check events: they concern only their provider. But
//! some records concern the whole machine: scheduling records, and the names of
//! processes and threads. A provider may write only the names of its own process and threads, so that a hostile provider can falsify only
//! data about itself. (Metadata never gets this far.)

use fxt_format::walk::{Body, inline_words};
use fxt_format::{Koid, argument, header, kernel_object, record_type};

/// Whether a provider with the process `process` may write this record.
pub(super) fn admit(record: &[u64], process: Koid) -> bool {
    match record.first().map(|&word| header::TYPE.get(word)) {
        Some(record_type::SCHEDULING) => false,
        Some(record_type::KERNEL_OBJECT) => names_its_own(record, process).unwrap_or(false),
        _ => true,
    }
}

/// Whether a kernel object record is about this process; `None` if it is truncated.
fn names_its_own(record: &[u64], process: Koid) -> Option<bool> {
    let (word, mut body) = Body::of(record)?;
    let koid = body.word()?;
    match kernel_object::OBJECT_TYPE.get(word) {
        kernel_object::ZX_OBJ_TYPE_PROCESS => return Some(koid == process.0),
        kernel_object::ZX_OBJ_TYPE_THREAD => {}
        _ => return Some(true),
    }
    body.words(inline_words(kernel_object::NAME.get(word)))?;
    let mut processes = 0;
    for _ in 0..kernel_object::ARG_COUNT.get(word) {
        let arg = body.argument()?;
        if argument::TYPE.get(*arg.first()?) == argument::KOID {
            // The value is last, after a name that may be inline.
            if arg.last() != Some(&process.0) {
                return Some(false);
            }
            processes += 1;
        }
    }
    Some(processes > 0)
}

#[cfg(test)]
mod tests {
    use fxt_writer::record::{
        ContextSwitch, Event, EventKind, KernelObject, ObjectType, Record, ThreadState,
    };
    use fxt_writer::{Arg, StringRef, Text, ThreadName, Ticks, Value};

    use super::*;

    const OWN: Koid = Koid(100);

    fn words(record: &impl Record) -> Vec<u64> {
        let mut words = Vec::new();
        record.write(&mut words).expect("a vector");
        words
    }

    fn thread(process: u64, name: Text<'_>) -> Vec<u64> {
        let args = [
            Arg::new(Text::Inline("a number"), Value::Int32(1)),
            Arg::new(Text::Inline("process"), Value::Koid(Koid(process))),
        ];
        let kind = ObjectType::Thread;
        words(&KernelObject { object_type: kind, koid: Koid(101), name, args: &args })
    }

    #[test]
    fn a_provider_names_its_own_process_and_threads_and_no_others() {
        let process = |koid| {
            let (kind, name) = (ObjectType::Process, Text::Inline("a process"));
            words(&KernelObject { object_type: kind, koid: Koid(koid), name, args: &[] })
        };
        assert!(admit(&process(100), OWN));
        assert!(!admit(&process(1), OWN));
        let indexed = Text::Indexed(StringRef::indexed(5).expect("not zero"));
        for name in [indexed, Text::Inline("a name of some length"), Text::EMPTY] {
            assert!(admit(&thread(100, name), OWN));
            assert!(!admit(&thread(1, name), OWN));
        }
    }

    #[test]
    fn a_thread_of_no_process_and_one_that_is_cut_short_are_not_taken() {
        let homeless = KernelObject {
            object_type: ObjectType::Thread,
            koid: Koid(101),
            name: Text::EMPTY,
            args: &[],
        };
        assert!(!admit(&words(&homeless), OWN));
        let whole = thread(100, Text::Inline("a name of some length"));
        for length in 1..whole.len() {
            assert!(!admit(&whole[..length], OWN), "{length} words");
        }
    }

    #[test]
    fn scheduling_is_not_for_providers_and_events_are() {
        let switch = ContextSwitch {
            cpu: 0,
            time: Ticks(1),
            outgoing: Koid(1),
            incoming: Koid(2),
            outgoing_state: ThreadState::Blocked,
            args: &[],
        };
        assert!(!admit(&words(&switch), OWN));
        let event = Event {
            kind: EventKind::Instant,
            time: Ticks(1),
            thread: ThreadName::Inline { process: OWN, thread: OWN },
            category: Text::Inline("a"),
            name: Text::Inline("b"),
            args: &[],
        };
        assert!(admit(&words(&event), OWN));
    }
}
