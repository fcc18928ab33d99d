//! The definitions in earlier records of a trace that later ones depend on.

use fxt_format::limits::WORD_BYTES;
use fxt_format::metadata::{self, PROVIDER_INFO, PROVIDER_SECTION, provider_info};
use fxt_format::{header, record_type};
use rustc_hash::FxHashMap;

use super::Item;
use crate::cursor::Cursor;
use crate::error::Damage;
use crate::raw::{self, RawRecord};
use crate::record::{Initialization, Record, StringRecord, ThreadRecord};
use crate::tables::Tables;
use crate::types::{ByteOrder, ProviderId};

/// The providers of a trace, and which one the next records belong to.
#[derive(Clone, Debug)]
pub(super) struct Known {
    providers: Vec<Provider>,
    provider_by_id: FxHashMap<ProviderId, usize>,
    /// An index in `providers`, always valid.
    current: usize,
    /// The index of the provider that represents all those beyond the limit.
    others: Option<usize>,
    /// The memory in use and its limit, in bytes.
    bytes: usize,
    most: usize,
    /// Strings, threads and providers beyond the limit.
    left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct Provider {
    id: Option<ProviderId>,
    tables: Tables,
}

/// The maximum memory that a provider takes in addition to its tables: entries of a vector and of a hash map, whose capacities may be twice
/// their lengths.
const PROVIDER_BYTES: usize = 2 * size_of::<Provider>() + 64;

impl Default for Known {
    fn default() -> Self {
        Self {
            providers: vec![Provider::default()],
            provider_by_id: FxHashMap::default(),
            current: 0,
            others: None,
            bytes: 0,
            most: usize::MAX,
            left_out: 0,
        }
    }
}

impl Known {
    /// The provider of the next records; `None` before any has been introduced.
    #[inline(always)]
    pub(super) fn provider(&self) -> Option<ProviderId> {
        self.providers[self.current].id
    }

    /// Limits the memory from now on to `most` bytes.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// The number of strings, threads and providers beyond the limit.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The tables that the current provider's records refer to.
    #[inline(always)]
    pub(super) fn tables(&self) -> &Tables {
        &self.providers[self.current].tables
    }

    /// Keeps the definition in a record that later ones depend on. `bytes` is the whole record.
    #[inline]
    pub(super) fn define(&mut self, header_word: u64, bytes: &[u8], order: ByteOrder) {
        if header::TYPE.get(header_word) <= record_type::THREAD {
            self.define_by(header_word, bytes, order);
        }
    }

    fn define_by(&mut self, header_word: u64, bytes: &[u8], order: ByteOrder) {
        if header::TYPE.get(header_word) == record_type::METADATA {
            if matches!(metadata::METADATA_TYPE.get(header_word), PROVIDER_INFO | PROVIDER_SECTION)
            {
                let id = provider_info::PROVIDER_ID.get(header_word);
                self.switch_to(ProviderId(u32::try_from(id).unwrap_or(u32::MAX)));
            }
            return;
        }
        let mut cursor = Cursor::new(bytes.get(WORD_BYTES..).unwrap_or_default(), order);
        let tables = &mut self.providers[self.current].tables;
        let before = tables.bytes();
        let most = self.most.saturating_sub(self.bytes).saturating_add(before);
        let mut is_kept = true;
        // Errors in the record are reported when it is decoded.
        match header::TYPE.get(header_word) {
            record_type::INITIALIZATION => {
                if let Ok(record) = Initialization::parse(header_word, &mut cursor) {
                    tables.set_ticks_per_second(record.ticks_per_second);
                }
            }
            record_type::STRING => {
                if let Ok((index, bytes)) = StringRecord::parse_bytes(header_word, &mut cursor) {
                    is_kept = tables.set_string(index, &String::from_utf8_lossy(bytes), most);
                }
            }
            _ => {
                if let Ok(record) = ThreadRecord::parse(header_word, &mut cursor) {
                    is_kept = tables.set_thread(record.index, record.thread, most);
                }
            }
        }
        self.bytes = self.bytes - before + tables.bytes();
        self.left_out += u64::from(!is_kept);
    }

    fn switch_to(&mut self, id: ProviderId) {
        if let Some(&known) = self.provider_by_id.get(&id) {
            self.current = known;
            return;
        }
        if self.bytes.saturating_add(PROVIDER_BYTES) > self.most {
            return self.switch_to_another(id);
        }
        self.bytes += PROVIDER_BYTES;
        self.current = self.providers.len();
        self.provider_by_id.insert(id, self.current);
        self.providers.push(Provider { id: Some(id), tables: Tables::default() });
    }

    /// Switches to a provider beyond the limit, whose definitions are not kept.
    #[cold]
    fn switch_to_another(&mut self, id: ProviderId) {
        let providers = &mut self.providers;
        let others = *self.others.get_or_insert_with(|| {
            providers.push(Provider::default());
            providers.len() - 1
        });
        self.current = others;
        let provider = &mut providers[others];
        if provider.id.replace(id) != Some(id) {
            self.bytes -= provider.tables.bytes();
            provider.tables = Tables::accepting_any_reference();
            self.left_out += 1;
        }
    }
}

/// Decodes single records that a [`Reader`](crate::Reader) has returned before, for example on another thread.
///
/// It knows the definitions that the reader had read when [`Reader::decoder`](crate::Reader::decoder) created it. After that, pass it at
/// least every record that others depend on, in order: initialization, string and thread records, provider info and provider section
/// records.
#[derive(Clone, Debug)]
pub struct Decoder {
    known: Known,
    order: ByteOrder,
}

impl Decoder {
    pub(super) fn new(known: Known, order: ByteOrder) -> Self {
        Self { known, order }
    }

    /// The provider of the next records; `None` before any has been introduced.
    #[must_use]
    #[inline]
    pub fn provider(&self) -> Option<ProviderId> {
        self.known.provider()
    }

    /// Decodes the record in `bytes`. The record begins at byte `offset` of the trace.
    ///
    /// # Errors
    ///
    /// Returns an error when the record is damaged; records that a reader has returned are not.
    pub fn decode<'a>(&'a mut self, offset: u64, bytes: &'a [u8]) -> Result<Item<'a>, Damage> {
        let header_word = bytes.first_chunk().map_or(0, |&word| self.order.word(word));
        self.known.define(header_word, bytes, self.order);
        let mut cursor = Cursor::new(bytes, self.order);
        match Record::parse(&mut cursor, self.known.tables()) {
            Ok(record) => Ok(Item {
                offset,
                provider: self.known.provider(),
                record,
                raw: RawRecord::new(bytes, self.order),
                oddities: cursor.oddities,
            }),
            Err(reason) => {
                Err(Damage { offset, record_type: raw::record_type(header_word), reason })
            }
        }
    }
}
