//! The arguments of `fxtrec dump`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use fxt_reader::Kind;

use super::values::TimePoint;

/// The arguments of `fxtrec dump`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  fxtrec dump make.fxt                          print every record, one per line
  fxtrec dump make.fxt --type wakeup --koid 42  wakeups of one thread
  fxtrec dump make.fxt.zst --stats              count records by type
  fxtrec dump make.fxt --json | jq .type        a JSON object per line
  fxtrec dump make.fxt --check                  check the file
  fxtrec dump make.fxt --strings                every name and text in it

Exit status: 0; 1 when --check finds a violation; 125 when FILE cannot be read.")]
pub struct DumpArgs {
    /// FXT trace, plain, gzip or zstd; - for standard input
    pub file: PathBuf,
    /// Only records of these types: a name that --stats prints, or event, scheduling, profiler,
    /// metadata
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', help_heading = "Filters")]
    pub types: Vec<Kinds>,
    /// Only records that refer to one of these threads, processes or objects
    #[arg(long = "koid", value_name = "KOID", value_delimiter = ',', help_heading = "Filters")]
    pub koids: Vec<u64>,
    /// Start of the time range: seconds as printed, or 1.5s or +1.5 after the first
    /// scheduling record
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub from: Option<TimePoint>,
    /// End of the time range, in the same form
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub to: Option<TimePoint>,
    /// Also print each record's words, and the fields of its header
    #[arg(long, conflicts_with_all = ["stats", "check"])]
    pub raw: bool,
    /// Print counts and bytes per record type instead of the records
    #[arg(long, conflicts_with = "check")]
    pub stats: bool,
    /// Print the names and other strings of the trace, each with its kind (what `fxtrec cut --redact` replaces, or public) and count
    #[arg(long, conflicts_with_all = ["types", "koids", "from", "to", "raw", "stats", "check", "json"])]
    pub strings: bool,
    /// Print a JSON object per record, or one object with the result of --stats or --check (members: docs/reference/output.md)
    #[arg(long, conflicts_with = "raw")]
    pub json: bool,
    /// Check the trace against the format and against fxtrec's guarantees, instead of printing it
    #[arg(long, conflicts_with_all = ["types", "koids", "from", "to"])]
    pub check: bool,
    /// Check against the format alone, for traces of other programs
    #[arg(long, requires = "check")]
    pub spec_only: bool,
}

/// One record type, or a family of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// Whether `kind` belongs to it.
    pub fn contains(&self, kind: Kind) -> bool {
        self.0.contains(&kind)
    }
}

/// A name that is not a record type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown record type; expected event, scheduling, profiler, metadata, {}", names())]
pub struct NoSuchType;

fn names() -> String {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

impl FromStr for Kinds {
    type Err = NoSuchType;

    fn from_str(name: &str) -> Result<Self, NoSuchType> {
        let family: fn(Kind) -> bool = match name {
            "event" => Kind::is_event,
            "scheduling" => Kind::is_scheduling,
            "profiler" => Kind::is_profiler,
            "metadata" => Kind::is_metadata,
            _ => return name.parse().map(|kind| Self(vec![kind])).map_err(|_| NoSuchType),
        };
        Ok(Self(Kind::ALL.iter().copied().filter(|&kind| family(kind)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_all_of_its_types_and_a_name_is_one() {
        let scheduling: Kinds = "scheduling".parse().expect("a family");
        assert!(scheduling.contains(Kind::Wakeup) && scheduling.contains(Kind::ContextSwitch));
        assert!(!scheduling.contains(Kind::Instant));
        assert_eq!("wakeup".parse(), Ok(Kinds(vec![Kind::Wakeup])));
    }

    #[test]
    fn an_unknown_type_is_refused_with_those_there_are() {
        let error = "sched_switch".parse::<Kinds>().expect_err("no such type");
        assert!(error.to_string().contains("context_switch, wakeup"), "{error}");
    }
}
