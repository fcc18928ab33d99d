//! The bytes of a table: in memory, or in a file and read when they are needed.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// How much is read at a time, in bytes.
const PAGE: usize = 4096;

/// How many pages are kept: a page replaces an earlier one whose number has the same remainder.
const PAGES: usize = 256;

/// Bytes that are read in their order.
const AHEAD: usize = 64;

#[derive(Clone, Debug)]
pub(super) enum Content<'d> {
    Memory(Cow<'d, [u8]>),
    File(Pages<'d>),
}

/// A part of a file. The file may change at any time: a read returns what it has then.
#[derive(Clone, Debug)]
pub(super) struct Pages<'d> {
    file: &'d File,
    begin: u64,
    len: usize,
    kept: Rc<RefCell<Vec<Option<Page>>>>,
}

#[derive(Debug)]
struct Page {
    number: usize,
    bytes: Vec<u8>,
}

impl<'d> Pages<'d> {
    pub(super) fn new(file: &'d File, begin: u64, len: u64) -> Option<Pages<'d>> {
        begin.checked_add(len)?;
        Some(Pages { file, begin, len: usize::try_from(len).ok()?, kept: Rc::default() })
    }

    /// Reads the beginning of `to` at an offset; returns how many bytes.
    fn read(&self, at: usize, to: &mut [u8]) -> usize {
        let left = self.len.saturating_sub(at);
        let wanted = to.len().min(left);
        let mut done = 0;
        while done < wanted {
            let (number, into) = ((at + done) / PAGE, (at + done) % PAGE);
            let mut kept = self.kept.borrow_mut();
            kept.resize_with(PAGES, || None);
            let slot = &mut kept[number % PAGES];
            if slot.as_ref().is_none_or(|page| page.number != number) {
                let mut bytes = vec![0; PAGE.min(self.len - number * PAGE)];
                let offset = self.begin + (number * PAGE) as u64;
                if self.file.read_exact_at(&mut bytes, offset).is_err() {
                    break;
                }
                *slot = Some(Page { number, bytes });
            }
            let Some(page) = slot else { break };
            let bytes = &page.bytes[into..];
            let count = bytes.len().min(wanted - done);
            to[done..done + count].copy_from_slice(&bytes[..count]);
            done += count;
        }
        done
    }
}

impl<'d> Content<'d> {
    pub(super) fn len(&self) -> usize {
        match self {
            Content::Memory(bytes) => bytes.len(),
            Content::File(pages) => pages.len,
        }
    }

    /// From an offset on.
    pub(super) fn from(&self, at: usize) -> Option<Content<'d>> {
        Some(match self {
            Content::Memory(Cow::Borrowed(bytes)) => Content::Memory(bytes.get(at..)?.into()),
            Content::Memory(Cow::Owned(bytes)) => {
                Content::Memory(Cow::Owned(bytes.get(at..)?.to_vec()))
            }
            Content::File(pages) => {
                let len = pages.len.checked_sub(at)?;
                Content::File(Pages::new(pages.file, pages.begin + at as u64, len as u64)?)
            }
        })
    }

    pub(super) fn into_owned(self) -> Option<Content<'static>> {
        Some(Content::Memory(Cow::Owned(match self {
            Content::Memory(bytes) => bytes.into_owned(),
            Content::File(pages) => {
                let mut bytes = vec![0; pages.len];
                pages.file.read_exact_at(&mut bytes, pages.begin).ok()?;
                bytes
            }
        })))
    }

    /// Reads the beginning of `to` at an offset; returns how many bytes.
    pub(super) fn read(&self, at: usize, to: &mut [u8]) -> usize {
        match self {
            Content::Memory(bytes) => {
                let bytes = bytes.get(at..).unwrap_or_default();
                let count = bytes.len().min(to.len());
                to[..count].copy_from_slice(&bytes[..count]);
                count
            }
            Content::File(pages) => pages.read(at, to),
        }
    }

    /// A number of `size` bytes, the lowest first.
    pub(super) fn number(&self, at: usize, size: usize) -> Option<u64> {
        let mut word = [0; 8];
        (self.read(at, word.get_mut(..size)?) == size).then(|| u64::from_le_bytes(word))
    }

    /// The text at an offset up to a zero, if it is shorter than `most` bytes.
    pub(super) fn text(&self, at: usize, most: usize) -> Option<String> {
        let mut text = Vec::new();
        let mut cursor = self.cursor(at);
        loop {
            match cursor.next()? {
                0 => return String::from_utf8(text).ok().filter(|text| !text.is_empty()),
                byte if text.len() + 1 < most => text.push(byte),
                _ => return None,
            }
        }
    }

    /// The bytes from an offset on.
    pub(super) fn cursor(&self, at: usize) -> Cursor<'_, 'd> {
        Cursor { content: self, at, ahead: [0; AHEAD], next: 0, end: 0 }
    }
}

/// Reads bytes in their order.
pub(super) struct Cursor<'c, 'd> {
    content: &'c Content<'d>,
    at: usize,
    ahead: [u8; AHEAD],
    /// The position of the next one there, and how many there are.
    next: usize,
    end: usize,
}

impl Iterator for Cursor<'_, '_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.next == self.end {
            (self.next, self.end) = (0, self.content.read(self.at, &mut self.ahead));
            self.at = self.at.checked_add(self.end)?;
        }
        let byte = *self.ahead[..self.end].get(self.next)?;
        self.next += 1;
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_has_the_same_bytes_as_memory_whatever_is_read_of_it() {
        let bytes: Vec<u8> = (0..3 * PAGE * PAGES / 2).map(|at| (at / 3 % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("room");
        file.write_all(&bytes).expect("room");
        let (begin, end) = (100, bytes.len() - 7);
        let part = Content::Memory(bytes[begin..end].into());
        let pages = Pages::new(&file, begin as u64, (end - begin) as u64).expect("small");
        let pages = Content::File(pages);
        assert_eq!(pages.len(), part.len());
        let last = part.len();
        // One page is read again after another took its place.
        let far = PAGE * PAGES;
        for at in
            [0, 1, PAGE - 4, PAGE - 3, PAGE, far, 1, far + 1, last - 9, last - 1, last, last + 9]
        {
            for size in [1, 4, 8] {
                assert_eq!(pages.number(at, size), part.number(at, size), "{at} {size}");
            }
            let read = |content: &Content<'_>| {
                let mut to = vec![0; 2 * PAGE];
                let count = content.read(at, &mut to);
                to[..count].to_vec()
            };
            assert_eq!(read(&pages), read(&part), "{at}");
            let all =
                |content: &Content<'_>| content.cursor(at).take(3 * AHEAD).collect::<Vec<_>>();
            assert_eq!(all(&pages), all(&part), "{at}");
            assert_eq!(pages.text(at, 5000), part.text(at, 5000), "{at}");
        }
        let kept = match &pages {
            Content::File(pages) => pages.kept.borrow().len(),
            Content::Memory(_) => 0,
        };
        assert_eq!(kept, PAGES, "no more is kept");
        file.set_len(PAGE as u64).expect("it is ours");
        assert_eq!(pages.number(last - 8, 8), part.number(last - 8, 8), "it is still kept");
        assert_eq!(pages.number(5 * PAGE, 8), None, "it was cut off");
    }
}
