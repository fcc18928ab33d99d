//! `/etc/ld.so.cache`: the loader's list of libraries in the directories it searches.
//!
//! ```text
//! "glibc-ld.so.cache1.1"  nlibs u32  len_strings u32  5 words
//! nlibs entries: flags i32, name u32, path u32, os version u32, hwcap u64
//! names and paths, ending with zero bytes; offsets count from the start of the list
//! ```
//!
//! Older systems have a list in another format before it, which is skipped by
//! searching for the magic string.

use std::path::PathBuf;

use crate::elf::Arch;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// The bits of an entry's flags that select the processor.
const PROCESSOR: u32 = 0xFF00;

/// A library in the loader's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The libraries for processors of this kind, in the loader's order; none if this is not a cache.
pub(super) fn parse(file: &[u8], arch: Arch) -> Vec<Entry> {
    let Some(start) = file.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return Vec::new();
    };
    let list = &file[start..];
    let Some(count) = word(list, MAGIC.len()) else { return Vec::new() };
    let entries = list.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY);
    entries.take(count as usize).filter_map(|entry| take(list, entry, arch)).collect()
}

fn take(list: &[u8], entry: &[u8], arch: Arch) -> Option<Entry> {
    let processor = match arch {
        Arch::X86_64 => 0x0300,
        Arch::Aarch64 => 0x0A00,
    };
    if word(entry, 0)? & PROCESSOR != processor {
        return None;
    }
    Some(Entry {
        name: text(list, word(entry, 4)?)?.to_owned(),
        path: PathBuf::from(text(list, word(entry, 8)?)?),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + size_of::<u32>())?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn text(list: &[u8], at: u32) -> Option<&str> {
    let rest = list.get(at as usize..)?;
    let end = rest.iter().take(4096).position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut list = MAGIC.to_vec();
        list.extend((entries.len() as u32).to_ne_bytes());
        list.resize(HEADER, 0);
        let base = HEADER + entries.len() * ENTRY;
        for (flags, name, path) in entries {
            list.extend(flags.to_ne_bytes());
            for text in [name, path] {
                list.extend(((base + strings.len()) as u32).to_ne_bytes());
                strings.extend(text.as_bytes());
                strings.push(0);
            }
            list.extend([0; 12]);
        }
        list.extend(strings);
        list
    }

    #[test]
    fn entries_for_this_processor_are_taken_in_order() {
        let file = cache(&[
            (0x0303, "libz.so.1", "/lib/x86_64-linux-gnu/libz.so.1"),
            (0x0003, "libz.so.1", "/lib32/libz.so.1"),
            (0x0A03, "libz.so.1", "/lib/aarch64-linux-gnu/libz.so.1"),
            (0x0303, "libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
        ]);
        let names: Vec<_> =
            parse(&file, Arch::X86_64).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["libz.so.1", "libc.so.6"]);
        let old = [b"ld.so-1.7.0\0\0\0\0\0".to_vec(), file].concat();
        assert_eq!(
            parse(&old, Arch::Aarch64)[0].path.to_str(),
            Some("/lib/aarch64-linux-gnu/libz.so.1")
        );
    }

    proptest::proptest! {
        #[test]
        fn a_damaged_cache_is_read_as_far_as_it_goes(
            at in 0_usize..200, byte in proptest::num::u8::ANY, length in 0_usize..200,
        ) {
            let mut file = cache(&[(0x0303, "libz.so.1", "/lib/libz.so.1"), (0x0303, "a", "b")]);
            if let Some(there) = file.get_mut(at) {
                *there = byte;
            }
            file.truncate(length);
            assert!(parse(&file, Arch::X86_64).len() <= 2);
        }
    }
}
