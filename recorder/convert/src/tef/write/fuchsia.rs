//! Scheduling records in the format of Fuchsia's own converter: `systemTraceEvents` of type `fuchsia`.
//!
//! `k` is a context switch, `w` a wakeup; `p` and `t` name processes and threads. Arguments of the records other than their weights are in
//! `args`, which Fuchsia's own converter leaves out.

use fxt_reader::record::{Args, ContextSwitch, LegacyContextSwitch, Wakeup};
use fxt_reader::{Koid, Nanos, Record, Thread, ThreadState};

use super::args::{Split, write_value};
use super::document::Spool;
use super::json::{self, Object};
use super::names::Names;
use crate::error::ConvertError;

/// Writes scheduling records into the spool of `systemTraceEvents`.
#[derive(Debug, Default)]
pub(super) struct Fuchsia {
    line: Vec<u8>,
}

impl Fuchsia {
    pub(super) fn take(
        &mut self,
        record: &Record<'_>,
        spool: &mut Spool,
    ) -> Result<(), ConvertError> {
        let mut object = self.begin(spool);
        match record {
            Record::ContextSwitch(switch) => write_switch(&mut object, switch),
            Record::LegacyContextSwitch(switch) => write_legacy(&mut object, switch),
            Record::Wakeup(wakeup) => write_wakeup(&mut object, wakeup),
            _ => {}
        }
        object.end();
        spool.append(&self.line)
    }

    /// Writes the names, and the end.
    pub(super) fn end(&mut self, spool: &mut Spool, names: &Names) -> Result<(), ConvertError> {
        for (koid, name) in names.processes() {
            let mut object = self.begin(spool);
            object.string("ph", "p");
            json::id(object.key("pid"), koid.0);
            object.string("name", name);
            object.end();
            spool.append(&self.line)?;
        }
        for (koid, thread) in names.threads() {
            let mut object = self.begin(spool);
            object.string("ph", "t");
            json::id(object.key("pid"), thread.process.unwrap_or_default().0);
            json::id(object.key("tid"), koid.0);
            object.string("name", &thread.name);
            object.end();
            spool.append(&self.line)?;
        }
        if spool.is_empty() {
            spool.append(b"{\"type\":\"fuchsia\",\"events\":[")?;
        }
        spool.append(b"\n]}")
    }

    fn begin(&mut self, spool: &Spool) -> Object<'_> {
        self.line.clear();
        let lead: &[u8] =
            if spool.is_empty() { b"{\"type\":\"fuchsia\",\"events\":[\n" } else { b",\n" };
        self.line.extend_from_slice(lead);
        Object::begin(&mut self.line)
    }
}

fn begin_record(object: &mut Object<'_>, phase: &str, time: Nanos, cpu: u16) {
    object.string("ph", phase);
    json::micros(object.key("ts"), time.0);
    object.number("cpu", cpu.into());
}

fn write_switch(object: &mut Object<'_>, switch: &ContextSwitch<'_>) {
    begin_record(object, "k", switch.time, switch.cpu.0);
    let mut out = Object::begin(object.key("out"));
    json::id(out.key("tid"), switch.outgoing.0);
    out.number("state", switch.outgoing_state.to_field());
    write_priority(&mut out, switch.args, "outgoing_weight");
    out.end();
    let mut into = Object::begin(object.key("in"));
    json::id(into.key("tid"), switch.incoming.0);
    write_priority(&mut into, switch.args, "incoming_weight");
    into.end();
    write_rest(object, switch.args);
}

fn write_legacy(object: &mut Object<'_>, switch: &LegacyContextSwitch) {
    begin_record(object, "k", switch.time, switch.cpu.0);
    let side = |object: &mut Object<'_>,
                name,
                thread: Thread,
                state: Option<ThreadState>,
                priority: u8| {
        let mut side = Object::begin(object.key(name));
        json::id(side.key("pid"), thread.process.0);
        json::id(side.key("tid"), thread.thread.0);
        if let Some(state) = state {
            side.number("state", state.to_field());
        }
        side.number("prio", priority.into());
        side.end();
    };
    side(object, "out", switch.outgoing, Some(switch.outgoing_state), switch.outgoing_priority);
    side(object, "in", switch.incoming, None, switch.incoming_priority);
}

fn write_wakeup(object: &mut Object<'_>, wakeup: &Wakeup<'_>) {
    begin_record(object, "w", wakeup.time, wakeup.cpu.0);
    let Koid(thread) = wakeup.koid;
    json::id(object.key("tid"), thread);
    write_priority(object, wakeup.args, "weight");
    write_rest(object, wakeup.args);
}

fn write_priority(object: &mut Object<'_>, args: Args<'_>, name: &str) {
    if let Some(weight) = args.get(name) {
        write_value(object.key("prio"), weight, false, true);
    }
}

/// Arguments that are not stored in other fields.
fn write_rest(object: &mut Object<'_>, args: Args<'_>) {
    let has_place = |name: &str| matches!(name, "outgoing_weight" | "incoming_weight" | "weight");
    if args.iter().any(|arg| !has_place(arg.name)) {
        Split::of(args).write_args(object, false);
    }
}
