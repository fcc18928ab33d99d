//! Names as `M` events; other objects as snapshots; providers.

use fxt_reader::ObjectType;
use fxt_reader::record::{
    KernelObject, LargeBlob, LargeBlobMetadata, ProviderEvent, ProviderInfo, ProviderSection,
    UserspaceObject,
};
use fxt_reader::{Koid, ProviderId, Thread};

use super::Exporter;
use super::args::{Split, write_value};
use super::events::write_thread_and_time;
use super::json::{self, Object};
use super::kept::write_payload;
use crate::error::ConvertError;
use crate::tef::{marks, notes};

impl Exporter<'_> {
    pub(super) fn kernel_object(&mut self, object: &KernelObject<'_>) {
        let mut split = Split::of(object.args);
        if let Some(original) = split.note(notes::ID) {
            // The id is generated for an id that is not a number, or that two processes use.
            let mut json = Vec::new();
            write_value(&mut json, original, false, true);
            let json = String::from_utf8_lossy(&json).into_owned();
            self.names.set_original(object.koid, json);
            return;
        }
        let process = object.process();
        match object.object_type {
            // Adds to an object whose name is in another record, or that has no name.
            ObjectType::Process if split.note(notes::METADATA).is_some() => {
                self.name_event(None, object, &split, None);
            }
            ObjectType::Thread if split.note(notes::METADATA).is_some() => {
                self.name_event(None, object, &split.without_process(), process);
            }
            ObjectType::Process => {
                self.names.set_process(object.koid, object.name);
                self.name_event(Some("process_name"), object, &split, None);
            }
            ObjectType::Thread => {
                self.names.set_thread(object.koid, object.name, process);
                split = split.without_process();
                self.name_event(Some("thread_name"), object, &split, process);
            }
            _ => self.other_kernel_object(object, &split),
        }
    }

    fn name_event(
        &mut self,
        what: Option<&str>,
        object: &KernelObject<'_>,
        split: &Split<'_>,
        process: Option<Koid>,
    ) {
        let is_thread = object.object_type == ObjectType::Thread;
        let mut event = self.document.event();
        event.string("ph", "M");
        if let Some(what) = what {
            event.string("name", what);
        }
        if is_thread {
            self.names.write_id(event.key("pid"), process.unwrap_or_default());
            split.field(&mut event, "tid", |out| self.names.write_id(out, object.koid));
        } else {
            self.names.write_id(event.key("pid"), object.koid);
        }
        split.write_notes(&mut event);
        split.write_args_behind(&mut event, false, |args| {
            if what.is_some() {
                args.string("name", object.name);
            }
        });
        if is_thread && process.is_none() {
            event.string(marks::FIELD, marks::NO_PROCESS);
        }
        event.end();
    }

    /// A kernel object of another type becomes an object without a process.
    fn other_kernel_object(&mut self, object: &KernelObject<'_>, split: &Split<'_>) {
        let number = match object.object_type {
            ObjectType::Other(number) => number,
            _ => 0,
        };
        let mut event = self.begin_snapshot("kernel_object", object.name, object.koid.0, Koid(0));
        event.string(marks::FIELD, marks::KERNEL_OBJECT);
        write_snapshot(&mut event, split, |snapshot| snapshot.number("type", number.into()));
        event.end();
    }

    pub(super) fn userspace_object(&mut self, object: &UserspaceObject<'_>) {
        let split = Split::of(object.args);
        if split.note(notes::PHASE).is_some() {
            // The id is generated for an event that is written as well.
            return;
        }
        let mut event =
            self.begin_snapshot("userspace_object", object.name, object.pointer, object.process);
        event.string(marks::FIELD, marks::USERSPACE_OBJECT);
        write_snapshot(&mut event, &split, |_| {});
        event.end();
    }

    fn begin_snapshot(&mut self, category: &str, name: &str, id: u64, process: Koid) -> Object<'_> {
        let mut event = self.document.event();
        event.string("ph", "O");
        event.string("cat", category);
        event.string("name", name);
        json::hex(event.key("id"), id);
        self.names.write_id(event.key("pid"), process);
        event.number("tid", 0);
        json::micros(event.key("ts"), self.now.0);
        event
    }

    /// A large blob with metadata becomes a snapshot; without metadata, it is written to `otherData`.
    pub(super) fn large_blob(&mut self, blob: &LargeBlob<'_>) -> Result<(), ConvertError> {
        let Some(LargeBlobMetadata { time, thread, args }) = blob.metadata else {
            return self.large_blob_without_metadata(blob);
        };
        let split = Split::of(args);
        let mut event = self.document.event();
        event.string("ph", "O");
        event.string("cat", blob.category);
        event.string("name", blob.name);
        json::hex(event.key("id"), self.report.read);
        write_thread_and_time(&mut event, thread, time, &self.names);
        event.string(marks::FIELD, marks::LARGE_BLOB);
        write_snapshot(&mut event, &split, |snapshot| write_payload(snapshot, blob.payload));
        event.end();
        Ok(())
    }

    pub(super) fn provider(&mut self, info: &ProviderInfo<'_>) {
        self.providers.insert(info.id, info.name.to_owned());
        self.current_provider = Some(info.id);
        self.write_provider(info.id, info.name);
    }

    pub(super) fn provider_section(&mut self, section: ProviderSection) {
        if self.current_provider.replace(section.id) != Some(section.id) {
            let name = self.providers.get(&section.id).cloned().unwrap_or_default();
            self.write_provider(section.id, &name);
        }
    }

    fn write_provider(&mut self, id: ProviderId, name: &str) {
        let mut event = self.document.event();
        event.string("ph", "M");
        event.string("name", "provider");
        event.number("pid", 0);
        let mut args = Object::begin(event.key("args"));
        args.number("id", id.0.into());
        args.string("name", name);
        args.end();
        event.string(marks::FIELD, marks::PROVIDER);
        event.end();
    }

    pub(super) fn provider_event(&mut self, report: ProviderEvent) {
        let mut event = self.document.event();
        event.string("ph", "i");
        event.string("cat", "fxt");
        event.string("name", report.event.name().unwrap_or("provider event"));
        let no_thread = Thread { process: Koid(0), thread: Koid(0) };
        write_thread_and_time(&mut event, no_thread, self.now, &self.names);
        event.string("s", "g");
        let mut args = Object::begin(event.key("args"));
        args.number("id", report.id.0.into());
        args.number("event", report.event.to_field());
        args.end();
        event.string(marks::FIELD, marks::PROVIDER_EVENT);
        event.end();
    }
}

/// Writes `args` with the arguments within a snapshot, as object events have them.
fn write_snapshot(event: &mut Object<'_>, split: &Split<'_>, first: impl FnOnce(&mut Object<'_>)) {
    split.write_args_inside(event, "snapshot", first);
}
