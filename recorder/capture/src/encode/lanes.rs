//! Where the encoder's records go.

use fxt_writer::record::Record;

/// The trace takes no more records: it is full, or its sink has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace takes no more records")]
pub struct Closed;

/// Two lanes into one trace: records that later ones refer to, and all others.
///
/// Whatever was put into [`Lanes::durable`] comes before what is put into
/// [`Lanes::rolling`] afterwards, for whoever reads the trace.
pub trait Lanes {
    /// Writes a string, name or other record that later ones refer to.
    ///
    /// # Errors
    /// [`Closed`], and the record is not in the trace.
    fn durable(&mut self, record: &impl Record) -> Result<(), Closed>;

    /// Writes any other record.
    ///
    /// # Errors
    /// [`Closed`], and the record is not in the trace.
    fn rolling(&mut self, record: &impl Record) -> Result<(), Closed>;
}

/// One vector for both, for tests and for what needs no engine.
impl Lanes for Vec<u8> {
    fn durable(&mut self, record: &impl Record) -> Result<(), Closed> {
        record.write(self).map_err(|_| Closed)
    }

    fn rolling(&mut self, record: &impl Record) -> Result<(), Closed> {
        record.write(self).map_err(|_| Closed)
    }
}
