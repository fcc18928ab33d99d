//! Trace points' state: with it, each decides in two loads whether to record, and
//! refers to its strings without a look-up.
//!
//! ```text
//!  [0 .. 31]    [32 .. 46]      [47 .. 61]  [62 .. 62]
//!  generation | category index | name index | enabled
//! ```
//!
//! One word contains all of it, so that all parts belong to the same session. If the generation of a trace point is not that of the running
//! session, the trace point looks up its session again. With an index of 0, the string is written inline.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use super::session::Session;
use super::sys::{self, Generation};
use crate::layout::Field;
use crate::layout::limits::MAX_PROVIDER_NAME_BYTES;
use crate::{StringRef, Text};

const GENERATION: Field = Field::new(0, 31);
const CATEGORY: Field = Field::new(32, 46);
const NAME: Field = Field::new(47, 61);
const ENABLED: Field = Field::new(62, 62);

/// The maximum number of bytes in a category or a name.
const MAX_BYTES: usize = MAX_PROVIDER_NAME_BYTES;

/// Whether a string can be a category or name: 1 to 255 bytes, without a NUL or a
/// newline.
const fn is_good(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == 0 || bytes[at] == b'\n' {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty() && bytes.len() <= MAX_BYTES
}

/// A valid version of a string, which is never freed.
fn leaked_text(text: &str) -> &'static str {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text[..end].replace(['\0', '\n'], " ");
    if text.is_empty() { "unnamed" } else { text.leak() }
}

/// A trace point: where in the program something is recorded. The macros make
/// one per use, as a `static`.
#[derive(Debug)]
pub struct Site {
    category: &'static str,
    name: &'static str,
    word: AtomicU64,
}

impl Site {
    /// A trace point with this category and name.
    ///
    /// # Panics
    ///
    /// When one of them is empty, longer than 255 bytes, or holds a NUL or a
    /// newline; in a `static` that is a compile error.
    #[must_use]
    pub const fn new(category: &'static str, name: &'static str) -> Self {
        assert!(is_good(category), "a category has 1 to 255 bytes, none of them NUL or newline");
        assert!(is_good(name), "a name has 1 to 255 bytes, none of them NUL or newline");
        Self { category, name, word: AtomicU64::new(0) }
    }

    /// A trace point whose strings are known only at run time. Invalid strings do not
    /// panic: they are cut, and invalid characters are replaced. The strings and
    /// the trace point are never freed.
    #[must_use]
    pub fn leaked(category: &str, name: &str) -> &'static Self {
        Box::leak(Box::new(Self::new(leaked_text(category), leaked_text(name))))
    }

    /// Its category.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        self.category
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// If this trace point records, everything that recording needs. Without a
    /// session this is one relaxed load and a branch; in a session that does not
    /// records the category, one load more.
    #[inline(always)]
    #[must_use]
    pub fn armed(&'static self) -> Option<Armed> {
        match NonZeroU32::new(sys::generation()) {
            None => None,
            Some(generation) => self.armed_in(generation),
        }
    }

    #[inline]
    fn armed_in(&'static self, generation: Generation) -> Option<Armed> {
        // Acquire: the strings' records precede ours.
        let mut word = SiteWord(self.word.load(Ordering::Acquire));
        if !word.is_of(generation) {
            word = self.look_up(generation)?;
        }
        word.is_enabled().then_some(Armed { site: self, word })
    }

    /// The same as [`armed`](Self::armed), for callers that do not record.
    #[inline]
    #[must_use]
    pub fn is_wanted(&'static self) -> bool {
        let running = sys::generation();
        running != sys::OVERDUE
            && NonZeroU32::new(running).is_some_and(|running| self.armed_in(running).is_some())
    }

    /// The first pass in a session: asks it whether it wants the category, and
    /// registers the strings.
    #[cold]
    #[inline(never)]
    fn look_up(&'static self, generation: Generation) -> Option<SiteWord> {
        if generation.get() == sys::OVERDUE {
            sys::client()?.miss(self.category);
            return None;
        }
        let session = sys::client()?.session().filter(|s| s.generation() == generation)?;
        let enabled = session.wants(self.category);
        let index = |text| if enabled { session.string(text) } else { StringRef::EMPTY };
        let word = SiteWord::new(generation, enabled, index(self.category), index(self.name));
        // Release: the strings' records are written.
        self.word.store(word.0, Ordering::Release);
        Some(word)
    }

    /// The word's content, if it belongs to this session.
    pub(super) fn in_session(&'static self, generation: Generation) -> Option<Armed> {
        let word = SiteWord(self.word.load(Ordering::Acquire));
        word.is_of(generation).then_some(Armed { site: self, word })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SiteWord(u64);

impl SiteWord {
    fn new(generation: Generation, enabled: bool, category: StringRef, name: StringRef) -> Self {
        let index = |text: StringRef| u64::from(text.index().unwrap_or(0));
        Self(
            GENERATION.put(u64::from(generation.get()))
                | ENABLED.put(u64::from(enabled))
                | CATEGORY.put(index(category))
                | NAME.put(index(name)),
        )
    }

    #[inline(always)]
    fn is_of(self, generation: Generation) -> bool {
        GENERATION.get(self.0) == u64::from(generation.get())
    }

    #[inline(always)]
    fn is_enabled(self) -> bool {
        ENABLED.get(self.0) == 1
    }
}

/// The text by its index, or inline if it has none.
#[inline(always)]
fn text(index: u64, content: &'static str) -> Text<'static> {
    match u16::try_from(index).map(StringRef::indexed) {
        Ok(Ok(index)) => Text::Indexed(index),
        _ => Text::Inline(content),
    }
}

/// A trace point that records, with its session. Two words, which are passed in
/// registers.
#[derive(Clone, Copy, Debug)]
pub struct Armed {
    site: &'static Site,
    word: SiteWord,
}

impl Armed {
    #[inline(always)]
    pub(super) fn generation(&self) -> Generation {
        // 32 bits. No session has the number 0, so no trace point is armed with it.
        NonZeroU32::new(GENERATION.get(self.word.0) as u32).unwrap_or(NonZeroU32::MIN)
    }

    pub(super) fn site(&self) -> &'static Site {
        self.site
    }

    /// The indices of category and name in the session; 0 for none.
    #[inline(always)]
    pub(super) fn indices(&self) -> [u64; 2] {
        [CATEGORY.get(self.word.0), NAME.get(self.word.0)]
    }

    #[inline(always)]
    pub(super) fn category(&self) -> Text<'static> {
        text(CATEGORY.get(self.word.0), self.site.category)
    }

    #[inline(always)]
    pub(super) fn name(&self) -> Text<'static> {
        text(NAME.get(self.word.0), self.site.name)
    }
}

/// The name of an argument, with its index in the running session.
#[derive(Debug)]
pub struct Name {
    content: &'static str,
    word: AtomicU64,
}

impl Name {
    /// An argument's name.
    ///
    /// # Panics
    ///
    /// The same as [`Site::new`].
    #[must_use]
    pub const fn new(content: &'static str) -> Self {
        assert!(is_good(content), "a name has 1 to 255 bytes, none of them NUL or newline");
        Self { content, word: AtomicU64::new(0) }
    }

    /// A name that is known only at run time. An invalid name is corrected instead of causing a panic, as in [`Site::leaked`].
    #[must_use]
    pub fn leaked(content: &str) -> Self {
        Self::new(leaked_text(content))
    }

    /// The name itself.
    #[must_use]
    pub const fn content(&self) -> &'static str {
        self.content
    }

    /// The name's index in that session; 0 if it has none yet.
    #[inline(always)]
    pub(super) fn index(&self, generation: Generation) -> u64 {
        // Acquire: the string's record comes before ours.
        let word = SiteWord(self.word.load(Ordering::Acquire));
        if word.is_of(generation) { NAME.get(word.0) } else { 0 }
    }

    /// The name in the form for a record of this session.
    #[inline]
    pub(super) fn text(&'static self, session: &Session) -> Text<'static> {
        // Acquire: the string's record precedes ours.
        let word = self.word.load(Ordering::Acquire);
        if GENERATION.get(word) == u64::from(session.generation().get()) {
            return text(NAME.get(word), self.content);
        }
        self.look_up(session)
    }

    #[cold]
    #[inline(never)]
    fn look_up(&'static self, session: &Session) -> Text<'static> {
        let index = session.string(self.content);
        let word = SiteWord::new(session.generation(), true, StringRef::EMPTY, index);
        // Release: the string's record is written.
        self.word.store(word.0, Ordering::Release);
        text(NAME.get(word.0), self.content)
    }
}
