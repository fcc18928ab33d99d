//! The messages of the writing process to the daemon.
//!
//! ```text
//!  0      1        5
//!  | kind | length | payload ...
//! ```

use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::Destination;

/// Maximum size of a message: that of a client.
const MOST_BYTES: usize = 2 * 1024 * 1024;

/// Bytes before the payload.
const HEAD_BYTES: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// This is the message that came with descriptors.
    Received(Vec<u8>),
    /// This is the output.
    Output(Destination),
    /// The output cannot be written, for this reason.
    Unfit(String),
    /// The total number of bytes written.
    Written(u64),
    /// No more data can be written, for this reason.
    Failed(String),
    Done,
}

impl News {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, payload) = match self {
            News::Received(message) => (1, message.clone()),
            News::Output(Destination { is_file, path }) => {
                let mut payload = vec![u8::from(*is_file)];
                payload.extend(path.iter().flat_map(|path| path.as_os_str().as_bytes()));
                (2, payload)
            }
            News::Unfit(why) => (3, why.clone().into_bytes()),
            News::Written(bytes) => (4, bytes.to_ne_bytes().to_vec()),
            News::Failed(why) => (5, why.clone().into_bytes()),
            News::Done => (6, Vec::new()),
        };
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        [&[kind][..], &length.to_ne_bytes(), &payload].concat()
    }

    fn decode(kind: u8, payload: &[u8]) -> Option<News> {
        let text = || String::from_utf8_lossy(payload).into_owned();
        Some(match kind {
            1 => News::Received(payload.to_vec()),
            2 => {
                let (is_file, path) = payload.split_first()?;
                let path = std::ffi::OsString::from_vec(path.to_vec());
                let path = Some(path).filter(|path| !path.is_empty()).map(Into::into);
                News::Output(Destination { is_file: *is_file == 1, path })
            }
            3 => News::Unfit(text()),
            4 => News::Written(u64::from_ne_bytes(payload.try_into().ok()?)),
            5 => News::Failed(text()),
            6 => News::Done,
            _ => return None,
        })
    }
}

/// Received bytes that have not been parsed.
#[derive(Debug, Default)]
pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The first complete message.
    ///
    /// # Errors
    /// Returns an error when it is invalid: the process runs as the client's user and is not trusted.
    pub(super) fn next(&mut self) -> io::Result<Option<News>> {
        let Some((&[kind, ref length @ ..], rest)) = self.0.split_first_chunk::<HEAD_BYTES>()
        else {
            return Ok(None);
        };
        let length = u32::from_ne_bytes(*length) as usize;
        if length > MOST_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let news = News::decode(kind, payload).ok_or(ErrorKind::InvalidData)?;
        self.0.drain(..HEAD_BYTES + length);
        Ok(Some(news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_understood_byte_by_byte() {
        let all = [
            News::Received(b"{}\0".to_vec()),
            News::Output(Destination { is_file: true, path: Some("/tmp/t.fxt".into()) }),
            News::Output(Destination { is_file: false, path: None }),
            News::Unfit("no".to_owned()),
            News::Written(u64::MAX),
            News::Failed("gone".to_owned()),
            News::Done,
        ];
        let mut inbox = Inbox::default();
        let mut heard = Vec::new();
        for byte in all.iter().flat_map(News::encode) {
            inbox.add(&[byte]);
            heard.extend(inbox.next().expect("sense"));
        }
        assert_eq!(heard, all);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for bytes in [[9, 0, 0, 0, 0], [1, 0xff, 0xff, 0xff, 0xff], [4, 0, 0, 0, 0]] {
            let mut inbox = Inbox::default();
            inbox.add(&bytes);
            assert!(inbox.next().is_err(), "{bytes:?}");
        }
    }
}
