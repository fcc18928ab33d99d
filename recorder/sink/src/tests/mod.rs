use std::io::{self, Read};

use fxt_format::{header, record_type};

use super::Compression;

mod files;
mod full_disk;

/// Records of 1 to 5 words with content that compresses badly.
fn records(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut noise = 1_u64;
    for number in 0..count {
        let words = number % 5 + 1;
        let first = header::TYPE.put(record_type::EVENT) | header::SIZE.put(words);
        bytes.extend(first.to_le_bytes());
        for _ in 1..words {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend(noise.to_le_bytes());
        }
    }
    bytes
}

fn unpack(compression: Compression, packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    match compression {
        Compression::None => plain.extend(packed),
        Compression::Gzip => {
            flate2::read::GzDecoder::new(packed).read_to_end(&mut plain)?;
        }
        Compression::Zstd => {
            zstd::stream::read::Decoder::new(packed)?.read_to_end(&mut plain)?;
        }
    }
    Ok(plain)
}

/// As much as can be decompressed of a stream that may be truncated.
fn unpack_what_is_there(compression: Compression, packed: &[u8]) -> Vec<u8> {
    let mut decoder: Box<dyn Read> = match compression {
        Compression::None => Box::new(packed),
        Compression::Gzip => Box::new(flate2::read::GzDecoder::new(packed)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(packed).unwrap()),
    };
    let mut plain = Vec::new();
    let mut byte = [0];
    while let Ok(1) = decoder.read(&mut byte) {
        plain.push(byte[0]);
    }
    plain
}
