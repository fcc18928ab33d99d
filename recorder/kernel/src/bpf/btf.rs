//! The kernel's description of its own types, as far as the programs need it.
//!
//! `/sys/kernel/btf/vmlinux` lists every type of the kernel: a header, a run of
//! type records that refer to each other by number, and a table of names. It
//! is read once, front to back; what is looked for are a few structures, the
//! signatures of tracepoints, and one variable. A crate for it would bring far
//! more than these five record kinds, and parse a hundred thousand types into
//! objects of their own.

use std::ops::Range;

/// The magic number in the byte order of this machine.
const MAGIC: u16 = 0xeb9f;

/// `__u16 magic; __u8 version, flags; __u32 hdr_len, type_off, type_len, str_off, str_len`.
const HEADER_BYTES: usize = 24;

/// `__u32 name_off, info, size_or_type`.
const TYPE_BYTES: usize = 12;

/// How many names of types lead to a type at most: typedefs and qualifiers.
const MAX_DEPTH: usize = 32;

/// The number of a type.
pub type TypeId = u32;

/// Why the description could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BtfError {
    /// The file ends, or points, where it must not, or has a record of a kind that nobody knows.
    #[error("cannot read the kernel's type information at byte {at}: expected {what}")]
    Damaged { at: usize, what: &'static str },
    /// Something is not in it.
    #[error("the kernel's type information has no {kind} `{name}`")]
    Missing { kind: &'static str, name: String },
}

/// The kinds of type records that matter here, by the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Pointer,
    Array,
    Struct,
    Union,
    Typedef,
    Function,
    Volatile,
    Const,
    Restrict,
    Prototype,
    Variable,
    Section,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Type {
    kind: Kind,
    name: u32,
    /// `size` or `type`, as the kind has it.
    value: u32,
    entries: usize,
    /// The `kind_flag`: members of a structure have bit fields.
    flag: bool,
    extra: usize,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bytes from the beginning of the structure.
    pub offset: usize,
    /// Bytes that it takes, where it is a number, a pointer or an array of numbers; else `None`.
    pub bytes: Option<usize>,
    pub type_id: TypeId,
}

#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// Where each type begins; number 0 is void.
    types: Vec<usize>,
}

fn damaged(at: usize, what: &'static str) -> BtfError {
    BtfError::Damaged { at, what }
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let found = at.checked_add(4).and_then(|end| bytes.get(at..end)?.first_chunk().copied());
    found.map(u32::from_ne_bytes).ok_or(damaged(at, "four bytes"))
}

impl Type {
    /// Reads the record at `at`; also where the next one begins.
    fn read(bytes: &[u8], at: usize) -> Result<(Type, usize), BtfError> {
        let (name, info, value) =
            (u32_at(bytes, at)?, u32_at(bytes, at + 4)?, u32_at(bytes, at + 8)?);
        let [low, high, _, top] = info.to_le_bytes();
        let entries = usize::from(u16::from_le_bytes([low, high]));
        let flag = top >= 0x80;
        let (kind, extra_bytes) = match top & 0x1f {
            1 => (Kind::Int, 4),
            2 => (Kind::Pointer, 0),
            3 => (Kind::Array, 12),
            4 => (Kind::Struct, 12 * entries),
            5 => (Kind::Union, 12 * entries),
            6 => (Kind::Other, 8 * entries), // enum
            7 => (Kind::Other, 0),           // forward declaration
            8 => (Kind::Typedef, 0),
            9 => (Kind::Volatile, 0),
            10 => (Kind::Const, 0),
            11 => (Kind::Restrict, 0),
            12 => (Kind::Function, 0),
            13 => (Kind::Prototype, 8 * entries),
            14 => (Kind::Variable, 4),
            15 => (Kind::Section, 12 * entries),
            16 => (Kind::Other, 0),            // floating point
            17 => (Kind::Other, 4),            // tag of a declaration
            18 => (Kind::Other, 0),            // tag of a type
            19 => (Kind::Other, 12 * entries), // enum of 64 bits
            _ => return Err(damaged(at, "a known kind of type")),
        };
        let extra = at + TYPE_BYTES;
        let end = extra + extra_bytes;
        if end > bytes.len() {
            return Err(damaged(at, "a whole type"));
        }
        Ok((Type { kind, name, value, entries, flag, extra }, end))
    }
}

impl Btf {
    /// Reads a description, the content of `/sys/kernel/btf/vmlinux`.
    ///
    /// # Errors
    /// [`BtfError::Damaged`].
    pub fn parse(bytes: Vec<u8>) -> Result<Btf, BtfError> {
        let head = bytes.get(..HEADER_BYTES).ok_or(damaged(0, "a header"))?;
        if u16::from_ne_bytes([head[0], head[1]]) != MAGIC {
            return Err(damaged(0, "the magic number"));
        }
        let header_bytes = u32_at(&bytes, 4)? as usize;
        let section = |at: usize| -> Result<Range<usize>, BtfError> {
            let start = header_bytes.checked_add(u32_at(&bytes, at)? as usize);
            let end = start
                .zip(u32_at(&bytes, at + 4).ok())
                .map(|(start, len)| start.checked_add(len as usize));
            match (start, end) {
                (Some(start), Some(Some(end))) if end <= bytes.len() => Ok(start..end),
                _ => Err(damaged(at, "a section inside the file")),
            }
        };
        let (records, strings) = (section(8)?, section(16)?);
        let mut types = vec![0];
        let mut at = records.start;
        while at < records.end {
            let (_, next) = Type::read(&bytes[..records.end], at)?;
            types.push(at);
            at = next;
        }
        Ok(Btf { bytes, strings, types })
    }

    fn get(&self, id: TypeId) -> Result<Type, BtfError> {
        match self.types.get(id as usize) {
            Some(&at) if id > 0 => Type::read(&self.bytes, at).map(|(found, _)| found),
            _ => Err(damaged(id as usize, "a type of that number")),
        }
    }

    fn name(&self, offset: u32) -> &[u8] {
        let rest = self.bytes[self.strings.clone()].get(offset as usize..).unwrap_or_default();
        rest.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    fn find(&self, kind: Kind, kind_name: &'static str, name: &str) -> Result<TypeId, BtfError> {
        let is_it = |id: &TypeId| {
            self.get(*id).is_ok_and(|t| t.kind == kind && self.name(t.name) == name.as_bytes())
        };
        (1..self.types.len() as TypeId)
            .find(is_it)
            .ok_or_else(|| BtfError::Missing { kind: kind_name, name: name.to_owned() })
    }

    /// The structure of this name.
    ///
    /// # Errors
    /// [`BtfError::Missing`].
    pub fn structure(&self, name: &str) -> Result<TypeId, BtfError> {
        self.find(Kind::Struct, "structure", name)
    }

    /// The typedef of this name, which is how tracepoints are known: `btf_trace_` and their name.
    ///
    /// # Errors
    /// [`BtfError::Missing`].
    pub fn typedef(&self, name: &str) -> Result<TypeId, BtfError> {
        self.find(Kind::Typedef, "typedef", name)
    }

    /// The function of this name, among those that the kernel describes.
    ///
    /// # Errors
    /// [`BtfError::Missing`].
    pub fn function(&self, name: &str) -> Result<TypeId, BtfError> {
        self.find(Kind::Function, "function", name)
    }

    /// The typedefs of tracepoints by their names, found in one pass; `None` for those that are not there.
    pub fn tracepoints(&self, names: &[String]) -> Vec<Option<TypeId>> {
        let mut found = vec![None; names.len()];
        for id in 1..self.types.len() as TypeId {
            let Ok(typedef) = self.get(id) else { continue };
            if typedef.kind != Kind::Typedef {
                continue;
            }
            let Some(name) = self.name(typedef.name).strip_prefix(b"btf_trace_") else { continue };
            if let Some(at) = names.iter().position(|wanted| wanted.as_bytes() == name) {
                found[at] = Some(id);
            }
        }
        found
    }

    /// The variable of this name, and the type it has. The kernel lists only variables that each CPU has its own of.
    ///
    /// # Errors
    /// [`BtfError`].
    pub fn variable(&self, name: &str) -> Result<(TypeId, TypeId), BtfError> {
        let id = self.find(Kind::Variable, "variable", name)?;
        Ok((id, self.resolve(self.get(id)?.value)?))
    }

    /// How many bytes one variable lies behind another of the same section, less than 0 if before it.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when there is no such pair.
    pub fn distance(&self, from: &str, to: &str) -> Result<i64, BtfError> {
        let ids = (self.variable(from)?.0, self.variable(to)?.0);
        for id in 1..self.types.len() as TypeId {
            let section = self.get(id)?;
            if section.kind != Kind::Section {
                continue;
            }
            let mut places = (None, None);
            for entry in 0..section.entries {
                let at = section.extra + 12 * entry;
                let (variable, place) = (u32_at(&self.bytes, at)?, u32_at(&self.bytes, at + 4)?);
                if variable == ids.0 {
                    places.0 = Some(i64::from(place));
                } else if variable == ids.1 {
                    places.1 = Some(i64::from(place));
                }
            }
            if let (Some(from), Some(to)) = places {
                return Ok(to - from);
            }
        }
        Err(BtfError::Missing {
            kind: "section with both variables",
            name: format!("{from}, {to}"),
        })
    }

    /// How many arguments the function has that a typedef points to.
    ///
    /// # Errors
    /// [`BtfError`].
    pub fn arguments(&self, typedef: TypeId) -> Result<usize, BtfError> {
        let pointer = self.get(self.resolve(typedef)?)?;
        let function = self.get(self.resolve(pointer.value)?)?;
        match (pointer.kind, function.kind) {
            (Kind::Pointer, Kind::Prototype) => Ok(function.entries),
            _ => Err(damaged(typedef as usize, "a pointer to a function")),
        }
    }

    /// Bytes of a structure.
    ///
    /// # Errors
    /// [`BtfError`].
    #[cfg(test)]
    pub fn size(&self, structure: TypeId) -> Result<usize, BtfError> {
        self.get(structure).map(|found| found.value as usize)
    }

    /// The type behind typedefs and qualifiers.
    fn resolve(&self, mut id: TypeId) -> Result<TypeId, BtfError> {
        for _ in 0..MAX_DEPTH {
            let found = self.get(id)?;
            match found.kind {
                Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict => id = found.value,
                _ => return Ok(id),
            }
        }
        Err(damaged(id as usize, "a typedef that ends somewhere"))
    }

    fn bytes_of(&self, id: TypeId) -> Option<usize> {
        let found = self.get(self.resolve(id).ok()?).ok()?;
        match found.kind {
            Kind::Int => Some(found.value as usize),
            Kind::Pointer => Some(size_of::<usize>()),
            Kind::Array => {
                let element = u32_at(&self.bytes, found.extra).ok()?;
                let count = u32_at(&self.bytes, found.extra + 8).ok()? as usize;
                let element = self.get(self.resolve(element).ok()?).ok()?;
                (element.kind == Kind::Int).then(|| count.checked_mul(element.value as usize))?
            }
            _ => None,
        }
    }

    /// A member of a structure or union by its name, inside of nameless members too. Bit fields are not found.
    ///
    /// # Errors
    /// [`BtfError`].
    pub fn member(&self, structure: TypeId, name: &str) -> Result<Member, BtfError> {
        self.member_within(structure, name, MAX_DEPTH)?.ok_or_else(|| {
            let outer = self
                .get(structure)
                .map(|t| String::from_utf8_lossy(self.name(t.name)).into_owned());
            let name = format!("{}.{name}", outer.unwrap_or_default());
            BtfError::Missing { kind: "member", name }
        })
    }

    fn member_within(
        &self,
        structure: TypeId,
        name: &str,
        depth: usize,
    ) -> Result<Option<Member>, BtfError> {
        let outer = self.get(self.resolve(structure)?)?;
        if depth == 0 || !matches!(outer.kind, Kind::Struct | Kind::Union) {
            return Ok(None);
        }
        for entry in 0..outer.entries {
            let at = outer.extra + 12 * entry;
            let (member, type_id) = (u32_at(&self.bytes, at)?, u32_at(&self.bytes, at + 4)?);
            let place = u32_at(&self.bytes, at + 8)?;
            let [b0, b1, b2, width] = place.to_le_bytes();
            // With the flag, the uppermost byte is the width of a bit field, else 0.
            let (bits, field) = match outer.flag {
                true => (u32::from_le_bytes([b0, b1, b2, 0]), width != 0),
                false => (place, false),
            };
            let offset = bits as usize / 8;
            if field || !bits.is_multiple_of(8) {
                continue;
            }
            let found = self.name(member);
            if found == name.as_bytes() {
                return Ok(Some(Member { offset, bytes: self.bytes_of(type_id), type_id }));
            }
            if found.is_empty()
                && let Some(inner) = self.member_within(type_id, name, depth - 1)?
            {
                return Ok(Some(Member { offset: offset + inner.offset, ..inner }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
