//! The messages at the end of a recording.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::pipeline::Finished;
use super::providers;
use crate::capture::stacks::Counts as StackCounts;
use crate::commands::plan::Filter;
use crate::encode::stats::Stats;
use crate::flight::files::Removed;
use crate::kernel::quotas::{QuotaCounts, QuotaGrowth};
use crate::kernel::steal::StealGrowth;
use crate::sink::Target;
use crate::sink::outfile::NameState;
use crate::units::escape;
use crate::units::look::Look;
use crate::units::text::{bytes, count, counted, short};
use crate::units::{Cpu, Nanos};

/// The missing parts of frames without a name.
const UNNAMED: &str =
    "frames unnamed for lack of time (--naming-time) or space: `fxtrec symbolize FILE` names them";

/// The same for frames in generated code.
const UNNAMED_GENERATED: &str =
    "frames unnamed: their programs generated this code and wrote no perf map of it";

/// The facts about a recording that has ended.
#[derive(Debug)]
pub(super) struct Summary<'a> {
    pub(super) finished: &'a Finished,
    pub(super) cpus: usize,
    /// The facts that the source cannot record.
    pub(super) lacking: &'a [&'a str],
    pub(super) target: &'a Target,
    pub(super) colour: bool,
    /// The lines that are shown even if their count is zero, because they were requested.
    pub(super) asked_for: &'a [&'static str],
    /// Whether the trace holds only the last events.
    pub(super) partial: bool,
    pub(super) armed: bool,
    /// Whether stacks were requested.
    pub(super) asked_for_stacks: bool,
}

impl Summary<'_> {
    fn loud(&self, text: &str) -> String {
        Look { colour: self.colour, columns: None }.bad(text)
    }

    /// Writes a line for each kind of non-scheduler event.
    fn probe_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = &self.finished.captured.ending.stats.probes;
        let kinds = [
            ("probes", counts.probe_hits, "hits"),
            ("events", counts.tracepoints, "hits of tracepoints"),
            ("syscalls", counts.syscalls, "system calls"),
            ("interrupts", counts.interrupts, "hard and soft"),
        ];
        for (name, number, what) in kinds {
            if self.asked_for.contains(&name) || number > 0 {
                writeln!(f, "  {name:<10} {} {what}", count(number))?;
            }
        }
        let odd = [
            (counts.unmatched_ends, "ends whose beginning was before the recording, left out"),
            (counts.inferred_ends, "ends were not seen, and are inferred"),
            (counts.unfinished, "were still open when their thread or the recording ended"),
        ];
        for (number, what) in odd.into_iter().filter(|(number, _)| *number > 0) {
            writeln!(f, "             {} {what}", count(number))?;
        }
        Ok(())
    }

    /// Applications that recorded their own events, if any.
    fn provider_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(line) = providers::summary(&self.finished.captured.providers) else {
            return Ok(());
        };
        writeln!(f, "  providers  {}", escape::line(&line.text))?;
        match dropped(self.finished) {
            Some(text) => writeln!(f, "             {}", self.loud(&text)),
            None => Ok(()),
        }
    }

    /// Writes the lines about stacks, if they were requested.
    fn stack_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(counts) = self.finished.captured.stacks else { return Ok(()) };
        if !self.asked_for_stacks {
            match (counts.written, counts.lost) {
                (0, 0) => return Ok(()),
                (written, 0) => writeln!(f, "  stacks     {} of long waits", count(written))?,
                (written, lost) => {
                    let (written, lost) = (count(written), count(lost));
                    writeln!(f, "  stacks     {written} of long waits, {lost} lost")?;
                }
            }
            for (number, what) in unnamed(&counts).into_iter().filter(|(number, _)| *number > 0) {
                writeln!(f, "             {} {what}", count(number))?;
            }
            return Ok(());
        }
        writeln!(f, "  stacks     {}", count(counts.written))?;
        let odd = [
            (counts.kernel_unreadable, "without the kernel stack, which could not be walked"),
            (counts.kernel_too_deep, "truncated: the kernel stack is too deep"),
            (counts.user_unreadable, "without the user stack, which could not be walked"),
            (counts.user_too_deep, "truncated: the user stack is too deep"),
            (counts.user_cut, "truncated: the user stack ends early (--unwind dwarf copies more)"),
            (
                counts.user_unproved,
                "may lack a caller: the user stack was walked by frame pointers alone",
            ),
            (counts.python, "lack Python functions, or have them misplaced"),
            (
                counts.unknown_pythons,
                "programs with an unknown version of Python: its functions are not shown",
            ),
            (counts.user_no_room, "without the user stack: too many different stacks"),
            (counts.lost, "more lost: a buffer was full, or there was no time for them at the end"),
            (counts.unseen, "switches that the BPF program for stacks did not see"),
            (
                counts.given_up,
                "waits not followed: two threads shared a table entry, or records were lost",
            ),
            (counts.unknown_threads, "more stacks, of threads that had exited"),
            (counts.lost_mappings, "records of loaded code lost: short programs may have no names"),
            (counts.unknown_processes, "processes could not be inspected (exited?)"),
            (
                counts.unanswered_files,
                "executables or libraries not read: their file systems did not answer, or reading took too long",
            ),
            (
                counts.left_readers,
                "fxtrec-files processes of earlier recordings hang: no files are read until these exit",
            ),
            (counts.unanswered_addresses, "addresses without names, in files that were not read"),
        ];
        let not_shown =
            (counts.not_in_perfetto, "are not shown by Perfetto: there was no space to keep them");
        let odd = odd.into_iter().chain(unnamed(&counts)).chain([not_shown]);
        for (number, what) in odd.filter(|(number, _)| *number > 0) {
            writeln!(f, "             {} {what}", count(number))?;
        }
        Ok(())
    }

    /// Writes the results of triggers and snapshots, if enabled.
    fn flight_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = &self.finished.captured.triggers;
        if self.armed {
            writeln!(f, "  triggers   {} fired", count(counts.fired))?;
            let held_back = [
                (counts.too_soon, "more suppressed within --trigger-interval of another"),
                (
                    counts.too_many,
                    "more suppressed after the limit was reached (--max-snapshots, --trigger-count)",
                ),
                (
                    counts.preempted,
                    "waits after a preemption exceeded the limit too, but `wakeup` does not test them (use runqueue)",
                ),
                (
                    counts.woken,
                    "waits after a wakeup exceeded the limit too, but `preempt` does not test them (use runqueue)",
                ),
            ];
            for (number, what) in held_back.into_iter().filter(|(number, _)| *number > 0) {
                writeln!(f, "             {} {what}", count(number))?;
            }
        }
        let Some(snapshots) = self.finished.snapshots else { return Ok(()) };
        if self.armed || snapshots.written + snapshots.failed > 0 {
            let removed = removed(snapshots.removed);
            writeln!(f, "  snapshots  {} written{removed}", count(snapshots.written))?;
        }
        if snapshots.failed > 0 {
            let failed = format!("{} could not be written", count(snapshots.failed));
            writeln!(f, "             {}", self.loud(&failed))?;
        }
        Ok(())
    }

    fn output_line(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.finished.output {
            NameState::InPlace => {}
            // The last line reports missing data.
            NameState::Removed => return writeln!(f, "  output     {}", self.loud("removed")),
            NameState::Moved(None) => return writeln!(f, "  output     {}", self.loud("moved")),
            NameState::Moved(Some(path)) => {
                return output_lines(f, &escape::line(&path.display().to_string()));
            }
        }
        if let Some(series) = &self.finished.series {
            let last = series.last.display().to_string();
            let (last, removed) = (escape::line(&last), removed(series.removed));
            return match series.files {
                1 if removed.is_empty() => output_lines(f, &last),
                1 => writeln!(f, "  output     1 file{removed}: {last}"),
                files => writeln!(f, "  output     {files} files{removed}, the last is {last}"),
            };
        }
        if let Target::Path(path) = self.target {
            let path = path.display().to_string();
            output_lines(f, &escape::line(&path))?;
        }
        Ok(())
    }

    fn bytes_line(&self) -> String {
        let stats = &self.finished.captured.ending.stats;
        let scheduler = stats.switches_written
            + stats.inferred_switches
            + stats.occupants
            + stats.wakeups_written;
        let reported = providers::records(&self.finished.captured.providers);
        let events = scheduler + stats.probes.total() + reported;
        let per_event = self.finished.totals.output_bytes as f64 / events.max(1) as f64;
        if self.partial {
            return format!("{} (the last part of it)", bytes(self.finished.totals.output_bytes));
        }
        let packed = match self.finished.totals.output_bytes == self.finished.totals.record_bytes {
            true => String::new(),
            false => format!(", {} unpacked", bytes(self.finished.totals.record_bytes)),
        };
        format!(
            "{} ({per_event:.1} bytes per event{packed})",
            bytes(self.finished.totals.output_bytes)
        )
    }
}

/// How many frames have no names, and why.
fn unnamed(counts: &StackCounts) -> [(u64, &'static str); 2] {
    [(counts.unnamed, UNNAMED), (counts.unnamed_generated, UNNAMED_GENERATED)]
}

/// Writes where the trace is, and which command to run next.
fn output_lines(f: &mut Formatter<'_>, path: &str) -> fmt::Result {
    writeln!(f, "  output     {path}: open it at https://ui.perfetto.dev")?;
    writeln!(f, "             fxtrec why {path} explains the worst delay in it")
}

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let stats = &self.finished.captured.ending.stats;
        let seconds = self.finished.duration.as_secs_f64();
        writeln!(
            f,
            "fxtrec: recorded {seconds:.2} s on {}",
            counted(self.cpus as u64, "CPU", "CPUs")
        )?;
        let switches = stats.switches_written;
        let rate = count((switches as f64 / seconds.max(0.001)) as u64);
        writeln!(f, "  switches   {} ({rate} per second)", count(switches))?;
        if stats.inferred_switches > 0 {
            let inferred = counted(stats.inferred_switches, "switch", "switches");
            writeln!(f, "  inferred   {inferred} that no tracepoint reported")?;
        }
        let spurious = count(stats.spurious_wakeups);
        let wakeups = count(stats.wakeups_written);
        writeln!(f, "  wakeups    {wakeups} (and {spurious} of threads that were awake)")?;
        self.probe_lines(f)?;
        self.stack_lines(f)?;
        self.provider_lines(f)?;
        let processes = counted(stats.processes, "process", "processes");
        writeln!(f, "  threads    {} in {processes}", count(stats.threads))?;
        writeln!(f, "  trace      {}", self.bytes_line())?;
        match (lost(self.finished), self.finished.result.is_ok()) {
            (Some(text), _) => {
                writeln!(f, "  lost       {}", self.loud(&text))?;
                for text in causes(self.finished) {
                    writeln!(f, "             {text}")?;
                }
            }
            (None, true) => writeln!(f, "  lost       nothing")?,
            (None, false) => writeln!(f, "  lost       nothing before the output failed")?,
        }
        if !self.lacking.is_empty() {
            let lacking = self.lacking.join(", ");
            writeln!(f, "  unknown    not recorded by this source: {lacking}")?;
        }
        let growth = &self.finished.captured.growth;
        if let Some(text) = stolen(&growth.host) {
            writeln!(f, "  stolen     {}", self.loud(&text))?;
        }
        if let Some(text) = stopped(&growth.quotas) {
            let which = if self.lacking.contains(&"throttled") {
                "; this source does not record which threads"
            } else {
                ""
            };
            writeln!(f, "  quotas     {}{which}", self.loud(&text))?;
        }
        let unreported = self.finished.captured.ending.source.unreported.total();
        if unreported > 0 {
            let text = format!(
                "{} that the kernel counted but never wrote",
                counted(unreported, "event", "events")
            );
            writeln!(f, "  unreported {}", self.loud(&text))?;
        }
        if self.finished.result.is_err() {
            let text = format!("{}: the output failed", self.finished.unsaved);
            writeln!(f, "  unsaved    {}", self.loud(&text))?;
        }
        let left_out = self.finished.captured.ending.source.cgroups_left_out;
        if left_out > 0 {
            let text = format!(
                "{} not in scope: the set of cgroups was full",
                counted(left_out, "cgroup", "cgroups")
            );
            writeln!(f, "  {}", self.loud(&text))?;
        }
        if self.finished.captured.ending.source.late > 0 {
            let (late, most) = (
                counted(self.finished.captured.ending.source.late, "event is", "events are"),
                self.finished.captured.ending.source.most_late,
            );
            let most = most.0 as f64 / 1e6;
            writeln!(f, "  late       {late} up to {most:.3} ms too late in the trace")?;
        }
        self.flight_lines(f)?;
        self.output_line(f)
    }
}

/// The facts about a recording, without its events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub(super) scope: &'a Filter,
    /// The machine's context switches during the recording.
    pub(super) switched: u64,
}

impl Expected<'_> {
    /// Warns if no event arrived although some must have happened: because the machine switched, or because COMMAND ran. No warning for
    /// selected processes and cgroups, which may have slept.
    fn nothing_came(self, stats: &Stats) -> Option<String> {
        let must = match self.scope {
            Filter::Machine => true,
            Filter::Processes { command, .. } => *command,
            Filter::Cgroups(_) | Filter::Owned => false,
        };
        let came = stats.switches + stats.inferred_switches + stats.wakeups + stats.lost;
        (must && came == 0 && stats.losses == 0 && self.switched > 0).then(|| {
            format!(
                "nothing was recorded: the machine switched {} times between threads, but no event arrived; try another --source (fxtrec doctor)",
                count(self.switched)
            )
        })
    }
}

/// The output that was written, or should have been, but is not in its place, and the remedy; `None` if nothing is missing.
pub(super) fn missing(
    finished: &Finished,
    target: &Target,
    expected: Expected<'_>,
) -> Option<String> {
    let failed = finished.snapshots.map_or(0, |snapshots| snapshots.failed);
    let path = match (&finished.series, target) {
        (Some(series), _) => series.last.display().to_string(),
        (None, Target::Path(path)) => path.display().to_string(),
        (None, Target::Stdout) => "standard output".to_owned(),
    };
    let removed = finished.series.as_ref().map_or(0, |series| series.missing);
    let output = match &finished.output {
        _ if removed > 0 => Some(format!(
            "{removed} of the recording's files {} missing: removed or moved while {} written; keep them until they are complete",
            if removed == 1 { "is" } else { "are" },
            if removed == 1 { "it was" } else { "they were" },
        )),
        NameState::InPlace => None,
        NameState::Removed => Some(format!(
            "the trace is missing: {path} was removed while it was being written; record again, and keep the file until fxtrec ends"
        )),
        NameState::Moved(to) => {
            let now = to.as_ref().map(|to| format!(", to {}", to.display())).unwrap_or_default();
            Some(format!("{path} is no longer the trace: the trace was moved{now}"))
        }
    };
    let snapshots = (failed > 0).then(|| {
        let (noun, verb) = if failed == 1 { ("snapshot", "is") } else { ("snapshots", "are") };
        let failed = count(failed);
        format!("{failed} {noun} {verb} missing: not written, see above; free space, or name another directory with -o")
    });
    let nothing = expected.nothing_came(&finished.captured.ending.stats);
    let replaced = &finished.handed_over.replaced;
    let replaced = replaced.first().map(|path| {
        let more = match replaced.len() - 1 {
            0 => String::new(),
            more => format!(" and {} more", count(more as u64)),
        };
        format!(
            "{}{more}: not what fxtrec wrote there; COMMAND or another process replaced it",
            path.display()
        )
    });
    let parts: Vec<String> =
        nothing.into_iter().chain(output).chain(snapshots).chain(replaced).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The data that is missing although the output accepted all of it, with a line for each kind of loss. Printed even if no summary is
/// requested.
pub(super) fn losses(finished: &Finished) -> impl Iterator<Item = String> {
    let lost = lost(finished).map(|text| format!("LOST {text}"));
    lost.into_iter().chain(causes(finished)).chain(dropped(finished))
}

fn lost(finished: &Finished) -> Option<String> {
    lost_text(&finished.captured.ending.stats)
}

fn lost_text(stats: &Stats) -> Option<String> {
    if stats.is_whole() {
        return None;
    }
    let mut parts = Vec::new();
    if stats.lost > 0 {
        parts.push(format!(
            "{}{}, in {}",
            if stats.lost_at_most { "AT MOST " } else { "" },
            counted(stats.lost, "EVENT", "EVENTS"),
            counted(stats.losses - stats.unknown_losses, "gap", "gaps")
        ));
    }
    if stats.unknown_losses > 0 {
        let gaps = counted(stats.unknown_losses, "gap", "gaps");
        parts.push(format!(
            "AN UNKNOWN NUMBER OF EVENTS, in {gaps}: CPUs came online and ran before they could be recorded"
        ));
    }
    if stats.lost_switch_records > 0 {
        let records = counted(stats.lost_switch_records, "switch record", "switch records");
        parts.push(format!("{records} of silent tasks"));
    }
    if stats.lost_others > 0 {
        let at_most = if stats.lost_others_at_most { "at most " } else { "" };
        let others = counted(stats.lost_others, "event", "events");
        parts.push(format!(
            "{at_most}{others} of system calls, probes and interrupts; no switches or wakeups are missing there"
        ));
    }
    if stats.lost_lives > 0 {
        let lives = counted(stats.lost_lives, "fork, exit or name", "forks, exits and names");
        parts.push(format!("{lives}: the process of some threads may be unknown"));
    }
    if stats.unseen_lives > 0 && stats.unknown_losses == 0 {
        parts.push("an unknown number of forks, exits and names".into());
    }
    Some(parts.join("; also "))
}

/// A smaller share of a CPU is not listed.
const LEAST_STOLEN: f64 = 0.001;

/// The number of CPUs listed separately.
const STOLEN_CPUS: usize = 4;

/// The time that the host took from the machine's CPUs, the worst first.
fn stolen(host: &StealGrowth) -> Option<String> {
    let share =
        |(cpu, stolen): &(Cpu, Nanos)| (*cpu, stolen.0 as f64 / host.during.0.max(1) as f64);
    let mut shares: Vec<(Cpu, f64)> =
        host.stolen.iter().map(share).filter(|(_, share)| *share >= LEAST_STOLEN).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let one = |(cpu, share): &(Cpu, f64)| format!("{:.1} % of CPU {}", share * 100.0, cpu.0);
    let reported: Vec<String> = shares.iter().take(STOLEN_CPUS).map(one).collect();
    let rest = match shares.len().saturating_sub(STOLEN_CPUS) {
        0 => String::new(),
        more => format!(", less of {}", counted(more as u64, "more CPU", "more CPUs")),
    };
    (!reported.is_empty()).then(|| format!("the host took {}{rest}", reported.join(", ")))
}

/// The number of cgroups listed separately.
const STOPPED_CGROUPS: usize = 3;

/// How long quotas kept cgroups from running, the worst first.
fn stopped(quotas: &QuotaGrowth) -> Option<String> {
    let one = |(path, counts): &(String, QuotaCounts)| {
        let time = short(Duration::from_nanos(counts.throttled.0));
        let periods = counted(counts.throttled_periods, "period", "periods");
        format!("{} for {time} in {periods}", escape::line(path))
    };
    let reported: Vec<String> = quotas.stopped.iter().take(STOPPED_CGROUPS).map(one).collect();
    let rest = match quotas.stopped.len().saturating_sub(STOPPED_CGROUPS) {
        0 => String::new(),
        more => format!(", {more} more for less time"),
    };
    (!reported.is_empty()).then(|| format!("stopped {}{rest}", reported.join(", ")))
}

/// The records that applications dropped.
fn dropped(finished: &Finished) -> Option<String> {
    let dropped = providers::summary(&finished.captured.providers)?.dropped;
    (dropped > 0).then(|| {
        format!(
            "{} OF PROVIDERS DROPPED: their buffers were full; try a larger --provider-buffer",
            counted(dropped, "EVENT", "EVENTS")
        )
    })
}

/// The reason why events were lost, a line for each cause.
fn causes(finished: &Finished) -> impl Iterator<Item = String> {
    let causes = finished.captured.ending.causes.iter();
    causes.map(|found| format!("{found}; {}", found.cause.remedy()))
}

/// How many files were removed to stay within limits.
fn removed(removed: Removed) -> String {
    let Removed { ours, earlier } = removed;
    let (ours, earlier_text) = (count(ours), count(earlier));
    match (removed.ours, earlier) {
        (0, 0) => String::new(),
        (_, 0) => format!(", {ours} of them removed to stay within limits"),
        (0, _) => format!(", {earlier_text} of earlier runs removed to stay within limits"),
        _ => {
            format!(
                ", {ours} of them and {earlier_text} of earlier runs removed to stay within limits"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stats: Stats) -> String {
        lost_text(&stats).unwrap_or_default()
    }

    #[test]
    fn what_the_host_took_is_told_where_it_is_a_share_worth_a_word() {
        let host = |stolen: &[u64]| {
            let stolen = (0..).map(Cpu).zip(stolen.iter().copied().map(Nanos)).collect();
            super::stolen(&StealGrowth { during: Nanos(1_000_000), stolen })
        };
        assert_eq!(host(&[0, 999]), None);
        let two = "the host took 50.0 % of CPU 2, 3.1 % of CPU 0";
        assert_eq!(host(&[31_000, 0, 500_000]).as_deref(), Some(two));
        let many = host(&[2_000; 7]).expect("a line");
        assert!(many.ends_with("0.2 % of CPU 3, less of 3 more CPUs"), "{many}");
    }

    #[test]
    fn the_cgroups_that_quotas_stopped_longest_are_named() {
        let growth = |stopped: &[(&str, u64, u64)]| {
            let group = |&(path, periods, millis): &(&str, u64, u64)| {
                let throttled = Nanos(millis * 1_000_000);
                let counts = QuotaCounts { periods: 30, throttled_periods: periods, throttled };
                (path.to_owned(), counts)
            };
            let stopped = stopped.iter().map(group).collect();
            super::stopped(&QuotaGrowth { during: Nanos(3_000_000_000), stopped })
        };
        assert_eq!(growth(&[]), None);
        let one = "stopped /x for 306 ms in 12 periods, /a/b for 5.00 ms in 1 period";
        assert_eq!(growth(&[("/x", 12, 306), ("/a/b", 1, 5)]).as_deref(), Some(one));
        let many = growth(&[("/a", 9, 9), ("/b", 8, 8), ("/c", 7, 7), ("/d", 6, 6), ("/e", 5, 5)]);
        let many = many.expect("a line");
        assert!(many.ends_with("/c for 7.00 ms in 7 periods, 2 more for less time"), "{many}");
    }

    #[test]
    fn a_machine_that_was_not_idle_cannot_have_had_no_event() {
        let said = |scope: &Filter, switched, stats: Stats| {
            Expected { scope, switched }.nothing_came(&stats)
        };
        let none = Stats::default;
        let text = said(&Filter::Machine, 1234, none()).expect("something is wrong");
        assert!(
            text.starts_with("nothing was recorded: the machine switched 1 234 times"),
            "{text}"
        );
        let processes = |command| Filter::Processes { command, pids: Vec::new() };
        assert!(said(&processes(true), 5, none()).is_some());
        assert_eq!(said(&processes(false), 5, none()), None, "it may have slept");
        assert_eq!(said(&Filter::Cgroups(Vec::new()), 5, none()), None, "they may have slept");
        assert_eq!(said(&Filter::Machine, 0, none()), None, "nothing happened");
        assert_eq!(said(&Filter::Machine, 5, Stats { switches: 1, ..none() }), None);
        let lost = Stats { lost: 9, losses: 1, ..none() };
        assert_eq!(said(&Filter::Machine, 5, lost), None, "that is said as a loss");
    }

    #[test]
    fn a_loss_is_reported_as_exactly_as_it_is_known() {
        assert_eq!(lost_text(&Stats::default()), None);
        let exact = Stats { lost: 12_345, losses: 2, ..Stats::default() };
        assert!(text(exact).starts_with("12 345 EVENTS, in 2 gaps"), "{}", text(exact));
        let bound = Stats { lost_at_most: true, ..exact };
        assert!(text(bound).starts_with("AT MOST 12 345 EVENTS"), "{}", text(bound));
        let unknown = Stats { losses: 1, unknown_losses: 1, unseen_lives: 1, ..Stats::default() };
        assert!(text(unknown).starts_with("AN UNKNOWN NUMBER OF EVENTS, in 1 gap:"));
        let one = Stats { lost: 1, losses: 1, lost_others: 1, ..Stats::default() };
        assert!(text(one).starts_with("1 EVENT, in 1 gap; also 1 event of"), "{}", text(one));
        let both = Stats { losses: 3, unknown_losses: 1, ..exact };
        assert!(text(both).starts_with("12 345 EVENTS, in 2 gaps"), "{}", text(both));
        assert!(text(both).contains("; also AN UNKNOWN NUMBER"), "{}", text(both));
        let records = Stats { losses: 1, lost_switch_records: 7, ..Stats::default() };
        assert!(text(records).starts_with("7 switch records of silent tasks"), "{}", text(records));
        let others = Stats { lost_others: 9, lost_others_at_most: true, ..Stats::default() };
        assert!(text(others).starts_with("at most 9 events of system calls"), "{}", text(others));
        let lives = Stats { lost_lives: 4, ..Stats::default() };
        assert!(text(lives).starts_with("4 forks, exits and names"), "{}", text(lives));
    }
}
