//! Where code without a name begins: the index that exceptions and debuggers use.
//!
//! `.eh_frame_hdr` survives stripping, since C++ and Rust programs need it to
//! run. It is a table of the addresses at which functions, and the parts that
//! compilers split off them, begin.
//!
//! ```text
//! version u8 = 1, encodings of: pointer u8, count u8, table u8
//! pointer to .eh_frame (4 bytes), count u32
//! count entries: address i32, description i32, both from the header's own address, by address
//! ```

use object::ReadRef;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

use super::{Elf, LARGEST_TABLE};

/// Signed 4 bytes, from the location itself: how linkers write the pointer.
const POINTER: u8 = 0x1B;
/// The encoding of the count: unsigned, 4 bytes.
const COUNT: u8 = 0x03;
/// Signed 4 bytes, from the header's address: how they write the table.
const TABLE: u8 = 0x3B;

const HEADER: usize = 12;
const ENTRY: usize = 8;

impl<'d, R: ReadRef<'d>> Elf<'d, R> {
    /// Where the code that contains `address` begins, by the index of unwind information; an
    /// instruction begins there. `None` if there is no such index, or no entry before `address`.
    pub(crate) fn code_start(&self, address: u64) -> Option<u64> {
        let headers = self.header.program_headers(self.endian, self.data).ok()?;
        let header =
            headers.iter().find(|header| header.p_type(self.endian) == elf::PT_GNU_EH_FRAME)?;
        if header.p_filesz(self.endian) > LARGEST_TABLE {
            return None;
        }
        let bytes = header.data(self.endian, self.data).ok()?;
        let start = last_start(bytes, header.p_vaddr(self.endian), address)?;
        // A table that is not sorted, or that belongs to another file, is meaningless.
        (start <= address && self.is_executable(start)).then_some(start)
    }
}

fn last_start(index: &[u8], base: u64, address: u64) -> Option<u64> {
    if index.get(..4)? != [1, POINTER, COUNT, TABLE] {
        return None;
    }
    let count = u32::from_le_bytes(index.get(8..HEADER)?.try_into().ok()?);
    let (entries, _) = index.get(HEADER..)?.as_chunks::<ENTRY>();
    let entries = entries.get(..usize::try_from(count).ok()?)?;
    let start = |entry: &[u8; ENTRY]| {
        let [a, b, c, d, ..] = *entry;
        base.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])))
    };
    let behind = entries.partition_point(|entry| start(entry) <= address);
    entries.get(behind.checked_sub(1)?).map(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(starts: &[i32]) -> Vec<u8> {
        let mut index = vec![1, POINTER, COUNT, TABLE, 0, 0, 0, 0];
        index.extend((starts.len() as u32).to_le_bytes());
        for start in starts {
            index.extend(start.to_le_bytes());
            index.extend([0; 4]);
        }
        index
    }

    #[test]
    fn the_last_start_before_an_address_is_its_codes() {
        let index = index(&[-0x1000, -0xF00, -0x800]);
        let of = |address| last_start(&index, 0x3000, address);
        assert_eq!(of(0x1FFF), None);
        assert_eq!(of(0x2000), Some(0x2000));
        assert_eq!(of(0x20FF), Some(0x2000));
        assert_eq!(of(0x2100), Some(0x2100));
        assert_eq!(of(0x9000), Some(0x2800));
    }

    #[test]
    fn an_index_of_another_form_or_too_short_says_nothing() {
        let sound = index(&[-0x1000, -0xF00]);
        for length in 0..sound.len() {
            assert_eq!(last_start(&sound[..length], 0x3000, 0x2000), None, "{length}");
        }
        let mut other = sound;
        other[3] = 0x0B;
        assert_eq!(last_start(&other, 0x3000, 0x2000), None);
    }
}
