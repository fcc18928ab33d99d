//! A provider that registers an unusually large number of strings: it implements the protocol itself, in streaming mode.
//!
//! `hoard STRINGS BYTES`: strings of that many bytes each, and an event that is named by the last one. Prints how many were saved.

use std::io;
use std::os::fd::OwnedFd;

use fxt_writer::engine::{MAGIC, Mode};
use fxt_writer::packet::{PACKET_BYTES, Packet};
use fxt_writer::provider::wire::{FromManager, FromProvider, Start};
use fxt_writer::record::{Event, EventKind, Initialization, Record, StringRecord};
use fxt_writer::{Koid, StringRef, Text, ThreadName, Ticks};
use fxtrec::kernel::clock;
use fxtrec::kernel::seqpacket::{Address, Received, Seqpacket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::uio::pwrite;

const HEADER_WORDS: usize = 16;

/// The manager's own delay is less, in milliseconds.
const PATIENCE_MS: u16 = 20_000;

fn main() -> io::Result<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let [strings, bytes] = numbers[..] else {
        return Err(io::Error::other("usage: hoard STRINGS BYTES"));
    };
    let socket = std::env::var("FXTREC_PROVIDER_SOCKET").map_err(io::Error::other)?;
    let manager = Seqpacket::connect(&Address::parse(&socket))?;
    let register = FromProvider::Register { name: "hoard".to_owned(), categories: Vec::new() };
    manager.send(&register.encode().map_err(io::Error::other)?, &[])?;
    let mut hoard = start(&manager)?;
    for number in 0..strings {
        let index = u16::try_from(number % 0x7fff + 1).ok();
        let index = index.and_then(|index| StringRef::indexed(index).ok());
        let Some(index) = index else { break };
        let content = format!("{number:0bytes$}");
        hoard.put(&StringRecord { index, content: &content })?;
        if number + 1 == strings {
            let process = hoard.process;
            hoard.put(&Event {
                kind: EventKind::Instant,
                time: Ticks(clock::now().0),
                thread: ThreadName::Inline { process, thread: process },
                category: Text::Inline("hoard"),
                name: Text::Indexed(index),
                args: &[],
            })?;
        }
    }
    hoard.save()?;
    println!("{strings}");
    Ok(())
}

struct Hoard {
    buffer: OwnedFd,
    fifo: Seqpacket,
    process: Koid,
    mode: Mode,
    /// How the buffer is divided, in words.
    durable: usize,
    rolling: usize,
    /// The words of the open buffer.
    words: Vec<u64>,
    wrapped: u32,
}

fn start(manager: &Seqpacket) -> io::Result<Hoard> {
    loop {
        let (mut message, mut descriptors) = ([0; 4096], Vec::new());
        await_some(manager)?;
        let Received::Message(bytes) = manager.receive_with(&mut message, &mut descriptors)? else {
            return Err(io::Error::other("no manager says START"));
        };
        let message = FromManager::decode(&message[..bytes]).map_err(io::Error::other)?;
        let FromManager::Start { start, .. } = message else { continue };
        let (Some(fifo), Some(buffer)) = (descriptors.pop(), descriptors.pop()) else {
            return Err(io::Error::other("START has two descriptors"));
        };
        let Start { buffer_bytes, mode, process, .. } = start;
        let total = usize::try_from(buffer_bytes).map_err(io::Error::other)? / 8;
        let available = total - HEADER_WORDS;
        let share = (available / 16).min((1 << 20) / 8);
        let durable = share + (available - share) % 2;
        let rolling = (available - durable) / 2;
        let mut hoard = Hoard {
            buffer,
            fifo: Seqpacket::from(fifo),
            process,
            mode,
            durable,
            rolling,
            words: Vec::new(),
            wrapped: 0,
        };
        hoard.store(1, &[hoard.version()])?;
        for (index, words) in [(2, total), (3, durable), (4, rolling)] {
            hoard.store(index, &[words as u64 * 8])?;
        }
        hoard.store(0, &[MAGIC])?;
        hoard.fifo.send(&Packet::started().to_bytes(), &[])?;
        hoard.put(&Initialization { ticks_per_second: 1_000_000_000 })?;
        return Ok(hoard);
    }
}

impl Hoard {
    /// The header word that counts changes of the buffer.
    fn version(&self) -> u64 {
        1 | (self.mode as u64) << 16 | u64::from(self.wrapped) << 32
    }

    fn store(&self, index: usize, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let written =
            pwrite(&self.buffer, &bytes, i64::try_from(index * 8).map_err(io::Error::other)?)?;
        assert_eq!(written, bytes.len(), "memory takes all");
        Ok(())
    }

    fn put(&mut self, record: &impl Record) -> io::Result<()> {
        let mut words: Vec<u64> = Vec::new();
        record.write(&mut words).map_err(io::Error::other)?;
        if self.words.len() + words.len() > self.rolling {
            self.save()?;
        }
        self.words.extend(words);
        Ok(())
    }

    /// Requests that the open buffer be saved, and waits until it is.
    fn save(&mut self) -> io::Result<()> {
        let part = (self.wrapped & 1) as usize;
        let base = HEADER_WORDS + self.durable + part * self.rolling;
        self.words.resize(self.rolling, 0);
        let end = self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        let words = std::mem::take(&mut self.words);
        self.store(base, &words)?;
        self.store(10 + part, &[0])?;
        self.store(6 + part, &[end as u64 * 8])?;
        let packet = Packet::save_buffer(self.wrapped, 0);
        self.wrapped += 1;
        self.store(1, &[self.version()])?;
        self.fifo.send(&packet.to_bytes(), &[])?;
        await_some(&self.fifo)?;
        let mut answer = [0; PACKET_BYTES];
        match self.fifo.receive(&mut answer)? {
            Received::Message(PACKET_BYTES) => self.store(6 + part, &[0]),
            other => Err(io::Error::other(format!("not saved: {other:?}"))),
        }
    }
}

fn await_some(socket: &Seqpacket) -> io::Result<()> {
    let mut polled = [PollFd::new(std::os::fd::AsFd::as_fd(socket), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::from(PATIENCE_MS))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}
