//! What the records of a trace have told that later ones depend on.

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

/// The providers of a trace, and whose records come next.
#[derive(Clone, Debug)]
pub(super) struct Known {
    providers: Vec<Provider>,
    provider_by_id: FxHashMap<ProviderId, usize>,
    /// An index in `providers`, always valid.
    current: usize,
    /// That of one which stands for all for which there was no room.
    others: Option<usize>,
    /// What all of it takes, and may take, in bytes.
    bytes: usize,
    most: usize,
    /// Strings, threads and providers for which there was no room.
    left_out: u64,
}

#[derive(Clone, Debug, Default)]
struct Provider {
    id: Option<ProviderId>,
    tables: Tables,
}

/// What a provider takes besides its tables, at most: places in a vector and in a hash map, which may have room for twice as many.
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
    /// The provider whose records come next; `None` before any has been introduced.
    #[inline(always)]
    pub(super) fn provider(&self) -> Option<ProviderId> {
        self.providers[self.current].id
    }

    /// From now on all of it takes no more than so many bytes.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// How many strings, threads and providers there was no room for.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What its records refer to.
    #[inline(always)]
    pub(super) fn tables(&self) -> &Tables {
        &self.providers[self.current].tables
    }

    /// Takes note of a record that later ones depend on. `bytes` is all of it.
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
        // What is wrong with the record is found when it is read for its own sake.
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

    /// Switches to a provider for which there is no room: nothing that it registers is kept.
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

/// Decodes single records that a [`Reader`](crate::Reader) has handed out before, perhaps on another thread.
///
/// It knows what the records before it told when [`Reader::decoder`](crate::Reader::decoder) made it. Of those after that,
/// it must be given at least all that others depend on, in their order: initialization, string and thread records,
/// and those that introduce a provider or its section.
#[derive(Clone, Debug)]
pub struct Decoder {
    known: Known,
    order: ByteOrder,
}

impl Decoder {
    pub(super) fn new(known: Known, order: ByteOrder) -> Self {
        Self { known, order }
    }

    /// The provider whose records come next; `None` before any has been introduced.
    #[must_use]
    #[inline]
    pub fn provider(&self) -> Option<ProviderId> {
        self.known.provider()
    }

    /// The record that is all of `bytes`, and begins at `offset` bytes of trace.
    ///
    /// # Errors
    ///
    /// What is wrong with it, which is nothing if a reader has handed it out.
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
