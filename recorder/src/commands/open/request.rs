//! Requests of HTTP/1.1, as much of them as serving one file takes (RFC 9112).

use std::io::{self, BufRead, Read};

/// Bytes of a request that are looked at; browsers send a few hundred.
const MAX_BYTES: u64 = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path, without what may follow a question mark.
    pub(super) path: String,
    pub(super) host: Option<String>,
    /// The page that asks, as the browser says.
    pub(super) origin: Option<String>,
}

impl Request {
    /// Reads a request up to the empty line; `None` for anything else.
    pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut input = input.take(MAX_BYTES);
        let mut line = String::new();
        input.read_line(&mut line)?;
        let mut words = line.split_ascii_whitespace();
        let (Some(method), Some(target), Some(version)) =
            (words.next(), words.next(), words.next())
        else {
            return Ok(None);
        };
        if !version.starts_with("HTTP/1.") {
            return Ok(None);
        }
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let mut request = Self { method: method.to_owned(), path, host: None, origin: None };
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                return Ok(Some(request));
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = || Some(value.trim().to_owned());
            if name.eq_ignore_ascii_case("host") {
                request.host = value();
            } else if name.eq_ignore_ascii_case("origin") {
                request.origin = value();
            }
        }
    }
}
