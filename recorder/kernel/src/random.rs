//! Unguessable numbers.

use std::io;

/// Random bytes in a token: enough that nobody can guess it.
const TOKEN_BYTES: usize = 16;

/// Digits that no other process can guess, and that do not need escaping.
///
/// # Errors
/// Errors of getrandom(2).
pub fn hex_token() -> io::Result<String> {
    let mut random = [0_u8; TOKEN_BYTES];
    // SAFETY: the buffer is writable for the length given, and any bytes make valid integers.
    let got = unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    // A request for so few bytes returns at once or fails.
    if usize::try_from(got) != Ok(random.len()) {
        return Err(io::Error::last_os_error());
    }
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_tokens_are_the_same() {
        let tokens = [(); 3].map(|()| hex_token().expect("the kernel has random numbers"));
        assert!(
            tokens.iter().all(|it| it.len() == 32 && it.bytes().all(|c| c.is_ascii_hexdigit()))
        );
        assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2] && tokens[0] != tokens[2]);
    }
}
