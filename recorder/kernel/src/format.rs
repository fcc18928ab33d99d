//! A tracepoint's `format` file: the location of each field in a raw sample.
//!
//! Offsets and sizes differ between kernels, so the recorder locates every
//! field by name in this file and has no constants for them. The parser is pure: text
//! in, [`Format`] out; [`Tracefs::event_format`](super::tracefs::Tracefs::event_format)
//! reads the text.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The tracepoint's name, without its group.
    pub name: String,
    /// The number that perf expects as `config` of a tracepoint event.
    pub id: u64,
    /// Every field in file order; the fields common to all tracepoints are first.
    pub fields: Vec<Field>,
    /// The text after `print fmt:`: a C format string and its arguments.
    pub print_fmt: String,
}

/// One field of a raw sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Its C type as written, without the array part and without `__data_loc`.
    pub ctype: String,
    /// Its offset, in bytes from the start of the raw data.
    pub offset: usize,
    /// Its length in bytes. For a field whose content is elsewhere, the length of the locator.
    pub size: usize,
    /// Whether an integer in it is signed.
    pub signed: bool,
    pub place: FieldLocation,
    /// The declared array length; `None` for a scalar, or if the kernel wrote a name in place of a number.
    pub array_len: Option<usize>,
}

/// Where a field's content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLocation {
    Inline,
    /// `__data_loc`: the field holds length (upper half) and offset from the start of the raw data.
    DataLoc,
    /// `__rel_loc`: the same, with the offset counted from the end of the field.
    RelLoc,
}

/// The error in the text of a `format` file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// A required line is missing.
    #[error("the tracepoint's format has no `{0}` line")]
    MissingLine(&'static str),
    /// A line cannot be parsed.
    #[error("cannot parse the line `{0}` of the tracepoint's format")]
    BadLine(String),
    /// A field that the recorder needs is missing.
    #[error("tracepoint {event} has no field `{field}` on this kernel")]
    NoField {
        event: String,
        /// The missing field.
        field: String,
    },
}

impl Format {
    /// Parses the text of a `format` file.
    ///
    /// # Errors
    /// Returns [`FormatError`] when a required line is absent or damaged.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let (head, print_fmt) =
            text.split_once("print fmt:").ok_or(FormatError::MissingLine("print fmt"))?;
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        for line in head.lines().map(str::trim) {
            let bad = || FormatError::BadLine(line.to_owned());
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = Some(value.trim().parse().map_err(|_| bad())?);
            } else if line.starts_with("field:") {
                fields.push(Field::parse(line).ok_or_else(bad)?);
            } else if !line.is_empty() && line != "format:" {
                return Err(bad());
            }
        }
        Ok(Format {
            name: name.filter(|n| !n.is_empty()).ok_or(FormatError::MissingLine("name"))?,
            id: id.ok_or(FormatError::MissingLine("ID"))?,
            fields,
            print_fmt: print_fmt.trim().to_owned(),
        })
    }

    /// The field called `name`, if this kernel has it.
    pub fn find(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field called `name`.
    ///
    /// # Errors
    /// Returns [`FormatError::NoField`] if this kernel does not have it.
    pub fn field(&self, name: &str) -> Result<&Field, FormatError> {
        self.find(name).ok_or_else(|| FormatError::NoField {
            event: self.name.clone(),
            field: name.to_owned(),
        })
    }
}

impl Field {
    /// Parses `field:TYPE NAME[LEN]; offset:N; size:N; signed:N;`.
    fn parse(line: &str) -> Option<Field> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?.trim();
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size: usize = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        // Kernels before 2.6.33 did not write the sign.
        let signed = match parts.next()? {
            "" => false,
            part => part.strip_prefix("signed:")?.parse::<u8>().ok()? != 0,
        };
        let (place, declaration) = FieldLocation::of(declaration);
        let (declaration, array) = match declaration.strip_suffix(']') {
            Some(open) => {
                let (before, length) = open.rsplit_once('[')?;
                (before.trim_end(), Some(length.trim()))
            }
            None => (declaration, None),
        };
        // In `__data_loc char[] name` the brackets belong to the type.
        let (_, name) = declaration.rsplit_once([' ', '*', ']'])?;
        let ctype = declaration[..declaration.len() - name.len()].trim_end().to_owned();
        let name = name.trim();
        let named = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (named && !ctype.is_empty()).then(|| Field {
            name: name.to_owned(),
            ctype,
            offset,
            size,
            signed,
            place,
            array_len: array.and_then(|length| length.parse().ok()),
        })
    }

    /// The bytes of the field in the raw data of a sample, if the sample is long enough.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The integer in the field, of 1, 2, 4 or 8 bytes in the machine's byte order.
    ///
    /// `None` if the sample is too short or the field has another length. An unsigned field of 8 bytes keeps its bits.
    pub fn integer(&self, raw: &[u8]) -> Option<i64> {
        let bytes = self.bytes(raw)?;
        Some(match (self.size, self.signed) {
            (1, false) => i64::from(bytes[0]),
            (1, true) => i64::from(bytes[0].cast_signed()),
            (2, false) => i64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            (2, true) => i64::from(i16::from_ne_bytes(bytes.try_into().ok()?)),
            (4, false) => i64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            (8, _) => i64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

impl FieldLocation {
    fn of(declaration: &str) -> (FieldLocation, &str) {
        if let Some(rest) = declaration.strip_prefix("__data_loc ") {
            (FieldLocation::DataLoc, rest.trim_start())
        } else if let Some(rest) = declaration.strip_prefix("__rel_loc ") {
            (FieldLocation::RelLoc, rest.trim_start())
        } else {
            (FieldLocation::Inline, declaration)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    fn text(name: &str, fields: &str) -> String {
        format!("name: {name}\nID: 317\nformat:\n{COMMON}\n{fields}\nprint fmt: \"x=%d\", REC->x\n")
    }

    fn parsed(field: &str) -> Field {
        let format = Format::parse(&text("event", &format!("\t{field}\n"))).expect("a good line");
        format.fields.last().expect("it has fields").clone()
    }

    #[test]
    fn fields_are_found_by_name_with_their_place_in_the_sample() {
        let format = Format::parse(&text(
            "sched_wakeup",
            "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        ))
        .expect("a good text");
        assert_eq!((format.name.as_str(), format.id), ("sched_wakeup", 317));
        assert_eq!(format.print_fmt, "\"x=%d\", REC->x");
        let comm = format.field("comm").expect("there");
        assert_eq!((comm.offset, comm.size, comm.array_len), (8, 16, Some(16)));
        let pid = format.field("pid").expect("there");
        assert_eq!((pid.ctype.as_str(), pid.offset, pid.signed), ("pid_t", 24, true));
        assert_eq!(
            format.field("prio"),
            Err(FormatError::NoField { event: "sched_wakeup".into(), field: "prio".into() })
        );
    }

    #[test]
    fn types_of_several_words_pointers_and_arrays_are_distinguished_from_names() {
        let scalar = parsed("field:unsigned long long bytes;\toffset:8;\tsize:8;\tsigned:0;");
        assert_eq!((scalar.ctype.as_str(), scalar.name.as_str()), ("unsigned long long", "bytes"));
        let pointer = parsed("field:const char * filename;\toffset:8;\tsize:8;\tsigned:0;");
        assert_eq!((pointer.ctype.as_str(), pointer.name.as_str()), ("const char *", "filename"));
        let tight = parsed("field:void *skbaddr;\toffset:8;\tsize:8;\tsigned:0;");
        assert_eq!((tight.ctype.as_str(), tight.name.as_str()), ("void *", "skbaddr"));
        let array = parsed("field:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;");
        assert_eq!((array.name.as_str(), array.array_len), ("args", Some(6)));
        let symbolic = parsed("field:char comm[TASK_COMM_LEN];\toffset:8;\tsize:16;\tsigned:1;");
        assert_eq!((symbolic.name.as_str(), symbolic.array_len, symbolic.size), ("comm", None, 16));
    }

    #[test]
    fn content_placed_elsewhere_is_marked() {
        let data = parsed("field:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((data.ctype.as_str(), data.name.as_str()), ("char[]", "name"));
        assert_eq!(data.place, FieldLocation::DataLoc);
        let relative = parsed("field:__rel_loc u8[] blob;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((relative.name.as_str(), relative.place), ("blob", FieldLocation::RelLoc));
    }

    #[test]
    fn a_field_line_without_a_sign_counts_as_unsigned() {
        assert!(!parsed("field:int a;\toffset:8;\tsize:4;").signed);
    }

    #[test]
    fn integers_of_each_width_keep_their_sign() {
        let raw = [0xff_u8; 24];
        let line = |size, signed| {
            parsed(&format!("field:int a;\toffset:8;\tsize:{size};\tsigned:{signed};"))
        };
        for size in [1, 2, 4, 8] {
            assert_eq!(line(size, 1).integer(&raw), Some(-1), "{size} bytes");
        }
        assert_eq!(line(1, 0).integer(&raw), Some(0xff));
        assert_eq!(line(2, 0).integer(&raw), Some(0xffff));
        assert_eq!(line(4, 0).integer(&raw), Some(0xffff_ffff));
        assert_eq!(line(3, 0).integer(&raw), None, "no integer has 3 bytes");
        assert_eq!(line(8, 1).integer(&raw[..15]), None, "the sample ends before the field");
    }

    #[test]
    fn damaged_texts_are_refused_with_the_line() {
        let bad = |line: &str| match Format::parse(&text("event", &format!("\t{line}\n"))) {
            Err(FormatError::BadLine(shown)) => assert_eq!(shown, line),
            other => panic!("{line}: {other:?}"),
        };
        bad("field:int a;\toffset:-1;\tsize:4;\tsigned:1;");
        bad("field:int a;\toffset:8;\tsize:99999999999999999999;\tsigned:1;");
        bad("field:int a;\tsize:4;\toffset:8;\tsigned:1;");
        bad("field:a;\toffset:8;\tsize:4;\tsigned:1;");
        bad("field:int a]; offset:8; size:4; signed:1;");
        bad("field:int a");
        bad("what is this");
    }

    #[test]
    fn a_text_without_its_main_lines_is_refused() {
        let whole = text("event", "");
        for line in ["name", "ID", "print fmt"] {
            let cut: String =
                whole.lines().filter(|l| !l.starts_with(line)).map(|l| format!("{l}\n")).collect();
            assert_eq!(Format::parse(&cut), Err(FormatError::MissingLine(line)));
        }
        assert_eq!(Format::parse(""), Err(FormatError::MissingLine("print fmt")));
    }
}
