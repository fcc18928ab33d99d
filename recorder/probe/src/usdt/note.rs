//! The section `.note.stapsdt`.
//!
//! ```text
//! size of name u32, of description u32, type u32 = 3
//! "stapsdt\0", padded to 4 bytes
//! address of the nop u64, of the section .stapsdt.base u64, of the semaphore u64 or 0
//! provider\0 name\0 arguments\0, padded to 4 bytes
//! ```
//!
//! Prelinking moves a program's sections without updating such notes; the base that the note contains then differs from the address of
//! `.stapsdt.base` by the distance by which the other two addresses have to be moved.

use object::ReadRef;

use crate::elf::{Elf, ElfError};

const SECTION: &str = ".note.stapsdt";
const BASE_SECTION: &str = ".stapsdt.base";
const OWNER: &[u8] = b"stapsdt\0";
const TYPE: u32 = 3;
const ADDRESSES: usize = 3 * size_of::<u64>();

/// A USDT probe at one location; a probe that the compiler inlined several times counts as several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// Its provider, usually the program or library.
    pub provider: String,
    pub name: String,
    /// Where it is, before the loader moves the file.
    pub address: u64,
    /// The address of the counter that opens its guard, likewise.
    pub semaphore: Option<u64>,
    /// Where its arguments are, as the assembler wrote them.
    pub arguments: String,
}

impl Probe {
    /// Its name with its provider's, in the form of specs.
    pub fn id(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }
}

/// An error in a file's USDT probes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsdtError {
    /// The section is not at the stated location.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A note ends in its middle or has no readable names.
    #[error("its USDT probes are damaged: note {0} is invalid")]
    Note(usize),
}

/// The USDT probes of a file, by provider, name and address.
///
/// # Errors
/// Returns an error when its notes are damaged.
pub fn probes<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Result<Vec<Probe>, UsdtError> {
    let Some((notes, _)) = elf.section(SECTION)? else { return Ok(Vec::new()) };
    // Only its address is relevant, and sections without bytes have an address too.
    let base = elf.section(BASE_SECTION)?.map(|(_, address)| address);
    parse(notes, base)
}

fn parse(notes: &[u8], base: Option<u64>) -> Result<Vec<Probe>, UsdtError> {
    let mut probes = Vec::new();
    let mut rest = Bytes(notes);
    let mut number = 0;
    while !rest.0.is_empty() {
        number += 1;
        let probe = note(&mut rest, base).ok_or(UsdtError::Note(number))?;
        probes.extend(probe);
    }
    probes.sort();
    probes.dedup();
    Ok(probes)
}

/// The next note, `Some(None)` if it belongs to another owner.
fn note(rest: &mut Bytes<'_>, base: Option<u64>) -> Option<Option<Probe>> {
    let [owner_size, size, kind] = [rest.u32()?, rest.u32()?, rest.u32()?];
    let owner = rest.padded(owner_size)?;
    let mut description = Bytes(rest.padded(size)?);
    if owner != OWNER || kind != TYPE {
        return Some(None);
    }
    if description.0.len() < ADDRESSES {
        return None;
    }
    let [address, remembered, semaphore] =
        [description.u64()?, description.u64()?, description.u64()?];
    let moved = match base {
        Some(base) if remembered != 0 => base.wrapping_sub(remembered),
        _ => 0,
    };
    Some(Some(Probe {
        provider: description.text()?,
        name: description.text()?,
        address: address.wrapping_add(moved),
        semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
        // Some assemblers leave it out if there are no arguments.
        arguments: description.text().unwrap_or_default(),
    }))
}

/// The rest of a section.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(size_of::<u32>())?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(size_of::<u64>())?.try_into().ok()?))
    }

    /// `size` bytes and the padding after them, which may be missing after the last note.
    fn padded(&mut self, size: u32) -> Option<&'a [u8]> {
        let size = usize::try_from(size).ok()?;
        let taken = self.take(size)?;
        let padding = size.checked_next_multiple_of(4)? - size;
        self.take(padding.min(self.0.len()))?;
        Some(taken)
    }

    fn text(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(self.take(end)?).ok()?.to_owned();
        self.take(1)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_of(addresses: [u64; 3], texts: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        note.extend(8_u32.to_le_bytes());
        note.extend(((ADDRESSES + texts.len()) as u32).to_le_bytes());
        note.extend(TYPE.to_le_bytes());
        note.extend(OWNER);
        note.extend(addresses.iter().flat_map(|address| address.to_le_bytes()));
        note.extend(texts);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn a_note_is_taken_apart() {
        let file = [
            note_of([0x1010, 0, 0], b"app\0stop\0\0"),
            note_of([0x1000, 0, 0x4010], b"app\0start\0-4@%edi 8@%rsi\0"),
        ]
        .concat();
        let probes = parse(&file, None).expect("sound notes");
        assert_eq!(probes.len(), 2);
        let start = Probe {
            provider: "app".into(),
            name: "start".into(),
            address: 0x1000,
            semaphore: Some(0x4010),
            arguments: "-4@%edi 8@%rsi".into(),
        };
        assert_eq!(probes[0], start);
        assert_eq!((probes[1].semaphore, probes[1].arguments.as_str()), (None, ""));
    }

    #[test]
    fn a_prelinked_programs_addresses_are_moved_with_its_base() {
        let file = note_of([0x1000, 0x2000, 0x4010], b"a\0b\0\0");
        let probes = parse(&file, Some(0x7000_2000)).expect("a sound note");
        assert_eq!(probes[0].address, 0x7000_1000);
        assert_eq!(probes[0].semaphore, Some(0x7000_4010));
        let probes = parse(&file, Some(0x2000)).expect("a sound note");
        assert_eq!(probes[0].address, 0x1000);
    }

    #[test]
    fn notes_of_others_are_stepped_over() {
        let mut other = note_of([0; 3], b"a\0b\0\0");
        other[8] = 1;
        let file = [other, note_of([1, 0, 0], b"a\0b\0\0")].concat();
        assert_eq!(parse(&file, None).expect("sound notes").len(), 1);
    }

    #[test]
    fn a_note_that_is_cut_off_is_named() {
        let file = [note_of([1, 0, 0], b"a\0b\0\0"), note_of([2, 0, 0], b"a\0c\0\0")].concat();
        let first = note_of([1, 0, 0], b"a\0b\0\0").len();
        for length in first + 1..first + 12 + 8 + ADDRESSES + 3 {
            assert_eq!(parse(&file[..length], None), Err(UsdtError::Note(2)), "{length}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            noise in proptest::collection::vec(proptest::num::u8::ANY, 0..100),
            base in proptest::option::of(proptest::num::u64::ANY),
            at in 0_usize..60,
        ) {
            let _ = parse(&noise, base);
            let mut almost = note_of([1, 2, 3], b"provider\0name\0 4@%eax\0");
            almost.splice(at..at, noise);
            let _ = parse(&almost, base);
        }
    }
}
