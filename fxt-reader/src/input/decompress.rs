//! Compressed traces: detected by their first bytes and decompressed while reading.

use std::io::{self, Read};

use super::stream::{Movable, Source};
use crate::types::Container;

/// The two bytes that every gzip member begins with (RFC 1952, section 2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// The four bytes that every Zstandard frame begins with (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The type of the input, according to its first bytes.
pub(crate) fn container_of(first: &[u8]) -> Container {
    if first.starts_with(GZIP_MAGIC) {
        Container::Gzip
    } else if first.starts_with(ZSTD_MAGIC) {
        Container::Zstd
    } else {
        Container::Plain
    }
}

/// A reader of the decompressed content of `source`; `None` when this build cannot read
/// `container`.
pub(crate) fn decompressor(
    container: Container,
    source: Source<'_>,
) -> Option<io::Result<Source<'_>>> {
    Some(match source {
        Source::Here(source) => unpack(container, source)?.map(|it| Source::Here(Box::new(it))),
        Source::Movable(Movable { source, joined }) => unpack(container, source)?
            .map(|it| Source::Movable(Movable { source: Box::new(it), joined })),
    })
}

/// A source, decompressed.
enum Unpacked<R: Read> {
    Plain(R),
    #[cfg(feature = "gzip")]
    Gzip(flate2::read::MultiGzDecoder<R>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::stream::read::Decoder<'static, io::BufReader<R>>),
}

fn unpack<R: Read>(container: Container, source: R) -> Option<io::Result<Unpacked<R>>> {
    match container {
        Container::Plain => Some(Ok(Unpacked::Plain(source))),
        #[cfg(feature = "gzip")]
        Container::Gzip => Some(Ok(Unpacked::Gzip(flate2::read::MultiGzDecoder::new(source)))),
        #[cfg(feature = "zstd")]
        Container::Zstd => Some(zstd::stream::read::Decoder::new(source).map(Unpacked::Zstd)),
        #[allow(unreachable_patterns, reason = "all are reachable in some set of features")]
        _ => None,
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Unpacked::Plain(source) => source.read(buffer),
            #[cfg(feature = "gzip")]
            Unpacked::Gzip(source) => source.read(buffer),
            #[cfg(feature = "zstd")]
            Unpacked::Zstd(source) => source.read(buffer),
        }
    }
}
