//! The part of HTTP/1.1 (RFC 9112) that serving one resource needs.

use std::io::{self, BufRead, Read};

/// Maximum size of a request in bytes; browsers send a few hundred.
const MAX_BYTES: u64 = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path, without the query.
    pub(super) path: String,
    pub(super) host: Option<String>,
    /// The page that sent the request, according to the browser.
    pub(super) origin: Option<String>,
    /// The media types that the peer understands.
    pub(super) accept: Option<String>,
}

impl Request {
    /// Whether these bytes reach the empty line after a request, or exceed the limit.
    pub(super) fn is_whole(bytes: &[u8]) -> bool {
        let ends = |end: &[u8]| bytes.windows(end.len()).any(|it| it == end);
        bytes.len() as u64 >= MAX_BYTES || ends(b"\n\r\n") || ends(b"\n\n")
    }

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
        let method = method.to_owned();
        let mut request = Self { method, path, host: None, origin: None, accept: None };
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
                // With two requests, another program may have sent the second one.
                if request.host.is_some() {
                    return Ok(None);
                }
                request.host = value();
            } else if name.eq_ignore_ascii_case("origin") {
                request.origin = value();
            } else if name.eq_ignore_ascii_case("accept") {
                request.accept = value();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Request> {
        Request::read(&mut text.as_bytes()).expect("memory")
    }

    #[test]
    fn a_request_with_two_hosts_is_none() {
        let host = |text: &str| read(text).map(|request| request.host);
        assert_eq!(host("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Some(Some("a".to_owned())));
        for second in ["Host: localhost", "host:", "HOST: a"] {
            let two = format!("GET / HTTP/1.1\r\nHost: evil.example\r\n{second}\r\n\r\n");
            assert_eq!(host(&two), None, "{second}");
        }
    }

    #[test]
    fn a_request_is_whole_with_its_empty_line() {
        assert!(!Request::is_whole(b"GET / HTTP/1.1\r\nHost: a\r\n"));
        assert!(Request::is_whole(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(Request::is_whole(b"GET / HTTP/1.1\n\nmore"));
        assert!(Request::is_whole(&[b'a'; 16 * 1024]));
    }
}
