//! Detects formats by a file's name or its first bytes.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::import::{ftrace_text, perf_data, perfetto, trace_dat};

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    Fxt,
    /// The Trace Event Format of Chrome, in JSON.
    Json,
    PerfData,
    TraceDat,
    /// The text of ftrace: tracefs' `trace`, and the output of trace-cmd report.
    FtraceText,
    /// Packets of Perfetto.
    Perfetto,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    #[default]
    Plain,
    Gzip,
    Zstd,
}

/// A file whose format cannot be detected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownFormat {
    /// The name in an option is not that of a format.
    #[error(
        "unknown format '{0}'; expected fxt, json or perfetto, each also with .gz or .zst (perf, trace-cmd, ftrace: input only)"
    )]
    Name(String),
    /// Neither the output's name nor an option selects the format.
    #[error(
        "{}: unknown output format: use a name that ends in .fxt, .json or .pftrace (and .gz or .zst), or --to; \
         for CSV and Parquet use fxtrec export",
        .0.display()
    )]
    Output(PathBuf),
    /// The beginning of the input matches no known format.
    #[error(
        "{}: unknown input format: it begins with the bytes {first:02x?}; use --from if you know the format",
        path.display()
    )]
    Input { path: PathBuf, first: Vec<u8> },
}

impl Format {
    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fxt => "fxt",
            Self::Json => "json",
            Self::PerfData => "perf",
            Self::TraceDat => "trace-cmd",
            Self::FtraceText => "ftrace",
            Self::Perfetto => "perfetto",
        }
    }

    /// Whether another Linux recorder writes it.
    pub fn is_imported(self) -> bool {
        !matches!(self, Self::Fxt | Self::Json)
    }

    /// The format and compression according to the file's name.
    pub fn of_path(path: &Path) -> (Option<Self>, Packing) {
        let packing = Packing::of_ending(path.extension());
        let inner = match packing {
            Packing::Plain => path.extension(),
            _ => path.file_stem().map(Path::new).and_then(Path::extension),
        };
        (inner.and_then(OsStr::to_str).and_then(Self::of_ending), packing)
    }

    fn of_ending(ending: &str) -> Option<Self> {
        match ending.to_ascii_lowercase().as_str() {
            "fxt" | "ftf" => Some(Self::Fxt),
            "json" | "ctrace" => Some(Self::Json),
            "perf" | "data" => Some(Self::PerfData),
            "trace-cmd" | "dat" => Some(Self::TraceDat),
            "ftrace" => Some(Self::FtraceText),
            "perfetto" | "pftrace" | "perfetto-trace" => Some(Self::Perfetto),
            _ => None,
        }
    }

    /// The format according to the first bytes of an uncompressed file.
    pub fn of_content(first: &[u8]) -> Option<Self> {
        const FXT_MAGIC: [u8; 8] = [0x10, 0x00, 0x04, 0x46, 0x78, 0x54, 0x16, 0x00];
        let reversed: Vec<u8> = FXT_MAGIC.into_iter().rev().collect();
        if first.starts_with(&FXT_MAGIC) || first.starts_with(&reversed) {
            return Some(Self::Fxt);
        }
        if perf_data::MAGICS.iter().any(|magic| first.starts_with(*magic)) {
            return Some(Self::PerfData);
        }
        if first.starts_with(trace_dat::MAGIC) {
            return Some(Self::TraceDat);
        }
        let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first);
        match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'[' | b'{') => Some(Self::Json),
            // As text, its first byte is a line feed.
            _ if perfetto::is_trace(first) => Some(Self::Perfetto),
            _ => ftrace_text::is_text(first).then_some(Self::FtraceText),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fxt => "FXT",
            Self::Json => "Trace Event Format (JSON)",
            Self::PerfData => "perf.data",
            Self::TraceDat => "trace.dat",
            Self::FtraceText => "ftrace's text",
            Self::Perfetto => "Perfetto trace",
        })
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::of_ending(name).ok_or_else(|| UnknownFormat::Name(name.to_owned()))
    }
}

impl Packing {
    fn of_ending(ending: Option<&OsStr>) -> Self {
        match ending.and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// The compression according to the first bytes of a file.
    pub fn of_content(first: &[u8]) -> Self {
        if first.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::Plain
        }
    }
}

/// A format and a compression, such as `json.gz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    pub format: Format,
    pub packing: Packing,
}

impl FromStr for Packed {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        // A name such as `json.gz` is parsed as the extension of a file called `x`.
        let (format, packing) = Format::of_path(Path::new(&format!("x.{name}")));
        let format = format.ok_or_else(|| UnknownFormat::Name(name.to_owned()))?;
        Ok(Self { format, packing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_tell_format_and_packing() {
        for (name, format, packing) in [
            ("a.fxt", Some(Format::Fxt), Packing::Plain),
            ("a.b.FXT.zst", Some(Format::Fxt), Packing::Zstd),
            ("a.json.gz", Some(Format::Json), Packing::Gzip),
            ("a.gz", None, Packing::Gzip),
            ("json", None, Packing::Plain),
            ("-", None, Packing::Plain),
        ] {
            assert_eq!(Format::of_path(Path::new(name)), (format, packing), "{name}");
        }
    }

    #[test]
    fn first_bytes_tell_the_format_whatever_the_name_is() {
        let magic = 0x0016_5478_4604_0010_u64;
        assert_eq!(Format::of_content(&magic.to_le_bytes()), Some(Format::Fxt));
        assert_eq!(Format::of_content(&magic.to_be_bytes()), Some(Format::Fxt));
        assert_eq!(Format::of_content(b"\xef\xbb\xbf \n[{"), Some(Format::Json));
        assert_eq!(Format::of_content(b"PERFILE2"), Some(Format::PerfData));
        assert_eq!(Format::of_content(b"\x17\x08\x44tracing7\0"), Some(Format::TraceDat));
        assert_eq!(Format::of_content(b"# tracer: nop\n"), Some(Format::FtraceText));
        assert_eq!(Format::of_content(b"cpus=2\n"), Some(Format::FtraceText));
        assert_eq!(Format::of_content(b"TRACE:\n# tracer: nop\n"), Some(Format::FtraceText));
        // Without a header, as in the output of trace_pipe and perf script.
        let line =
            b"   bash-7  [000] d..2.  1.5: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n";
        assert_eq!(Format::of_content(line), Some(Format::FtraceText));
        assert_eq!(
            Format::of_content(b"bash 7 [000] 1.5: sched:sched_stat: a\n"),
            Some(Format::FtraceText)
        );
        for no in [&b"\x7fELF"[..], b"", b"\n\n", b"# Notes\ntime: 1.5: none\n", b"main;work 12\n"]
        {
            assert_eq!(Format::of_content(no), None);
        }
    }

    #[test]
    fn an_option_names_format_and_packing_at_once() {
        let packed: Packed = "json.gz".parse().expect("a format");
        assert_eq!(packed, Packed { format: Format::Json, packing: Packing::Gzip });
        let error = "xml".parse::<Packed>().expect_err("unknown format");
        assert!(error.to_string().contains("unknown format 'xml'"), "{error}");
    }
}
