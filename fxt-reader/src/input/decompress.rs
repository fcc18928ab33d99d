//! Compressed traces: told by their first bytes, decompressed on the way.

use std::io::{self, Read};

use crate::types::Container;

/// The two bytes that every gzip member begins with (RFC 1952, section 2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// The four bytes that every Zstandard frame begins with (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// What the input is, judged by its first bytes.
pub(crate) fn container_of(first: &[u8]) -> Container {
    if first.starts_with(GZIP_MAGIC) {
        Container::Gzip
    } else if first.starts_with(ZSTD_MAGIC) {
        Container::Zstd
    } else {
        Container::Plain
    }
}

/// What is inside `source`; `None` when this build cannot read `container`.
pub(crate) fn decompressor<'i>(
    container: Container,
    source: Box<dyn Read + 'i>,
) -> Option<io::Result<Box<dyn Read + 'i>>> {
    match container {
        Container::Plain => Some(Ok(source)),
        #[cfg(feature = "gzip")]
        Container::Gzip => Some(Ok(Box::new(flate2::read::MultiGzDecoder::new(source)))),
        #[cfg(feature = "zstd")]
        Container::Zstd => {
            Some(zstd::stream::read::Decoder::new(source).map(|decoder| Box::new(decoder) as _))
        }
        #[allow(unreachable_patterns, reason = "all are reachable in some set of features")]
        _ => None,
    }
}
