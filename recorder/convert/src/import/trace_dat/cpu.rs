//! The events of one CPU, page by page.

use std::collections::VecDeque;
use std::fs::File;

use super::packing::Packer;
use super::{Span, Window};
use crate::import::error::ImportError;
use crate::import::tracepoints::{Meaning, Tracepoints};
use crate::{ConvertError, Report};
use fxtrec_capture::event::{Kind, Loss};
use fxtrec_kernel::ftrace::layout::PageLayout;
use fxtrec_kernel::ftrace::page::Page;
use fxtrec_units::{Cpu, Nanos, Tid};

/// The remaining events of one CPU.
#[derive(Debug)]
pub(super) struct CpuEvents<'a> {
    cpu: Cpu,
    pages: Pages<'a>,
    layout: &'a PageLayout,
    tracepoints: &'a Tracepoints,
    /// The remaining events of the last page.
    ready: VecDeque<(Nanos, Next)>,
}

/// An event of a CPU.
#[derive(Debug)]
pub(super) enum Next {
    Event(Kind),
    /// An event of another tracepoint: its index among the described ones, the thread that had the CPU, and its raw data.
    Other(usize, Tid, Box<[u8]>),
}

impl<'a> CpuEvents<'a> {
    pub(super) fn new(
        file: &'a File,
        span: Span,
        packer: Option<&Packer>,
        layout: &'a PageLayout,
        tracepoints: &'a Tracepoints,
    ) -> Result<CpuEvents<'a>, ConvertError> {
        let pages = Pages::new(file, span, packer.copied(), layout.page_bytes())?;
        Ok(CpuEvents { cpu: span.cpu, pages, layout, tracepoints, ready: VecDeque::new() })
    }

    pub(super) fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// The time of the next event, in the trace's own clock; `None` at the end.
    pub(super) fn next_time(&mut self, report: &mut Report) -> Result<Option<u64>, ConvertError> {
        while self.ready.is_empty() {
            let Some(bytes) = self.pages.next_page()? else { return Ok(None) };
            let Some(mut page) = Page::new(self.layout, bytes) else {
                report.count("unreadable pages");
                continue;
            };
            if let Some(count) = page.missed {
                // If the kernel does not report how many events were lost, at least one was.
                let count = count.unwrap_or(1);
                self.ready.push_back((page.time(), Next::Event(Kind::Lost(Loss::exactly(count)))));
            }
            while let Some((time, raw)) = page.next_event() {
                match self.tracepoints.decode(raw) {
                    Meaning::Event(kind) => self.ready.push_back((time, Next::Event(kind))),
                    Meaning::Other(place, current) => {
                        self.ready.push_back((time, Next::Other(place, current, raw.into())));
                    }
                    Meaning::Unknown => report.count("events without a description, left out"),
                    Meaning::Damaged => report.count("truncated events, left out"),
                }
            }
            if page.is_garbled() {
                report.count("pages with an unreadable end");
            }
        }
        Ok(self.ready.front().map(|(time, _)| time.0))
    }

    pub(super) fn take(&mut self) -> Option<(Nanos, Next)> {
        self.ready.pop_front()
    }
}

/// The pages of one CPU.
#[derive(Debug)]
struct Pages<'a> {
    file: &'a File,
    packer: Option<Packer>,
    /// The position in the file, and how many bytes are left from there.
    at: u64,
    left: u64,
    /// The number of remaining compressed pieces.
    pieces: u32,
    page_bytes: usize,
    /// Decompressed pages, and the position of the next one.
    plain: Vec<u8>,
    next: usize,
}

/// The number of uncompressed pages to read at a time.
const PAGES_AT_A_TIME: usize = 16;

impl<'a> Pages<'a> {
    fn new(
        file: &'a File,
        span: Span,
        packer: Option<Packer>,
        page_bytes: usize,
    ) -> Result<Pages<'a>, ConvertError> {
        let (mut at, mut left, mut pieces) = (span.offset, span.bytes, 0);
        if packer.is_some() && left > 0 {
            pieces = Window::of(file, at, 4)?.bytes("compressed pages").u32()?;
            (at, left) = (at.saturating_add(4), left.saturating_sub(4));
        }
        let (plain, next) = (Vec::new(), 0);
        Ok(Pages { file, packer, at, left, pieces, page_bytes, plain, next })
    }

    fn next_page(&mut self) -> Result<Option<&[u8]>, ConvertError> {
        while self.plain.len() - self.next < self.page_bytes {
            // A truncated trace may end within a page.
            if !self.refill()? {
                return Ok(None);
            }
        }
        let page = self.next..self.next + self.page_bytes;
        self.next = page.end;
        Ok(self.plain.get(page))
    }

    fn refill(&mut self) -> Result<bool, ConvertError> {
        self.plain.drain(..self.next);
        self.next = 0;
        match self.packer {
            None => self.read_plain(),
            Some(packer) => self.read_piece(packer),
        }
    }

    fn read_plain(&mut self) -> Result<bool, ConvertError> {
        let most = (self.page_bytes * PAGES_AT_A_TIME) as u64;
        let window = Window::of(self.file, self.at, self.left.min(most))?;
        let read = window.0.len() as u64;
        (self.at, self.left) = (self.at + read, self.left - read);
        self.plain.extend(window.0);
        Ok(read > 0)
    }

    fn read_piece(&mut self, packer: Packer) -> Result<bool, ConvertError> {
        if self.pieces == 0 {
            return Ok(false);
        }
        self.pieces -= 1;
        let head = Window::of(self.file, self.at, 8)?;
        let mut head = head.bytes("compressed pages");
        let (packed, plain) = (head.u32()?, head.u32()?);
        let window = Window::of(self.file, self.at + 8, u64::from(packed))?;
        if window.0.len() as u64 != u64::from(packed) {
            return Err(ImportError::Short { part: "compressed pages", at: window.0.len() }.into());
        }
        self.at += 8 + u64::from(packed);
        self.plain.extend(packer.unpack("compressed pages", &window.0, plain)?);
        Ok(true)
    }
}
