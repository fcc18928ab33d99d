//! Metadata records: the provider of the records that follow, and the magic number.

use std::str;

use fxt_format::ProviderEventKind;
use fxt_format::metadata::{provider_event, provider_info, provider_section};

use crate::cursor::Cursor;
use crate::error::Reason;
use crate::types::ProviderId;

/// Introduces a trace provider; the records that follow are from it ("Provider
/// info metadata").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderInfo<'a> {
    /// Its number in this trace.
    pub id: ProviderId,
    /// Its name.
    pub name: &'a str,
}

impl<'a> ProviderInfo<'a> {
    pub(crate) fn parse(header: u64, cursor: &mut Cursor<'a>) -> Result<Self, Reason> {
        cursor.inspect(header, provider_info::HEADER);
        let name = cursor.stream(provider_info::NAME_LENGTH.get(header))?;
        Ok(Self {
            id: provider_id(provider_info::PROVIDER_ID.get(header)),
            name: str::from_utf8(name).map_err(|_| Reason::NotUtf8)?,
        })
    }
}

/// The records that follow are from this provider ("Provider section metadata").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderSection {
    /// The number of a provider that has been introduced before.
    pub id: ProviderId,
}

impl ProviderSection {
    pub(crate) fn parse(header: u64, cursor: &mut Cursor<'_>) -> Self {
        cursor.inspect(header, provider_section::HEADER);
        Self { id: provider_id(provider_section::PROVIDER_ID.get(header)) }
    }
}

/// An event of a provider ("Provider event metadata").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderEvent {
    /// The provider.
    pub id: ProviderId,
    /// The reported event.
    pub event: ProviderEventKind,
}

impl ProviderEvent {
    pub(crate) fn parse(header: u64, cursor: &mut Cursor<'_>) -> Self {
        cursor.inspect(header, provider_event::HEADER);
        Self {
            id: provider_id(provider_event::PROVIDER_ID.get(header)),
            event: ProviderEventKind::from_field(provider_event::EVENT_ID.get(header)),
        }
    }
}

pub(crate) fn provider_id(field: u64) -> ProviderId {
    ProviderId(u32::try_from(field).unwrap_or(u32::MAX))
}
