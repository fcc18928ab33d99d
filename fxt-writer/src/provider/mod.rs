//! An application as a trace provider: it records its own spans into a buffer
//! that it shares with the manager (`fxtrec`), which puts them into one archive
//! with the scheduler's.
//!
//! [`wire`] is the control protocol, for both sides.

mod categories;
pub mod wire;

pub use categories::Categories;
