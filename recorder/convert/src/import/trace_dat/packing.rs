//! Decompresses parts of a trace.dat.

use std::io::Read;

use crate::import::error::ImportError;

/// Pieces with a greater length are rejected.
const MOST_BYTES: u32 = 1 << 28;

/// The compression of a file's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packer {
    Zstd,
    Zlib,
}

impl Packer {
    /// The compression with that name; `None` for `none`.
    pub(super) fn of_name(name: &str) -> Result<Option<Packer>, ImportError> {
        match name {
            "" | "none" => Ok(None),
            "zstd" => Ok(Some(Packer::Zstd)),
            "zlib" => Ok(Some(Packer::Zlib)),
            other => Err(ImportError::Packing(other.to_owned())),
        }
    }

    /// Decompresses a piece, which then has `bytes` bytes.
    pub(super) fn unpack(
        self,
        part: &'static str,
        packed: &[u8],
        bytes: u32,
    ) -> Result<Vec<u8>, ImportError> {
        let failed = |source| ImportError::Unpack { part, source };
        if bytes > MOST_BYTES {
            let text = format!("a piece of {bytes} bytes");
            return Err(failed(std::io::Error::new(std::io::ErrorKind::InvalidData, text)));
        }
        let mut plain = Vec::new();
        let limit = u64::from(bytes);
        let read = match self {
            Packer::Zstd => zstd::stream::read::Decoder::new(packed)
                .and_then(|unpacked| unpacked.take(limit).read_to_end(&mut plain)),
            Packer::Zlib => {
                flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut plain)
            }
        };
        read.map_err(failed)?;
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_unpacked_and_not_beyond_what_they_say() {
        let text = b"a piece of a trace, a piece of a trace".repeat(10);
        let packed = zstd::encode_all(&text[..], 3).expect("it can be packed");
        let whole = Packer::Zstd.unpack("pages", &packed, text.len() as u32).expect("it is whole");
        assert_eq!(whole, text);
        let cut = Packer::Zstd.unpack("pages", &packed, 5).expect("a beginning");
        assert_eq!(cut, text[..5]);
        Packer::Zstd.unpack("pages", &packed[..packed.len() / 2], 380).expect_err("half of it");
        Packer::Zlib.unpack("pages", b"nonsense", 380).expect_err("something else");
        Packer::Zstd.unpack("pages", &packed, u32::MAX).expect_err("not believed");
    }

    #[test]
    fn an_unknown_packer_is_named() {
        assert_eq!(Packer::of_name("none").expect("known"), None);
        let error = Packer::of_name("rar").expect_err("unknown");
        assert!(error.to_string().contains("compressed with rar"), "{error}");
    }
}
