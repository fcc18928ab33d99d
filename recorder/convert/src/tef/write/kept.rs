//! Bulk data: blobs, and data that was kept in blobs when JSON was converted to FXT.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fxt_reader::record::{Blob, LargeBlob, Value};
use rustc_hash::FxHashMap;

use super::Exporter;
use super::document::{Document, Spool};
use super::json::{self, Object};
use crate::error::ConvertError;
use crate::report::Report;
use crate::tef::{marks, notes};

/// JSON text that did not fit into records, and blobs for the end of the document.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Events by number, until the record that represents them, which follows them directly.
    events: FxHashMap<u64, Vec<u8>>,
    blobs: Spool,
}

impl Kept {
    /// The text of the event with this number.
    pub(super) fn event(&mut self, number: Value<'_>) -> Option<Vec<u8>> {
        match number {
            Value::Int32(number) => self.events.remove(&u64::try_from(number).ok()?),
            Value::UInt32(number) => self.events.remove(&number.into()),
            _ => None,
        }
    }

    fn append_blob(&mut self, text: &[u8]) -> Result<(), ConvertError> {
        self.blobs.append(if self.blobs.is_empty() { b"[\n" } else { b",\n" })?;
        self.blobs.append(text)
    }

    /// Finishes the members of the document that are still open.
    pub(super) fn end(
        self,
        document: &mut Document<'_>,
        report: &mut Report,
    ) -> Result<(), ConvertError> {
        report.add("blobs without their events", self.events.len() as u64);
        if !document.member("samples").is_empty() {
            document.member("samples").append(b"\n]")?;
        } else {
            document.take_member("samples");
        }
        if document.member("displayTimeUnit").is_empty() {
            document.member("displayTimeUnit").append(b"\"ns\"")?;
        }
        if self.blobs.is_empty() {
            return Ok(());
        }
        let earlier = document.take_member("otherData").map(Spool::into_string).transpose()?;
        let other = document.member("otherData");
        let mut text = Vec::new();
        let mut object = Object::begin(&mut text);
        if let Some(earlier) = earlier {
            object.members(&earlier);
        }
        object.key(marks::BLOBS);
        other.append(&text)?;
        other.append_spool(self.blobs)?;
        other.append(b"\n]}")
    }
}

impl Exporter<'_> {
    /// Stores a blob for `otherData`, or for the data that it is a piece of.
    pub(super) fn blob(&mut self, blob: &Blob<'_>) -> Result<(), ConvertError> {
        if let Some(number) = blob.name.strip_prefix(notes::EVENT_BLOB)
            && let Ok(number) = number.parse()
        {
            self.kept.events.entry(number).or_default().extend_from_slice(blob.payload);
            return Ok(());
        }
        if let Some(member) = blob.name.strip_prefix(notes::MEMBER_BLOB) {
            return self.document.member(member).append(blob.payload);
        }
        let mut text = Vec::new();
        let mut object = Object::begin(&mut text);
        object.string("name", blob.name);
        object.number("type", blob.blob_type.to_field());
        write_payload(&mut object, blob.payload);
        object.end();
        self.kept.append_blob(&text)
    }

    pub(super) fn large_blob_without_metadata(
        &mut self,
        blob: &LargeBlob<'_>,
    ) -> Result<(), ConvertError> {
        let mut text = Vec::new();
        let mut object = Object::begin(&mut text);
        object.string("category", blob.category);
        object.string("name", blob.name);
        write_payload(&mut object, blob.payload);
        object.end();
        self.kept.append_blob(&text)
    }
}

/// Binary data in Base64 (RFC 4648, section 4).
pub(super) fn write_payload(object: &mut Object<'_>, payload: &[u8]) {
    json::string(object.key("data"), &STANDARD.encode(payload));
}
