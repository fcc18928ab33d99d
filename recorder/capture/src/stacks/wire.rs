//! Requests about files and their answers, as bytes between the recorder and the process that reads the files.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use fxtrec_kernel::code::ExecutableMapping;
use fxtrec_kernel::rights::Rights;

use super::python::layout::CodeLayout;
use super::reader::Names;
use crate::cursor::Cursor;

/// A question.
#[derive(Debug)]
pub(super) enum Ask<'a> {
    /// Describe the file of a mapping of a process.
    Describe { pid: u32, mapping: &'a ExecutableMapping, room: usize },
    /// Name functions of the attached file.
    Name(&'a Names<'a>),
    /// Open the perf map of a process, which names code that it compiled.
    Map { pid: u32 },
    /// Find these addresses in such a map, which is attached.
    Compiled { addresses: &'a [u64] },
    /// Open the memory of a process with this mapping.
    Memory { pid: u32, mapping: &'a ExecutableMapping },
    /// Read Python code objects in such memory, which is attached: addresses, each with a mark.
    Python { code_type: u64, layout: &'a CodeLayout, codes: &'a [u64] },
}

pub(super) mod kind {
    pub(in super::super) const DESCRIBE: u64 = 1;
    pub(in super::super) const NAME: u64 = 2;
    pub(in super::super) const MAP: u64 = 3;
    pub(in super::super) const COMPILED: u64 = 4;
    pub(in super::super) const MEMORY: u64 = 5;
    pub(in super::super) const PYTHON: u64 = 6;
}

/// Numbers and strings, one after the other.
#[derive(Debug, Default)]
pub(super) struct Packed(Vec<u8>);

impl Packed {
    pub(super) fn of(ask: &Ask<'_>) -> Packed {
        let mut to = Packed::default();
        match ask {
            Ask::Describe { pid, mapping, room } => {
                to.number(kind::DESCRIBE).number(u64::from(*pid)).number(*room as u64);
                to.mapping(mapping);
            }
            Ask::Memory { pid, mapping } => {
                to.number(kind::MEMORY).number(u64::from(*pid)).mapping(mapping);
            }
            Ask::Python { code_type, layout, codes } => {
                to.number(kind::PYTHON).number(*code_type);
                layout.pack(&mut to);
                to.numbers(codes);
            }
            Ask::Name(names) => {
                to.number(kind::NAME).number(names.image as u64).number(u64::from(names.keep));
                to.number(names.time.as_millis().try_into().unwrap_or(u64::from(u32::MAX)));
                to.text(names.path.as_os_str().as_bytes()).rights(names.rights);
                to.numbers(names.addresses);
            }
            Ask::Map { pid } => {
                to.number(kind::MAP).number(u64::from(*pid));
            }
            Ask::Compiled { addresses } => {
                to.number(kind::COMPILED).numbers(addresses);
            }
        }
        to
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Packed {
        self.0.extend(number.to_ne_bytes());
        self
    }

    pub(super) fn numbers(&mut self, numbers: &[u64]) -> &mut Packed {
        self.number(numbers.len() as u64);
        self.0.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    pub(super) fn text(&mut self, text: &[u8]) -> &mut Packed {
        self.number(text.len() as u64);
        self.0.extend(text);
        self
    }

    pub(super) fn rights(&mut self, rights: &Rights) -> &mut Packed {
        let groups: Vec<u64> = rights.groups.iter().copied().map(u64::from).collect();
        self.number(u64::from(rights.uid)).number(u64::from(rights.gid)).numbers(&groups)
    }

    fn mapping(&mut self, mapping: &ExecutableMapping) -> &mut Packed {
        self.number(mapping.start).number(mapping.end).number(mapping.offset);
        let (device, inode) = mapping.file.as_ref().map_or(("", 0), |(d, i)| (d, *i));
        self.text(device.as_bytes()).number(inode).text(mapping.path.as_os_str().as_bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the output of [`Packed`].
#[derive(Debug)]
pub(super) struct Words<'a>(Cursor<'a>);

impl<'a> Words<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Words<'a> {
        Words(Cursor::new(bytes))
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.0.read_u64()
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(super) fn numbers(&mut self) -> Option<Vec<u64>> {
        let count = usize::try_from(self.number()?).ok()?;
        let bytes = self.0.take(count.checked_mul(8)?)?;
        let number = |bytes: &[u8]| bytes.first_chunk().map(|it| u64::from_ne_bytes(*it));
        bytes.chunks_exact(8).map(number).collect()
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.0.take(length)
    }

    pub(super) fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(OsString::from_vec(self.text()?.to_vec())))
    }

    pub(super) fn name(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.text()?).into_owned())
    }

    pub(super) fn rights(&mut self) -> Option<Rights> {
        let (uid, gid) = (self.small()?, self.small()?);
        let groups = self.numbers()?.into_iter().map(|id| id.try_into().ok());
        Some(Rights { uid, gid, groups: groups.collect::<Option<_>>()? })
    }

    pub(super) fn mapping(&mut self) -> Option<ExecutableMapping> {
        let (start, end, offset) = (self.number()?, self.number()?, self.number()?);
        let (device, inode) = (self.name()?, self.number()?);
        let file = (inode != 0).then_some((device, inode));
        Some(ExecutableMapping { start, end, flags: 0b101, offset, file, path: self.path()? })
    }
}
