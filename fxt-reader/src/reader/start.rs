//! The first bytes: the trace's compression and byte order.

use std::mem;

use fxt_format::limits::WORD_BYTES;
use fxt_format::metadata::MAGIC_WORD;

use super::{CONFIRMING, Reader, SEARCH_STEP, State};
use crate::error::{Error, Reason};
use crate::input::{Input, container_of, decompressor};
use crate::resync::{CHAIN, LOOKAHEAD};
use crate::types::{ByteOrder, Container};

impl Reader<'_> {
    /// Detects the input's compression and byte order.
    pub(super) fn start(&mut self) -> Result<(), Error> {
        // Any error here is final.
        self.state = State::Ended;
        self.input.ensure(WORD_BYTES);
        let container = container_of(self.input.window());
        if container != Container::Plain {
            let compressed = mem::take(&mut self.input).into_source();
            let plain = decompressor(container, compressed)
                .ok_or(Error::Unsupported { container })?
                .map_err(|source| Error::Decompress { container, offset: 0, source })?;
            self.input = Input::stream(plain);
            self.input.ensure(WORD_BYTES);
        }
        self.summary.container = container;

        let first = self.input.window().get(..WORD_BYTES).unwrap_or(self.input.window());
        if MAGIC_WORD.to_le_bytes().starts_with(first) {
            self.summary.magic = first.len() == WORD_BYTES;
            return Ok(());
        }
        if MAGIC_WORD.to_be_bytes().starts_with(first) {
            self.summary.magic = first.len() == WORD_BYTES;
            self.set_order(ByteOrder::Big);
            return Ok(());
        }
        self.start_without_magic()
    }

    /// A trace may lack the magic number; it is a trace if it has valid records.
    fn start_without_magic(&mut self) -> Result<(), Error> {
        let to_end = !self.input.ensure(SEARCH_STEP + LOOKAHEAD);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let probe = self.probe(order, to_end.then_some(1));
            if probe.chain(self.input.window(), CHAIN) {
                self.set_order(order);
                return Ok(());
            }
        }
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let probe = self.probe(order, to_end.then_some(CONFIRMING));
            if probe.find(self.input.window(), 1..SEARCH_STEP).is_some() {
                self.set_order(order);
                return Err(self.damage(Reason::NoMagic, None).into());
            }
        }
        let window = self.input.window();
        Err(Error::NotFxt { first: window.get(..WORD_BYTES).unwrap_or(window).to_vec() })
    }

    fn set_order(&mut self, order: ByteOrder) {
        self.order = order;
        self.summary.byte_order = order;
    }
}
