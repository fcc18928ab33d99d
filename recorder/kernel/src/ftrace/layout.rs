//! The form of a ring's pages, as the kernel describes it in `events/header_page` and `events/header_event`.
//!
//! ```text
//!   page    | timestamp | commit | data ............................... |
//!   commit    bits 0 to 29: bytes of data; 30: a count of missed events follows them; 31: events are missing before
//!   event   | type_len, time_delta | array ...          four bytes, then the payload
//! ```

use crate::format::{FieldLocation, Format, FormatError};

/// Bit of `commit`: events that should precede this page were overwritten.
const MISSED: u64 = 1 << 31;

/// Bit of `commit`: their number is stored after the data.
const MISSED_STORED: u64 = 1 << 30;

/// Bits of an event's first word.
const WORD_BITS: u32 = 32;

/// The reason why the pages cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageLayoutError {
    /// The page's description cannot be parsed.
    #[error("events/header_page: {0}")]
    Page(#[from] FormatError),
    /// A part of it has an unknown size.
    #[error("events/header_page gives `{field}` {size} bytes; please report this kernel")]
    Size { field: &'static str, size: usize },
    /// A line is missing in the event's description, or it has impossible numbers.
    #[error("events/header_event has no usable line for `{0}`; please report this kernel")]
    Event(&'static str),
}

/// An integer of the page's head: its offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    offset: usize,
    size: usize,
}

impl Word {
    fn read(self, page: &[u8]) -> Option<u64> {
        let bytes = page.get(self.offset..)?;
        match self.size {
            4 => bytes.first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes))),
            _ => bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
        }
    }
}

/// The form of pages and of the events in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    timestamp: Word,
    commit: Word,
    data: usize,
    /// Bytes of the whole page.
    bytes: usize,
    /// Bits of `type_len`, the lower ones of an event's first word.
    type_bits: u32,
    /// Values of `type_len` that are not lengths.
    pub(super) padding: u32,
    /// The event only advances the time.
    pub(super) time_extend: u32,
    /// The event is an absolute time; older kernels have no such events.
    pub(super) time_stamp: Option<u32>,
    /// The largest `type_len` that is a length, in units of four bytes.
    pub(super) data_max: u32,
}

/// The head of a page, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHead<'a> {
    pub(super) timestamp: u64,
    pub(super) data: &'a [u8],
    /// Whether events before these are missing, and how many, if the kernel had space for the number.
    pub(super) missed: Option<Option<u64>>,
}

impl PageLayout {
    /// Parses the two descriptions.
    ///
    /// # Errors
    /// Returns [`PageLayoutError`] if they have an unknown form.
    pub fn parse(header_page: &str, header_event: &str) -> Result<PageLayout, PageLayoutError> {
        // The page is described like an event without a head.
        let text = format!("name: header_page\nID: 0\nformat:\n{header_page}\nprint fmt: \"\"\n");
        let format = Format::parse(&text)?;
        let word = |name: &'static str, sizes: &[usize]| {
            let field = format.field(name)?;
            match field.place == FieldLocation::Inline && sizes.contains(&field.size) {
                true => Ok(Word { offset: field.offset, size: field.size }),
                false => Err(PageLayoutError::Size { field: name, size: field.size }),
            }
        };
        let data = format.field("data")?;
        if data.size == 0 || data.size > MISSED_STORED as usize {
            return Err(PageLayoutError::Size { field: "data", size: data.size });
        }
        let number = |name: &'static str| number(header_event, name);
        let required = |name: &'static str| number(name).ok_or(PageLayoutError::Event(name));
        let (type_bits, delta_bits) = (required("type_len")?, required("time_delta")?);
        if type_bits.checked_add(delta_bits) != Some(WORD_BITS) || type_bits == 0 || delta_bits == 0
        {
            return Err(PageLayoutError::Event("type_len"));
        }
        Ok(PageLayout {
            timestamp: word("timestamp", &[8])?,
            commit: word("commit", &[4, 8])?,
            data: data.offset,
            bytes: data.offset + data.size,
            type_bits,
            padding: required("padding")?,
            time_extend: required("time_extend")?,
            time_stamp: number("time_stamp"),
            data_max: required("data max type_len")?,
        })
    }

    pub fn page_bytes(&self) -> usize {
        self.bytes
    }

    /// Parses the head of a page; `None` if it is invalid.
    #[inline]
    pub(super) fn head<'a>(&self, page: &'a [u8]) -> Option<PageHead<'a>> {
        let commit = self.commit.read(page)?;
        let len = usize::try_from(commit & (MISSED_STORED - 1)).ok()?;
        let data = page.get(self.data..)?;
        let missed = (commit & MISSED != 0).then(|| {
            // A `long`, like the commit.
            let count = Word { offset: len, size: self.commit.size };
            (commit & MISSED_STORED != 0).then(|| count.read(data)).flatten()
        });
        Some(PageHead { timestamp: self.timestamp.read(page)?, data: data.get(..len)?, missed })
    }

    /// `type_len` and `time_delta` of an event's first word.
    #[inline]
    pub(super) fn split(&self, word: u32) -> (u32, u64) {
        let delta_bits = WORD_BITS - self.type_bits;
        // C places the first bit field in the lower bits on a little-endian machine, in the upper ones on a big-endian machine.
        if cfg!(target_endian = "little") {
            (word & (u32::MAX >> delta_bits), u64::from(word >> self.type_bits))
        } else {
            (word >> delta_bits, u64::from(word & (u32::MAX >> self.type_bits)))
        }
    }

    /// The time difference of an event that exceeds `time_delta`: `array` holds the upper bits.
    #[inline]
    pub(super) fn long_time(&self, array: u32, delta: u64) -> u64 {
        (u64::from(array) << (WORD_BITS - self.type_bits)) + delta
    }

    /// The upper bits of a time, for which an absolute time stamp has no space.
    pub(super) fn beyond_stamp(&self) -> u64 {
        let stamp_bits = WORD_BITS + WORD_BITS - self.type_bits;
        u64::MAX << stamp_bits
    }

    #[cfg(test)]
    pub(super) fn word(&self, type_len: u32, delta: u32) -> u32 {
        match cfg!(target_endian = "little") {
            true => type_len | (delta << self.type_bits),
            false => (type_len << (WORD_BITS - self.type_bits)) | delta,
        }
    }
}

/// The number in the line of `name`: of bits, or after `==`.
fn number(text: &str, name: &str) -> Option<u32> {
    let rest = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    let mut words =
        rest.split(|c: char| c.is_whitespace() || c == ':').filter(|word| !word.is_empty());
    words.find_map(|word| word.parse().ok())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    pub(crate) const HEADER_EVENT: &str = "# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

    pub(in crate::ftrace) fn layout() -> PageLayout {
        PageLayout::parse(HEADER_PAGE, HEADER_EVENT).expect("a known form")
    }

    #[test]
    fn every_number_comes_from_the_kernels_own_words() {
        let layout = layout();
        assert_eq!(layout.page_bytes(), 4096);
        assert_eq!((layout.type_bits, layout.data_max), (5, 28));
        assert_eq!((layout.padding, layout.time_extend, layout.time_stamp), (29, 30, Some(31)));
    }

    #[test]
    fn larger_pages_and_kernels_without_time_stamps_are_understood() {
        let page = HEADER_PAGE.replace("size:4080", "size:65520");
        let event = HEADER_EVENT.replace("\ttime_stamp : type == 31\n", "");
        let layout = PageLayout::parse(&page, &event).expect("known forms");
        assert_eq!((layout.page_bytes(), layout.time_stamp), (65536, None));
    }

    #[test]
    fn an_unknown_form_is_refused_by_the_name_of_what_is_odd() {
        let size = |text: &str| PageLayout::parse(text, HEADER_EVENT).unwrap_err();
        let odd = HEADER_PAGE.replace("offset:8;\tsize:8", "offset:8;\tsize:2");
        assert_eq!(size(&odd), PageLayoutError::Size { field: "commit", size: 2 });
        assert!(matches!(size("\tfield: u64 timestamp;\toffset:0;"), PageLayoutError::Page(_)));
        let event = |text: &str| PageLayout::parse(HEADER_PAGE, text).unwrap_err();
        assert_eq!(event(""), PageLayoutError::Event("type_len"));
        let odd = HEADER_EVENT.replace("27 bits", "26 bits");
        assert_eq!(event(&odd), PageLayoutError::Event("type_len"));
        let odd = HEADER_EVENT.replace("padding", "stuffing");
        assert_eq!(event(&odd), PageLayoutError::Event("padding"));
    }

    #[test]
    fn a_first_word_is_split_as_it_was_put_together() {
        let layout = layout();
        assert_eq!(layout.split(layout.word(31, 7)), (31, 7));
        assert_eq!(layout.split(layout.word(0, 0x7ff_ffff)), (0, 0x7ff_ffff));
        assert_eq!(layout.long_time(1, 5), 0x800_0005);
        assert_eq!(layout.beyond_stamp(), 0xf800_0000_0000_0000);
    }
}
