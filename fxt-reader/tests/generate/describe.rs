//! A record as one line of text, made from what the reader returned or (in
//! `records`) from what was passed to the writer.

use fxt_reader::record::{BlobType, EventKind, Value};
use fxt_reader::{Kind, ObjectType, Record, Thread, ThreadState};

pub fn thread(process: u64, thread: u64) -> String {
    format!("{process}/{thread}")
}

fn of_thread(value: Thread) -> String {
    thread(value.process.0, value.thread.0)
}

fn state(state: ThreadState) -> u8 {
    match state {
        ThreadState::New => 0,
        ThreadState::Running => 1,
        ThreadState::Suspended => 2,
        ThreadState::Blocked => 3,
        ThreadState::Dying => 4,
        ThreadState::Dead => 5,
        other => panic!("{other} was never written"),
    }
}

fn value(value: Value<'_>) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Int32(value) => format!("i32 {value}"),
        Value::UInt32(value) => format!("u32 {value}"),
        Value::Int64(value) => format!("i64 {value}"),
        Value::UInt64(value) => format!("u64 {value}"),
        Value::Double(value) => format!("f64 {:x}", value.to_bits()),
        Value::Str(value) => format!("str {value}"),
        Value::Pointer(value) => format!("ptr {value}"),
        Value::Koid(value) => format!("koid {value}"),
        Value::Bool(value) => format!("bool {value}"),
        other => panic!("{other:?} was never written"),
    }
}

pub fn describe(record: &Record<'_>) -> String {
    let args: String = record
        .args()
        .iter()
        .flatten()
        .map(|arg| format!(" [{}: {}]", arg.name, value(arg.value)))
        .collect();
    let kind = record.kind();
    match record {
        Record::MagicNumber => kind.to_string(),
        Record::ProviderInfo(info) => format!("{kind} {} {}", info.id, info.name),
        Record::ProviderSection(section) => format!("{kind} {}", section.id),
        Record::ProviderEvent(event) => {
            format!("{kind} {} {}", event.id, event.event.to_field())
        }
        Record::Initialization(initialization) => {
            format!("{kind} {}", initialization.ticks_per_second)
        }
        Record::String(string) => format!("{kind} {} {}", string.index, string.value),
        Record::Thread(record) => format!("{kind} {} {}", record.index, of_thread(record.thread)),
        Record::Event(event) => {
            let extra = match event.kind {
                EventKind::DurationComplete { end } => Some(end.0),
                other => other.id(),
            };
            let (time, thread) = (event.time.0, of_thread(event.thread));
            format!("{kind} {time} {thread} {} {}{args} {extra:?}", event.category, event.name)
        }
        Record::Blob(blob) => {
            let blob_type = match blob.blob_type {
                BlobType::Data => 1,
                BlobType::LastBranch => 2,
                BlobType::Perfetto => 3,
                other => panic!("{other:?} was never written"),
            };
            format!("{kind} {} {blob_type} {:?}", blob.name, blob.payload)
        }
        Record::UserspaceObject(object) => {
            format!("{kind} {} {} {}{args}", object.pointer, object.process, object.name)
        }
        Record::KernelObject(object) => {
            let object_type = match object.object_type {
                ObjectType::Process => 1,
                ObjectType::Thread => 2,
                ObjectType::Other(number) => number,
            };
            format!("{kind} {object_type} {} {}{args}", object.koid, object.name)
        }
        Record::LegacyContextSwitch(switch) => format!(
            "{kind} {} {} {} {} {} {} {}",
            switch.time.0,
            switch.cpu,
            of_thread(switch.outgoing),
            state(switch.outgoing_state),
            switch.outgoing_priority,
            of_thread(switch.incoming),
            switch.incoming_priority,
        ),
        Record::ContextSwitch(switch) => {
            let (time, cpu, state) = (switch.time.0, switch.cpu, state(switch.outgoing_state));
            format!("{kind} {time} {cpu} {} {state} {}{args}", switch.outgoing, switch.incoming)
        }
        Record::Wakeup(wakeup) => {
            format!("{kind} {} {} {}{args}", wakeup.time.0, wakeup.cpu, wakeup.koid)
        }
        Record::Log(log) => {
            format!("{kind} {} {} {}", log.time.0, of_thread(log.thread), log.message)
        }
        Record::Module(module) => {
            let (time, process, id) = (module.time.0, module.process, module.id);
            format!("{kind} {time} {process} {id} {} {:?}", module.name, module.build_id)
        }
        Record::Mapping(mapping) => {
            let (time, process, id) = (mapping.time.0, mapping.process, mapping.module);
            let (start, length, address) = (mapping.start, mapping.length, mapping.module_address);
            format!("{kind} {time} {process} {id} {} {start} {length} {address}", mapping.flags)
        }
        Record::Backtrace(backtrace) => {
            let (time, thread) = (backtrace.time.0, of_thread(backtrace.thread));
            let frames: Vec<u64> = backtrace.frames.iter().collect();
            format!("{kind} {time} {thread} {} {frames:?}", backtrace.flags)
        }
        Record::LargeBlob(blob) => {
            let metadata = blob
                .metadata
                .map(|metadata| format!("{} {}", metadata.time.0, of_thread(metadata.thread)));
            let (category, name, payload) = (blob.category, blob.name, blob.payload);
            format!("{} {category} {name} {metadata:?}{args} {payload:?}", Kind::LargeBlob)
        }
        other => panic!("{other:?} was never written"),
    }
}
