//! A comparison as text and as JSON.

mod json;
mod text;

pub use json::{SCHEMA_VERSION, json};
pub use text::{Text, change, why_not_judged};

#[cfg(test)]
mod tests;
