//! Settings files in TOML, written by root or the user: reads them, and reports each mistake with its position.
//!
//! The policy of the daemon and the configuration of the program are two of them.

use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use fxtrec_kernel::regular;
use fxtrec_units::nearest::nearest;

/// The maximum length of such a file, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// The bits of a mode that let users other than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

const PERMISSIONS: u32 = 0o7777;

/// The reason why there are no settings. `what` is the name of the file in messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the {what} {}: {source}", .path.display())]
    Read { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the {what} {} is not a regular file", .path.display())]
    NoFile { what: &'static str, path: PathBuf },
    /// Others may have written it.
    #[error("the {what} {} belongs to uid {uid}, who could change it: use chown root", .path.display())]
    Owner { what: &'static str, path: PathBuf, uid: u32 },
    /// Users other than its owner may write it.
    #[error(
        "the {what} {} is writable by users other than its owner (mode {mode:04o}), who could change it: use chmod go-w",
        .path.display()
    )]
    Mode {
        what: &'static str,
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is longer than any sensible file.
    #[error("the {what} {} has more than {most} bytes", .path.display())]
    TooLong {
        what: &'static str,
        path: PathBuf,
        /// The maximum number of bytes to read.
        most: u64,
    },
    #[error("{}:{line}:{column}: {problem}", .path.display())]
    Bad {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// The mistake, and what was expected.
        problem: String,
    },
}

impl SettingsError {
    /// Whether the file simply does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, SettingsError::Read { source, .. } if source.kind() == ErrorKind::NotFound)
    }
}

/// The error at one position of the file.
#[derive(Debug)]
pub struct Problem {
    /// Bytes before it.
    pub offset: usize,
    /// The error, and what was expected.
    pub text: String,
}

impl Problem {
    /// The problem with its line and column in the text of the file.
    pub fn in_file(self, path: &Path, text: &str) -> SettingsError {
        let before = text.get(..self.offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        SettingsError::Bad {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: self.text,
        }
    }
}

/// The text of a file, if it belongs to one of `owners` and no one else can have written it.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a regular file or is too long, or other users could have written it.
pub fn read(what: &'static str, path: &Path, owners: &[u32]) -> Result<String, SettingsError> {
    let failed = |source| SettingsError::Read { what, path: path.to_owned(), source };
    // The file that is read is the file that was checked: both use the same descriptor.
    let file = regular::open(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => SettingsError::NoFile { what, path: path.to_owned() },
        _ => failed(error),
    })?;
    let facts = file.metadata().map_err(failed)?;
    if !owners.contains(&facts.uid()) {
        return Err(SettingsError::Owner { what, path: path.to_owned(), uid: facts.uid() });
    }
    if facts.mode() & WRITABLE_BY_OTHERS != 0 {
        let mode = facts.mode() & PERMISSIONS;
        return Err(SettingsError::Mode { what, path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(SettingsError::TooLong { what, path: path.to_owned(), most: MOST_BYTES });
    }
    Ok(text)
}

/// The table that represents the whole file.
///
/// # Errors
/// Returns an error when it is no TOML.
pub fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, Problem> {
    DeTable::parse(text).map_err(|error| Problem {
        offset: error.span().map_or(0, |span| span.start),
        text: error.message().to_owned(),
    })
}

/// Refuses keys that are not `known`, and suggests the one that was probably meant.
///
/// # Errors
/// Returns the first unknown key.
pub fn check_keys(table: &DeTable<'_>, known: &[&str]) -> Result<(), Problem> {
    let unknown = table.keys().find(|key| !known.contains(&&**key.get_ref()));
    let Some(key) = unknown else { return Ok(()) };
    let meant = meant(key.get_ref(), known.iter().copied());
    let text = format!("unknown key '{}'{meant}; expected {}", key.get_ref(), known.join(", "));
    Err(at(key, text))
}

/// The suggestion of the known name that was probably meant, if there is a similar one.
pub fn meant<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(text, known, 1).pop();
    nearest.map(|name| format!(", did you mean '{name}'?")).unwrap_or_default()
}

/// The text of a value that must be a string.
///
/// # Errors
/// Returns an error when it is not a string.
pub fn string<'a>(value: &'a Spanned<DeValue<'_>>, what: &str) -> Result<&'a str, Problem> {
    value.get_ref().as_str().ok_or_else(|| expected(value, what))
}

/// Reports that something else was expected.
pub fn expected(value: &Spanned<DeValue<'_>>, what: &str) -> Problem {
    at(value, format!("expected {what}, found {}", found(value.get_ref())))
}

fn found(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A problem at this position.
pub fn at<T>(place: &Spanned<T>, text: impl Into<String>) -> Problem {
    Problem { offset: place.span().start, text: text.into() }
}
