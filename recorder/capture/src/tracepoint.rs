//! Locates the fields of a tracepoint by its `format` file, and reads them.

use fxtrec_kernel::format::{Field, FieldLocation, Format, FormatError};
use fxtrec_kernel::prev_state::StateTableError;
use fxtrec_units::Tid;

/// The reason why the tracepoints of this kernel cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The task states cannot be read.
    #[error(transparent)]
    States(#[from] StateTableError),
    /// A field has a size or position that no known kernel uses.
    #[error(
        "field `{field}` of tracepoint {event} is {size} bytes of an unknown kind; please report this kernel"
    )]
    Field { event: String, field: String, size: usize },
}

/// Offset of a four-byte field.
pub(super) type At = usize;

pub(super) fn locate(format: &Format, name: &str, sizes: &[usize]) -> Result<At, LayoutError> {
    let field: &Field = format.field(name)?;
    if field.place == FieldLocation::Inline && sizes.contains(&field.size) {
        return Ok(field.offset);
    }
    Err(LayoutError::Field { event: format.name.clone(), field: name.to_owned(), size: field.size })
}

pub(super) fn least(format: &Format) -> usize {
    format.fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0)
}

pub(super) fn id(format: &Format) -> Result<u16, LayoutError> {
    // A sample begins with the tracepoint's id in two bytes, so larger ids would be ambiguous.
    u16::try_from(format.id).map_err(|_| LayoutError::Field {
        event: format.name.clone(),
        field: "common_type".to_owned(),
        size: 2,
    })
}

pub(super) fn chunk<const N: usize>(raw: &[u8], at: usize) -> Option<[u8; N]> {
    raw.get(at..)?.first_chunk().copied()
}

pub(super) fn u32_at(raw: &[u8], at: At) -> Option<u32> {
    chunk(raw, at).map(u32::from_ne_bytes)
}

pub(super) fn i32_at(raw: &[u8], at: At) -> Option<i32> {
    chunk(raw, at).map(i32::from_ne_bytes)
}

pub(super) fn tid_at(raw: &[u8], at: At) -> Option<Tid> {
    u32_at(raw, at).map(Tid)
}
