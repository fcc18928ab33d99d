//! The tables: their columns, and the encoding of each. `docs/reference/export.md` describes them.
//!
//! Names and types are stable. A column may be added at any time; [`VERSION`] is incremented when one is removed or changes its meaning.

use std::fmt;
use std::str::FromStr;

/// The version of the schema, in the metadata of every file as `fxtrec.schema_version`.
pub const VERSION: u32 = 1;

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 64-bit number: times and lengths in nanoseconds, counts.
    Long,
    /// A 32-bit number: dense ids, CPUs.
    Int,
    Bool,
    Double,
    Text,
}

impl Kind {
    /// Its type in SQL.
    pub const fn sql(self) -> &'static str {
        match self {
            Kind::Long => "BIGINT",
            Kind::Int => "INTEGER",
            Kind::Bool => "BOOLEAN",
            Kind::Double => "DOUBLE",
            Kind::Text => "VARCHAR",
        }
    }
}

/// How the values of a column are encoded before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Differences between neighbours: for times, which ascend, and for counts that rarely repeat.
    Delta,
    /// By a dictionary.
    Dictionary,
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub nullable: bool,
    pub packing: Packing,
}

const fn column(name: &'static str, kind: Kind, packing: Packing) -> Column {
    Column { name, kind, nullable: false, packing }
}

/// A time or a duration.
const fn nanos(name: &'static str) -> Column {
    column(name, Kind::Long, Packing::Delta)
}

const fn id(name: &'static str) -> Column {
    column(name, Kind::Int, Packing::Dictionary)
}

const fn count(name: &'static str) -> Column {
    column(name, Kind::Long, Packing::Dictionary)
}

const fn flag(name: &'static str) -> Column {
    column(name, Kind::Bool, Packing::Dictionary)
}

const fn text(name: &'static str) -> Column {
    column(name, Kind::Text, Packing::Dictionary)
}

const fn or_null(column: Column) -> Column {
    Column { nullable: true, ..column }
}

/// A table. The variants are in the order in which files get their final names: once a trace is in the table `trace`, all its rows are
/// exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    SchedSlice,
    ThreadState,
    Wakeup,
    Wait,
    Antagonist,
    Span,
    Blame,
    Counter,
    Sample,
    Stack,
    Loss,
    Thread,
    Process,
    Label,
    Trace,
}

impl Table {
    pub const ALL: [Table; 15] = [
        Table::SchedSlice,
        Table::ThreadState,
        Table::Wakeup,
        Table::Wait,
        Table::Antagonist,
        Table::Span,
        Table::Blame,
        Table::Counter,
        Table::Sample,
        Table::Stack,
        Table::Loss,
        Table::Thread,
        Table::Process,
        Table::Label,
        Table::Trace,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Table::SchedSlice => "sched_slice",
            Table::ThreadState => "thread_state",
            Table::Wakeup => "wakeup",
            Table::Wait => "wait",
            Table::Antagonist => "antagonist",
            Table::Span => "span",
            Table::Blame => "blame",
            Table::Counter => "counter",
            Table::Sample => "sample",
            Table::Stack => "stack",
            Table::Loss => "loss",
            Table::Thread => "thread",
            Table::Process => "process",
            Table::Label => "label",
            Table::Trace => "trace",
        }
    }

    /// Its columns. A table of events begins with `ts`, by which the rows of each row group are sorted.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Table::SchedSlice => SCHED_SLICE,
            Table::ThreadState => THREAD_STATE,
            Table::Wakeup => WAKEUP,
            Table::Wait => WAIT,
            Table::Antagonist => ANTAGONIST,
            Table::Span => SPAN,
            Table::Blame => BLAME,
            Table::Counter => COUNTER,
            Table::Sample => SAMPLE,
            Table::Stack => STACK,
            Table::Loss => LOSS,
            Table::Thread => THREAD,
            Table::Process => PROCESS,
            Table::Label => LABEL,
            Table::Trace => TRACE,
        }
    }

    /// The relative amount of work to write it, compared with the other tables.
    pub(crate) const fn weight(self) -> u32 {
        match self {
            Table::ThreadState => 12,
            Table::Antagonist => 10,
            Table::Wait => 8,
            Table::SchedSlice => 6,
            Table::Wakeup => 4,
            Table::Span | Table::Blame | Table::Counter | Table::Sample => 2,
            _ => 1,
        }
    }

    /// Whether its rows are sorted by their first column.
    pub fn is_by_time(self) -> bool {
        self.columns()[0].name == "ts"
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown table '{0}'; the tables are {names}", names = Table::ALL.map(Table::name).join(", "))]
pub struct NoSuchTable(String);

impl FromStr for Table {
    type Err = NoSuchTable;

    fn from_str(text: &str) -> Result<Table, NoSuchTable> {
        let named = Table::ALL.into_iter().find(|table| table.name() == text);
        named.ok_or_else(|| NoSuchTable(text.to_owned()))
    }
}

const SCHED_SLICE: &[Column] = &[
    nanos("ts"),
    nanos("dur"),
    id("cpu"),
    id("utid"),
    or_null(text("end_state")),
    flag("complete"),
    or_null(count("steal_ns")),
    or_null(count("irq_ns")),
    or_null(count("irqs")),
    or_null(count("need_resched_ns")),
];

const THREAD_STATE: &[Column] = &[
    nanos("ts"),
    nanos("dur"),
    or_null(id("cpu")),
    id("utid"),
    text("state"),
    flag("complete"),
    or_null(id("waker_utid")),
    or_null(flag("irq_context")),
    or_null(id("syscall")),
    or_null(count("throttled_ns")),
];

const WAKEUP: &[Column] = &[
    nanos("ts"),
    id("cpu"),
    id("utid"),
    or_null(id("waker_utid")),
    flag("irq_context"),
    flag("effective"),
];

const WAIT: &[Column] = &[
    nanos("ts"),
    nanos("dur"),
    column("id", Kind::Long, Packing::Delta),
    id("utid"),
    text("kind"),
    id("cpu"),
    id("ran_on_cpu"),
    or_null(id("waker_utid")),
    flag("irq_context"),
    or_null(count("throttled_ns")),
    or_null(text("throttled_by")),
    or_null(id("antagonist_utid")),
    or_null(nanos("antagonist_ns")),
    or_null(id("antagonists")),
    or_null(nanos("idle_ns")),
    or_null(nanos("unknown_ns")),
];

const ANTAGONIST: &[Column] =
    &[nanos("ts"), nanos("dur"), column("wait_id", Kind::Long, Packing::Delta), id("utid")];

const SPAN: &[Column] = &[
    nanos("ts"),
    nanos("dur"),
    id("utid"),
    text("category"),
    text("name"),
    flag("is_provider"),
    or_null(id("begin_utid")),
];

const BLAME: &[Column] = &[
    nanos("ts"),
    nanos("dur"),
    nanos("span_dur"),
    id("utid"),
    text("category"),
    text("name"),
    text("part"),
    or_null(text("class")),
    or_null(id("by_utid")),
    count("stretches"),
];

const SAMPLE: &[Column] =
    &[nanos("ts"), id("utid"), text("kind"), or_null(id("stack_id")), or_null(text("lacks"))];

const STACK: &[Column] = &[
    id("stack_id"),
    id("depth"),
    or_null(text("function")),
    or_null(text("module")),
    count("address"),
    flag("in_kernel"),
];

const COUNTER: &[Column] = &[
    nanos("ts"),
    id("utid"),
    text("category"),
    text("name"),
    column("counter_id", Kind::Long, Packing::Dictionary),
    text("series"),
    column("value", Kind::Double, Packing::Dictionary),
];

const LOSS: &[Column] = &[nanos("ts"), nanos("dur"), or_null(id("cpu")), or_null(count("events"))];

const THREAD: &[Column] = &[
    id("utid"),
    count("tid"),
    or_null(text("name")),
    or_null(id("upid")),
    or_null(nanos("end_ts")),
    or_null(flag("is_main_thread")),
    count("koid"),
    flag("is_recorder"),
];

const PROCESS: &[Column] =
    &[id("upid"), count("pid"), or_null(text("name")), count("koid"), or_null(text("cgroup"))];

const LABEL: &[Column] = &[text("key"), text("value")];

const TRACE: &[Column] = &[
    text("file"),
    or_null(text("host")),
    or_null(text("release")),
    or_null(text("machine")),
    or_null(text("version")),
    or_null(text("command_line")),
    or_null(text("scope")),
    or_null(text("causes")),
    or_null(count("cpus")),
    nanos("start_ts"),
    nanos("end_ts"),
    or_null(nanos("clock_offset_ns")),
    or_null(text("week")),
    count("switches"),
    count("idle_wakeups"),
    count("gaps"),
    count("lost_events"),
    count("lost_unknown"),
    count("lost_unreported"),
    count("lost_records"),
    count("lost_records_unknown"),
    count("damaged"),
    flag("truncated"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_and_of_their_columns_are_unique() {
        for table in Table::ALL {
            assert_eq!(table.name().parse(), Ok(table));
            let mut names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{table}");
        }
        assert!("slices".parse::<Table>().unwrap_err().to_string().contains("sched_slice"));
    }

    #[test]
    fn the_manual_describes_every_column_and_its_type() {
        let manual = include_str!("../../../docs/reference/export.md");
        for table in Table::ALL {
            let heading = format!("### {table}\n");
            let section = manual.split(&heading).nth(1).unwrap_or_else(|| panic!("no {table}"));
            let section = section.split("\n##").next().unwrap_or_default();
            for column in table.columns() {
                let kind = column.kind.sql();
                let null = if column.nullable { ", null" } else { "" };
                let row = format!("| `{}` | {kind}{null} |", column.name);
                assert!(section.contains(&row), "{table}: {row}");
            }
        }
    }
}
