//! Text in payloads: lists of items that each end in a newline.

use super::{MAX_ITEM_BYTES, WireError};

/// The items of a list.
pub(super) fn decode(payload: &[u8]) -> Result<Vec<String>, WireError> {
    let Some(text) = text(payload)?.strip_suffix('\n') else {
        return if payload.is_empty() { Ok(Vec::new()) } else { Err(WireError::CutList) };
    };
    let items = text.split('\n').enumerate();
    items.map(|(index, item)| checked(index, item).map(str::to_owned)).collect()
}

/// Appends items to a payload.
pub(super) fn encode<'a>(
    items: impl IntoIterator<Item = &'a str>,
    payload: &mut Vec<u8>,
) -> Result<(), WireError> {
    for (index, item) in items.into_iter().enumerate() {
        payload.extend_from_slice(checked(index, item)?.as_bytes());
        payload.push(b'\n');
    }
    Ok(())
}

/// Decodes `bytes` as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|error| WireError::NotUtf8 { at: error.valid_up_to() })
}

fn checked(index: usize, item: &str) -> Result<&str, WireError> {
    let fits = (1..=MAX_ITEM_BYTES).contains(&item.len());
    if fits && !item.contains(['\n', '\0']) { Ok(item) } else { Err(WireError::Item { index }) }
}
