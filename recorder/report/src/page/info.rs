//! The recorder's statements about the recording: the events `trace_info` and `trace_stats`.

use fxt_reader::record::Args;
use fxtrec_sched::signed;

/// The part of `trace_info` and `trace_stats` that the page shows. Traces of other
/// recorders have neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) command_line: Option<String>,
    pub(super) host: Option<String>,
    pub(super) release: Option<String>,
    /// The version of the recorder.
    pub(super) version: Option<String>,
    /// The nanoseconds to add to a time of the trace to get the time since 1970.
    pub(super) wall_clock_offset: Option<i64>,
    /// Whether the trace ends as a finished recording does.
    pub(super) finished: bool,
}

impl Info {
    /// Takes the relevant arguments of `trace_info`.
    pub(super) fn learn(&mut self, args: &Args<'_>) {
        let text = |name| args.str(name).map(str::to_owned);
        self.command_line = text("command_line");
        self.host = text("host");
        self.release = text("release");
        self.version = text("version");
        self.wall_clock_offset = args.get("wall_clock_offset_ns").and_then(signed);
    }
}
