//! A comparison for people and for programs.

mod json;
mod text;

pub use json::{SCHEMA_VERSION, json};
pub use text::{Text, change, why_not_judged};

#[cfg(test)]
mod tests;
