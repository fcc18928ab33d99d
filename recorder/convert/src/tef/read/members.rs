//! The members of a JSON object: names, and values as unparsed text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object's members in order, including duplicates.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The members of a value, if it is an object.
    pub(super) fn of(value: &'a RawValue) -> Option<Self> {
        value.get().starts_with('{').then(|| serde_json::from_str(value.get()).ok()).flatten()
    }

    /// The first member with that name.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The value of the first member with that name, if it is a number in the range of `T`.
    pub(super) fn number<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        T::try_from(self.get(name).and_then(integer)?).ok()
    }

    /// Removes and returns the first member with that name, if it is a number in the range of `T`.
    pub(super) fn take_number<T: TryFrom<u64>>(&mut self, name: &str) -> Option<T> {
        T::try_from(self.take(name).and_then(integer)?).ok()
    }

    /// Removes and returns the first member with that name.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::with_capacity(10);
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A name, borrowed unless it has escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The content of a string; `None` for any other value.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let json = value.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// An integer of up to 64 bits, or a string of digits, which is common for ids.
pub(super) fn integer(value: &RawValue) -> Option<u64> {
    let json = value.get();
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_order_duplicates_and_text() {
        let members: Members<'_> =
            serde_json::from_str(r#"{"b": 1.50, "a\n": "x\ty", "b": [ ]}"#).expect("an object");
        let pairs: Vec<_> = members.0.iter().map(|(name, value)| (&**name, value.get())).collect();
        assert_eq!(pairs, [("b", "1.50"), ("a\n", r#""x\ty""#), ("b", "[ ]")]);
        assert_eq!(members.get("a\n").and_then(text).as_deref(), Some("x\ty"));
    }

    #[test]
    fn ids_are_read_as_numbers_and_as_digits() {
        let members: Members<'_> = serde_json::from_str(
            r#"{"a": 18446744073709551615, "b": "42", "c": -1, "d": "x", "e": 1.5}"#,
        )
        .expect("an object");
        let read = |name| members.get(name).and_then(integer);
        assert_eq!(read("a"), Some(u64::MAX));
        assert_eq!(read("b"), Some(42));
        assert_eq!((read("c"), read("d"), read("e")), (None, None, None));
        assert_eq!((members.number("b"), members.number::<u8>("c")), (Some(42_u8), None));
        assert_eq!(members.number::<u32>("a"), None, "it does not fit");
    }
}
