//! The format specification's rules that a readable trace can still break.

use fxt_format::limits::MAX_STRING_BYTES;
use rustc_hash::FxHashSet;

use super::Findings;
use super::rule::Rule;
use crate::reader::Item;
use crate::record::{BlobType, ProviderEventKind, Record};
use crate::types::{ProviderId, ThreadState};

#[derive(Debug, Default)]
pub(super) struct SpecChecks {
    introduced: FxHashSet<ProviderId>,
    said_no_provider: bool,
}

impl SpecChecks {
    pub(super) fn item(&mut self, item: &Item<'_>, findings: &mut Findings) {
        if !item.oddities.is_empty() {
            oddities(item, findings);
        }
        let kind = item.record.kind();
        let mut add = |rule, detail| findings.add(item.offset, rule, detail);
        match item.record {
            Record::ContextSwitch(switch) => {
                if let Some(detail) = undefined_state(switch.outgoing_state) {
                    add(Rule::Undefined, detail);
                }
            }
            Record::LegacyContextSwitch(switch) => {
                if let Some(detail) = undefined_state(switch.outgoing_state) {
                    add(Rule::Undefined, detail);
                } else if switch.outgoing_state == ThreadState::Running {
                    add(Rule::Undefined, "a legacy context switch leaves a thread running".into());
                }
            }
            Record::ProviderInfo(info) => {
                self.introduced.insert(info.id);
            }
            Record::ProviderSection(section) => self.must_know(section.id, &mut add),
            Record::ProviderEvent(event) => {
                self.must_know(event.id, &mut add);
                if let ProviderEventKind::Undefined(number) = event.event {
                    add(Rule::Undefined, format!("provider event {number} is not defined"));
                }
            }
            Record::String(string) => {
                if string.index == 0 {
                    add(Rule::TableIndex, "string 0 is the empty string and cannot be set".into());
                }
                if string.value.len() > MAX_STRING_BYTES {
                    let detail = format!("a string of {} bytes", string.value.len());
                    add(Rule::StringLength, detail);
                }
            }
            Record::Thread(thread) if thread.index == 0 => {
                add(Rule::TableIndex, "thread 0 means inline and cannot be set".into());
            }
            Record::Blob(blob) => {
                if let BlobType::Undefined(number) = blob.blob_type {
                    add(Rule::Undefined, format!("blob type {number} is not defined"));
                }
            }
            Record::Mapping(mapping) if ends_beyond(mapping.start, mapping.length) => {
                add(Rule::Undefined, "a mapping ends beyond the address space".into());
            }
            Record::Unknown(what) => add(Rule::Undefined, format!("{what:?} is not defined")),
            _ => {}
        }
        let is_metadata = matches!(
            item.record,
            Record::MagicNumber | Record::ProviderEvent(_) | Record::Unknown(_)
        );
        if item.provider.is_none() && !is_metadata && !self.said_no_provider {
            self.said_no_provider = true;
            let detail = format!("a {kind} record before any provider is introduced");
            findings.add(item.offset, Rule::Provider, detail);
        }
    }

    fn must_know(&self, id: ProviderId, add: &mut impl FnMut(Rule, String)) {
        if !self.introduced.contains(&id) {
            add(Rule::Provider, format!("provider {id} has not been introduced"));
        }
    }
}

/// Whether the end of an address range lies beyond the address space.
fn ends_beyond(start: u64, length: u64) -> bool {
    start.checked_add(length.saturating_sub(1)).is_none()
}

fn undefined_state(state: ThreadState) -> Option<String> {
    match state {
        ThreadState::Undefined(number) => Some(format!("thread state {number} is not defined")),
        _ => None,
    }
}

fn oddities(item: &Item<'_>, findings: &mut Findings) {
    let kind = item.record.kind();
    let mut add = |rule, detail| findings.add(item.offset, rule, detail);
    if item.oddities.reserved_bits() {
        add(Rule::ReservedBits, format!("a reserved bit of a {kind} record is set"));
    }
    if item.oddities.padding() {
        add(Rule::Padding, format!("padding in a {kind} record is not zero"));
    }
    if item.oddities.trailing_words() {
        add(Rule::Length, format!("a {kind} record is longer than its content"));
    }
    if item.oddities.unknown_arguments() > 0 {
        add(Rule::Undefined, format!("a {kind} record has arguments of undefined types"));
    }
}
