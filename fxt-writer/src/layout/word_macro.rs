//! The notation of the layout tables.

/// Declares one word: a constant [`Field`](super::Field) per named field, and a
/// [`Word`](super::Word) that lists them. Bit positions are inclusive, as in the
/// format specification.
macro_rules! word {
    (
        $(#[$word_doc:meta])*
        $word:ident {
            $( $(#[$field_doc:meta])* $field:ident [$first:literal .. $last:literal] )+
        }
    ) => {
        $(
            $(#[$field_doc])*
            #[doc = concat!("\n\nBits `[", $first, " .. ", $last, "]`.")]
            pub const $field: $crate::layout::Field = $crate::layout::Field::new($first, $last);
        )+

        $(#[$word_doc])*
        pub const $word: $crate::layout::Word = $crate::layout::Word::new(&[
            $( (stringify!($field), $field) ),+
        ]);
    };
}
