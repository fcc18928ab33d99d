//! What `perf record -o -` writes: the same records without the parts that need seeking.
//!
//! The descriptions of tracepoints are in the middle of the stream there, behind a record that only says how long they
//! are. [`split`] takes them out, so that the parser of perf.data sees nothing but records.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the head of a piped perf.data: magic number and its own size. That of a file is longer.
const PIPE_HEAD: usize = 16;

/// Bytes of the head of a record: type, miscellaneous bits, size.
const RECORD_HEAD: usize = 8;

/// `PERF_RECORD_HEADER_TRACING_DATA`: as many bytes as its body says follow.
const TRACING_DATA: u32 = 66;

/// `PERF_RECORD_AUXTRACE`: the same, with the number in eight bytes.
const AUXTRACE: u32 = 71;

/// Descriptions of tracepoints longer than this are not believed.
const MOST_DESCRIBED: u32 = 1 << 28;

/// The descriptions of tracepoints, from when they have been read on.
#[derive(Clone, Debug, Default)]
pub(super) struct Described(Arc<Mutex<Option<Vec<u8>>>>);

impl Described {
    pub(super) fn set(&self, bytes: Vec<u8>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }

    pub(super) fn get(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells by its first bytes whether perf.data was written to a pipe.
pub(super) fn is_pipe(first: &[u8]) -> bool {
    let size = first.get(8..).and_then(|size| size.first_chunk()).copied().unwrap_or_default();
    [u64::from_le_bytes(size), u64::from_be_bytes(size)].contains(&(PIPE_HEAD as u64))
}

/// Takes the descriptions out of a stream.
pub(super) fn split<R: Read>(input: R) -> (Records<R>, Described) {
    let described = Described::default();
    let state = State::Head;
    (Records { input, described: described.clone(), state, ready: Cursor::default() }, described)
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before the stream's own head.
    Head,
    /// Before the head of a record.
    Record,
    /// In the middle of something that is passed on.
    Passing(u64),
}

/// The records of a stream, without the descriptions between them.
#[derive(Debug)]
pub(super) struct Records<R> {
    input: R,
    described: Described,
    state: State,
    ready: Cursor<Vec<u8>>,
}

impl<R: Read> Records<R> {
    /// As many bytes, or fewer where the stream ends.
    fn up_to(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut taken = Vec::new();
        self.input.by_ref().take(bytes).read_to_end(&mut taken)?;
        Ok(taken)
    }

    /// Gets the next piece ready; nothing at the end.
    fn advance(&mut self) -> io::Result<()> {
        match self.state {
            State::Head => {
                self.ready = Cursor::new(self.up_to(PIPE_HEAD as u64)?);
                self.state = State::Record;
            }
            State::Record => {
                let head = self.up_to(RECORD_HEAD as u64)?;
                self.state = State::Record;
                let Some(head) = head.first_chunk::<RECORD_HEAD>().copied() else {
                    self.ready = Cursor::new(head);
                    return Ok(());
                };
                let [k0, k1, k2, k3, _, _, s0, s1] = head;
                let kind = u32::from_ne_bytes([k0, k1, k2, k3]);
                let body =
                    u64::from(u16::from_ne_bytes([s0, s1])).saturating_sub(RECORD_HEAD as u64);
                match kind {
                    TRACING_DATA => return self.describe(body),
                    AUXTRACE => {
                        let body = self.up_to(body)?;
                        let size = body.first_chunk().map_or(0, |size| u64::from_ne_bytes(*size));
                        self.state = State::Passing(size);
                        self.ready = Cursor::new([&head[..], &body].concat());
                    }
                    _ => {
                        self.state = State::Passing(body);
                        self.ready = Cursor::new(head.to_vec());
                    }
                }
            }
            State::Passing(_) => {}
        }
        Ok(())
    }

    fn describe(&mut self, body: u64) -> io::Result<()> {
        let body = self.up_to(body)?;
        let size = body.first_chunk().map_or(0, |size| u32::from_ne_bytes(*size));
        if size > MOST_DESCRIBED {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("descriptions of tracepoints of {size} bytes"),
            ));
        }
        let described = self.up_to(u64::from(size.next_multiple_of(8)))?;
        self.described.set(described);
        self.advance()
    }
}

impl<R: Read> Read for Records<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.ready.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if let State::Passing(left) = self.state {
                if left == 0 {
                    self.state = State::Record;
                    continue;
                }
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                let read = self.input.read(&mut buffer[..most])?;
                self.state = State::Passing(left - read as u64);
                return Ok(read);
            }
            self.advance()?;
            if self.ready.get_ref().is_empty() && !matches!(self.state, State::Passing(_)) {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = (RECORD_HEAD + body.len()) as u16;
        [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes(), body].concat()
    }

    fn stream() -> (Vec<u8>, Vec<u8>) {
        let head = [&b"PERFILE2"[..], &16u64.to_ne_bytes()].concat();
        let first = record(64, &[1; 24]);
        let aux =
            [record(AUXTRACE, &[&5u64.to_ne_bytes()[..], &[0; 8]].concat()), vec![9; 5]].concat();
        let last = record(9, &[2; 40]);
        let described =
            [record(TRACING_DATA, &11u32.to_ne_bytes()), b"description\0\0\0\0\0".to_vec()];
        let expected = [&head[..], &first, &aux, &last].concat();
        let whole = [&head[..], &first, &described.concat(), &aux, &last].concat();
        (whole, expected)
    }

    #[test]
    fn descriptions_are_taken_out_and_everything_else_is_passed_on() {
        let (whole, expected) = stream();
        let (mut records, described) = split(&whole[..]);
        assert_eq!(described.get(), None);
        let mut passed = Vec::new();
        records.read_to_end(&mut passed).expect("memory can be read");
        assert_eq!(passed, expected);
        assert_eq!(described.get().as_deref(), Some(&b"description\0\0\0\0\0"[..]));
    }

    #[test]
    fn a_stream_that_is_cut_ends_there() {
        let (whole, _) = stream();
        for len in 0..whole.len() {
            let (mut records, _) = split(&whole[..len]);
            let mut passed = Vec::new();
            records.read_to_end(&mut passed).expect("memory can be read");
            assert!(passed.len() <= len);
        }
    }

    #[test]
    fn a_pipe_is_told_from_a_file_by_the_size_of_its_head() {
        for (size, expected) in [(16u64, true), (104, false)] {
            let head = [&b"PERFILE2"[..], &size.to_ne_bytes(), b"rest"].concat();
            assert_eq!(is_pipe(&head), expected);
        }
        assert!(!is_pipe(b"PERF"));
    }
}
