//! Metadata records: written by the program that assembles an archive ("Metadata record").

use super::{Record, checked_size};
use crate::error::EncodeError;
use crate::ids::ProviderId;
use crate::layout::metadata::{self, MAGIC_WORD, provider_event, provider_info, provider_section};
use crate::layout::{ProviderEventKind, limits, record_type};
use crate::space::{Slot, stream_words};
use crate::text;

/// The magic number record, the first word of every archive ("Magic number
/// record").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Magic;

impl Record for Magic {
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(1)
    }

    fn header(&self, _words: usize) -> u64 {
        MAGIC_WORD
    }

    fn body(&self, _slot: &mut impl Slot) {}
}

/// Introduces a provider; the records that follow are from it ("Provider info
/// metadata").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderInfo<'a> {
    /// The provider's id in this archive.
    pub id: ProviderId,
    /// The provider's name, at most 255 bytes.
    pub name: &'a str,
}

impl Record for ProviderInfo<'_> {
    fn words(&self) -> Result<usize, EncodeError> {
        let bytes = self.name.len();
        if bytes > limits::MAX_PROVIDER_NAME_BYTES {
            return Err(EncodeError::ProviderNameTooLong { bytes });
        }
        text::check_no_nul(self.name)?;
        checked_size(1 + stream_words(bytes))
    }

    fn header(&self, words: usize) -> u64 {
        provider_info::TYPE.put(record_type::METADATA)
            | provider_info::SIZE.put(words as u64)
            | provider_info::METADATA_TYPE.put(metadata::PROVIDER_INFO)
            | provider_info::PROVIDER_ID.put(u64::from(self.id.0))
            | provider_info::NAME_LENGTH.put(self.name.len() as u64)
    }

    fn body(&self, slot: &mut impl Slot) {
        slot.put_stream(self.name.as_bytes());
    }
}

/// Says which provider wrote the records that follow ("Provider section metadata").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderSection {
    /// The provider's id in this archive.
    pub id: ProviderId,
}

impl Record for ProviderSection {
    fn words(&self) -> Result<usize, EncodeError> {
        Ok(1)
    }

    fn header(&self, words: usize) -> u64 {
        provider_section::TYPE.put(record_type::METADATA)
            | provider_section::SIZE.put(words as u64)
            | provider_section::METADATA_TYPE.put(metadata::PROVIDER_SECTION)
            | provider_section::PROVIDER_ID.put(u64::from(self.id.0))
    }

    fn body(&self, _slot: &mut impl Slot) {}
}

/// Something a provider reports, anywhere in the archive ("Provider event
/// metadata").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider's id in this archive.
    pub id: ProviderId,
    /// The event that it reports.
    pub event: ProviderEventKind,
}

impl ProviderEvent {
    /// A buffer of the provider filled up and records were likely dropped.
    #[must_use]
    pub const fn buffer_filled_up(id: ProviderId) -> Self {
        Self { id, event: ProviderEventKind::BufferFilledUp }
    }
}

impl Record for ProviderEvent {
    fn words(&self) -> Result<usize, EncodeError> {
        match self.event {
            ProviderEventKind::Undefined(id) if !provider_event::EVENT_ID.fits(id.into()) => {
                Err(EncodeError::ProviderEvent { id })
            }
            _ => Ok(1),
        }
    }

    fn header(&self, words: usize) -> u64 {
        provider_event::TYPE.put(record_type::METADATA)
            | provider_event::SIZE.put(words as u64)
            | provider_event::METADATA_TYPE.put(metadata::PROVIDER_EVENT)
            | provider_event::PROVIDER_ID.put(u64::from(self.id.0))
            | provider_event::EVENT_ID.put(self.event.to_field())
    }

    fn body(&self, _slot: &mut impl Slot) {}
}
