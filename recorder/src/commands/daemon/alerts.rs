//! `fxtrec daemon --alert`: keeps the last seconds in memory, and writes them to a file when a condition is met.
//!
//! ```text
//!   tables of the kernel --> statistics since the last look --+
//!                                                             +--> fxtrec record -a --mode circular --> alert-TIME.1.fxt.zst
//!   events --> triggers, which that recorder looks at itself -+
//! ```
//!
//! The recorder is a separate process, like that of `fxtrec top --history`. A thread waits for its messages, keeps its files within their
//! budget, and passes on requests of the statistics, at the permitted rate.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fxtrec_gates::{
    Amount, Gate, Lasting, Metric, ParseError, Quantity, Stat, Subject, Trigger, What,
};

use crate::cli::DaemonArgs;
use crate::commands::live::groups::Groups;
use crate::commands::live::history::{History, written};
use crate::flight::files::{self, Bounds, Files, NotRemoved};
use crate::kernel::bpf::counts::{Figures, Histogram, Key, Measure, Row};
use crate::kernel::stop_token::StopToken;
use crate::units::escape::Escaping;
use crate::units::grid::printable;
use crate::units::text::{counted, noun};

/// The prefix of the file names in all runs.
const PREFIX: &str = "alert-";

/// How long to wait for lines of the recorder before checking for requests for a file.
const TICK: Duration = Duration::from_millis(200);

/// How long to wait before the recorder is started again: this long for the first time, and twice as long after each time in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A recorder that has recorded for this long had no lasting problem.
const LASTING: Duration = Duration::from_secs(600);

/// How many bytes of a cgroup path are printed.
const PATH_SHOWN: usize = 200;

/// The condition that the thread waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Alert {
    /// A value of one thread, checked by the recorder.
    Trigger(Trigger),
    /// A statistic of the kernel's counts.
    Figure(Gate),
}

/// Text that is neither a statistic nor a trigger.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoAlert {
    #[error(transparent)]
    Parse(#[from] ParseError),
    #[error(
        "{0} is not counted in the kernel; use wakeup, preempt, runqueue, slice, blocked or blocked_d with a statistic other than min, or the sum or count of steal or throttled"
    )]
    NotCounted(String),
    #[error(
        "the kernel counts only by comm and cgroup: omit other conditions, or use a trigger, such as 'runqueue > 20ms if ...'"
    )]
    Condition,
    #[error("the daemon's recorder records no probes and no applications: use a duration, or lost")]
    NotRecorded,
}

impl FromStr for Alert {
    type Err = NoAlert;

    fn from_str(text: &str) -> Result<Alert, NoAlert> {
        let gate = match (text.parse::<Trigger>(), text.parse::<Gate>()) {
            (Ok(Trigger { what: What::Probe(_) | What::Alert(_), .. }), _) => {
                return Err(NoAlert::NotRecorded);
            }
            (Ok(Trigger { what: What::Lasts { what, .. }, .. }), _) if what != Lasting::Turn => {
                return Err(NoAlert::NotRecorded);
            }
            (Ok(trigger), _) => return Ok(Alert::Trigger(trigger)),
            (_, Ok(gate)) => gate,
            // The error position comes from the grammar that the user probably meant.
            (Err(trigger), Err(gate)) => {
                let measure = text.split([' ', '<', '>', '=', '!']).next().unwrap_or_default();
                return Err(if measure.contains('.') { gate } else { trigger }.into());
            }
        };
        if value(&gate.quantity, &Figures::default()).is_none() {
            return Err(NoAlert::NotCounted(gate.quantity.to_string()));
        }
        let others = gate.condition.as_ref().is_some_and(|condition| {
            condition.names_ids() || condition.names_stack() || !condition.cpus().is_empty()
        });
        if others { Err(NoAlert::Condition) } else { Ok(Alert::Figure(gate)) }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alert::Trigger(trigger) => trigger.fmt(f),
            Alert::Figure(gate) => gate.fmt(f),
        }
    }
}

/// The reason why there are no alerts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlertsError {
    #[error("--alert '{0}' tests a statistic that the kernel counts: add --metrics")]
    NeedsMetrics(String),
    #[error("--alert '{0}' selects by thread name: counts by name need --metrics-comm")]
    NeedsNames(String),
    #[error("cannot use {} for alerts: {source}; use another --alert-dir", .folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("cannot start the history for alerts: {0}")]
    Recorder(#[source] io::Error),
}

/// The value of a quantity and its number of samples; `None` if the kernel does not count it.
fn value(quantity: &Quantity, figures: &Figures) -> Option<(f64, u64)> {
    let Quantity::Statistic(metric, stat) = quantity else { return None };
    let histogram: Histogram = match metric {
        Metric::Wakeup => *figures.of(Measure::Wakeup),
        Metric::Preemption => *figures.of(Measure::Preempted),
        Metric::RunQueue => figures.run_queue(),
        Metric::Slice => *figures.of(Measure::Slice),
        Metric::Blocked => *figures.of(Measure::Blocked),
        Metric::BlockedUninterruptible => *figures.of(Measure::BlockedD),
        Metric::Steal => return of_counter(*stat, figures.steals, figures.steal_ns),
        Metric::Throttled => return of_counter(*stat, figures.throttles, figures.throttled_ns),
        Metric::Irq | Metric::NeedResched => return None,
    };
    let count = histogram.count();
    let at_most = |share| histogram.at_most(share).unwrap_or(0) as f64;
    let value = match stat {
        Stat::Count => count as f64,
        Stat::Sum => histogram.sum as f64,
        Stat::Mean => histogram.sum as f64 / count.max(1) as f64,
        Stat::P50 => at_most(0.5),
        Stat::P90 => at_most(0.9),
        Stat::P99 => at_most(0.99),
        Stat::P999 => at_most(0.999),
        Stat::Max => histogram.max as f64,
        Stat::Min => return None,
    };
    Some((value, count))
}

/// The value and the number of samples of a measure without a histogram.
fn of_counter(stat: Stat, count: u64, sum: u64) -> Option<(f64, u64)> {
    match stat {
        Stat::Count => Some((count as f64, count)),
        Stat::Sum => Some((sum as f64, count)),
        _ => None,
    }
}

/// The alerts on statistics that the kernel counts.
#[derive(Debug)]
pub(super) struct FigureAlerts {
    gates: Vec<Gate>,
    every: Duration,
    looked: Instant,
    /// Counts since the last check.
    since: HashMap<Key, Figures>,
    fired: Sender<String>,
}

impl FigureAlerts {
    /// Time until the next check.
    pub(super) fn until_look(&self) -> Duration {
        self.every.saturating_sub(self.looked.elapsed())
    }

    /// Adds the new counts.
    pub(super) fn add(&mut self, rows: &[Row]) {
        for row in rows {
            self.since.entry(row.key.clone()).or_default().add(&row.figures);
        }
    }

    /// Compares the counts since the last check with the limits.
    pub(super) fn look(&mut self, groups: &Groups) {
        let during = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        let since = std::mem::take(&mut self.since);
        for gate in &self.gates {
            if let Some(found) = judge(gate, &since, groups) {
                let seconds = during.as_secs_f64();
                // The thread that forwards requests has ended with its recorder, and has reported that.
                let _ =
                    self.fired.send(format!("alert {gate}: {found} in the last {seconds:.1} s"));
            }
        }
    }
}

/// The value of the statistic if it violates the limit, and the group with the greatest value.
fn judge(gate: &Gate, since: &HashMap<Key, Figures>, groups: &Groups) -> Option<String> {
    let mut all = Figures::default();
    let mut most: Option<(f64, &str)> = None;
    for (key, figures) in since {
        let (number, name): (_, &[u8]) = match key {
            Key::Cgroup(number) => (Some(*number), b""),
            Key::Named(number, name) => (Some(*number), name),
            Key::Thread(..) | Key::Other => (None, b""),
        };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let comm = String::from_utf8_lossy(name);
        let cgroup = number.and_then(|number| groups.path(number));
        let subject = Subject {
            comm: &comm,
            pid: None,
            tid: None,
            cgroup,
            cpu: None,
            stack: &[],
            in_command: false,
        };
        if gate.condition.as_ref().is_some_and(|condition| !condition.holds(&subject)) {
            continue;
        }
        all.add(figures);
        let (value, _) = value(&gate.quantity, figures)?;
        if most.is_none_or(|(before, _)| value > before) {
            most = Some((value, cgroup.unwrap_or("others")));
        }
    }
    let (value, samples) = value(&gate.quantity, &all)?;
    let enough = samples >= gate.quantity.samples_needed();
    if !enough || !gate.comparison.holds(value, gate.limit.number) {
        return None;
    }
    let amount = Amount { number: value, dimension: gate.quantity.dimension() };
    let most = most
        .map_or(String::new(), |(_, path)| format!(", most in {}", printable(path, PATH_SHOWN)));
    Some(format!("{amount} ({samples} {}{most})", noun(samples, "sample", "samples")))
}

/// How many files were written for each alert since the daemon started, and whether alerts are being recorded.
#[derive(Debug)]
pub(super) struct AlertFiles {
    counts: Vec<(String, AtomicU64)>,
    is_recording: AtomicBool,
}

impl AlertFiles {
    fn of(alerts: &[Alert]) -> AlertFiles {
        let mut texts: Vec<String> = alerts.iter().map(Alert::to_string).collect();
        texts.sort();
        texts.dedup();
        let counts = texts.into_iter().map(|text| (text, AtomicU64::new(0))).collect();
        AlertFiles { counts, is_recording: AtomicBool::new(true) }
    }

    /// The alert that a line of the recorder is about.
    fn about(&self, line: &str) -> Option<usize> {
        let rest = ["trigger ", "alert "].iter().find_map(|kind| line.strip_prefix(kind))?;
        let is_it = |(text, _): &(String, AtomicU64)| {
            rest.strip_prefix(text.as_str()).is_some_and(|rest| rest.starts_with(": "))
        };
        self.counts.iter().position(is_it)
    }

    fn count(&self, alert: usize) {
        self.counts[alert].1.fetch_add(1, Ordering::Relaxed);
    }

    /// Each alert with its number of files.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(text, count)| (text.as_str(), count.load(Ordering::Relaxed)))
    }

    /// Whether the recorder runs.
    pub(super) fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }
}

/// The check of statistics, if any, and the count of files; the metrics use both.
pub(super) type ForMetrics = (Option<FigureAlerts>, Arc<AlertFiles>);

/// The recorder and the thread that waits for it. Dropping this ends both.
#[derive(Debug)]
pub(super) struct AlertRecorder {
    stop: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for AlertRecorder {
    fn drop(&mut self) {
        self.stop.stop();
        // The thread has already reported its panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Starts the recorder.
pub(super) fn start(
    args: &DaemonArgs,
    folder: &Path,
) -> Result<(AlertRecorder, ForMetrics), AlertsError> {
    let (triggers, gates) = divide(args)?;
    let interval = args.alert_interval.duration();
    let of_folder = |source| AlertsError::Folder { folder: folder.to_owned(), source };
    let (files, newest) = earlier(folder, args.alert_budget.bytes()).map_err(of_folder)?;
    if let Some((count, newest)) = newest {
        let found = counted(count, "file", "files");
        say(&format!(
            "found {found} from earlier runs in {}; the newest is {}",
            folder.display(),
            newest.display()
        ));
    }
    let options = options(&triggers, args, interval);
    let history = begin(folder, &options).map_err(AlertsError::Recorder)?;
    let (fired, asked) = channel();
    let stop = StopToken::new().map_err(AlertsError::Recorder)?;
    let (folder, last) = (folder.to_owned(), None);
    let written = Arc::new(AlertFiles::of(&args.alerts));
    let (counts, figure) = (written.clone(), None);
    let stop_keeper = stop.clone();
    let keeper = Keeper {
        history,
        begun: Instant::now(),
        pause: FIRST_PAUSE,
        options,
        folder,
        files,
        asked,
        interval,
        last,
        counts,
        figure,
        stop: stop_keeper,
    };
    let thread = std::thread::Builder::new()
        .name("fxtrec-alerts".to_owned())
        .spawn(move || keeper.run())
        .map_err(AlertsError::Recorder)?;
    let every = args.alert_every.duration();
    let figures = (!gates.is_empty()).then(|| FigureAlerts {
        gates,
        every,
        looked: Instant::now(),
        since: HashMap::new(),
        fired,
    });
    Ok((AlertRecorder { stop, thread: Some(thread) }, (figures, written)))
}

/// Starts the recorder, with a file name that no earlier one had.
fn begin(folder: &Path, options: &[String]) -> io::Result<History> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    History::start(&folder.join(format!("{PREFIX}{now}.fxt.zst")), options)
}

/// The alerts that the recorder checks, and the alerts on counts of the kernel.
fn divide(args: &DaemonArgs) -> Result<(Vec<Trigger>, Vec<Gate>), AlertsError> {
    let (mut triggers, mut gates) = (Vec::new(), Vec::new());
    for alert in &args.alerts {
        let gate = match alert {
            Alert::Trigger(trigger) => {
                triggers.push(trigger.clone());
                continue;
            }
            Alert::Figure(gate) => gate,
        };
        if args.metrics.is_none() {
            return Err(AlertsError::NeedsMetrics(gate.to_string()));
        }
        if !args.metrics_comm && gate.condition.as_ref().is_some_and(|it| it.names_comm()) {
            return Err(AlertsError::NeedsNames(gate.to_string()));
        }
        gates.push(gate.clone());
    }
    Ok((triggers, gates))
}

/// Further options of the recorder.
fn options(triggers: &[Trigger], args: &DaemonArgs, interval: Duration) -> Vec<String> {
    let mut options = vec!["--no-summary".to_owned()];
    options.extend(["--buffer-size".to_owned(), args.alert_buffer.bytes().to_string()]);
    for trigger in triggers {
        options.extend(["--trigger".to_owned(), trigger.to_string()]);
    }
    if !triggers.is_empty() {
        let interval = format!("{}ms", interval.as_millis().max(1));
        options.extend(["--trigger-interval".to_owned(), interval]);
    }
    options
}

/// Whether a file name has the form that the recorder uses.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(".fxt.zst"))
}

/// The file that a line of the recorder names. These lines also contain thread names, which other users choose: so the file must be one of
/// the daemon's own files in this directory, because it will be removed later.
fn told_of(line: &str, folder: &Path) -> Option<PathBuf> {
    written(line).filter(|path| path.parent() == Some(folder) && is_ours(path))
}

/// Removes files of earlier runs beyond the budget; returns how many remain, and the newest.
fn earlier(folder: &Path, budget: u64) -> io::Result<(Files, Option<(u64, PathBuf)>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_file() && is_ours(&entry.path()) {
            found.push((meta.modified()?, entry.path(), meta.len()));
        }
    }
    // The oldest first.
    found.sort();
    let newest = found.last().map(|(_, path, _)| path.clone());
    let mut files = Files::new(Bounds { files: None, bytes: Some(budget) });
    for (_, path, bytes) in found {
        let id = files::file_at(&path)?;
        files.add(&path, id, bytes, 0).map_err(io::Error::other)?;
    }
    let left = files.written() - files.removed().ours;
    Ok((files, newest.map(|newest| (left, newest))))
}

/// The data of the thread.
#[derive(Debug)]
struct Keeper {
    history: History,
    /// When it was started.
    begun: Instant,
    /// How long to wait when it ends before it is started again.
    pause: Duration,
    /// Its options.
    options: Vec<String>,
    folder: PathBuf,
    files: Files,
    asked: Receiver<String>,
    interval: Duration,
    /// When a file was last requested.
    last: Option<Instant>,
    counts: Arc<AlertFiles>,
    /// The statistics alert for which it was requested.
    figure: Option<usize>,
    stop: StopToken,
}

impl Keeper {
    fn run(mut self) {
        let mut suppressed = 0_u64;
        while !self.stop.is_stopped() {
            match self.history.next(TICK) {
                Ok(Some(line)) => self.heard(&line),
                Ok(None) => {}
                Err(error) => {
                    self.begin_again(&error);
                    continue;
                }
            }
            let asked: Vec<String> = self.asked.try_iter().collect();
            let Some(first) = asked.first() else { continue };
            if self.last.is_some_and(|last| last.elapsed() < self.interval) {
                suppressed += asked.len() as u64;
                continue;
            }
            let more = match std::mem::take(&mut suppressed) {
                0 => String::new(),
                more => format!("; {more} more since the last file"),
            };
            say(&format!("{first}{more}"));
            match self.history.ask() {
                Ok(()) => {
                    (self.last, self.figure) = (Some(Instant::now()), self.counts.about(first));
                }
                Err(error) => say(&format!("no file for this alert: {error}")),
            }
        }
    }

    /// Starts the recorder again after it ended for a reason other than the daemon's end, such as a shortage of memory.
    fn begin_again(&mut self, ended: &io::Error) {
        self.counts.is_recording.store(false, Ordering::Relaxed);
        self.keep_last();
        // Ctrl-C reaches the recorder too, perhaps before the daemon.
        self.rest(TICK);
        if self.begun.elapsed() >= LASTING {
            self.pause = FIRST_PAUSE;
        }
        let mut why = format!("the recorder has ended ({ended})");
        while !self.stop.is_stopped() {
            let pause = self.pause;
            self.pause = LONGEST_PAUSE.min(pause * 2);
            say(&format!("no alerts: {why}; it starts again in {} s", pause.as_secs()));
            self.rest(pause);
            if self.stop.is_stopped() {
                return;
            }
            match begin(&self.folder, &self.options) {
                Ok(history) => {
                    (self.history, self.begun, self.figure) = (history, Instant::now(), None);
                    // The new recorder does not have the events of statistics until now.
                    self.asked.try_iter().for_each(drop);
                    self.counts.is_recording.store(true, Ordering::Relaxed);
                    return say("alerts again: the recorder was started");
                }
                Err(error) => why = format!("the recorder does not start ({error})"),
            }
        }
    }

    /// Waits, unless the daemon ends.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.stop.is_stopped() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            if self.stop.wait(std::iter::empty(), left).is_err() {
                std::thread::sleep(TICK);
            }
        }
    }

    /// Counts the file that the recorder has written at its end; if it was killed, the file is empty.
    fn keep_last(&mut self) {
        let path = self.history.output().to_owned();
        let Ok(meta) = path.symlink_metadata() else { return };
        let kept = match (meta.is_file(), meta.len()) {
            (false, _) => return,
            (true, 0) => std::fs::remove_file(&path)
                .map_err(|source| NotRemoved { path: path.clone(), source }),
            (true, bytes) => files::file_at(&path)
                .map_err(|source| NotRemoved { path: path.clone(), source })
                .and_then(|id| self.files.add(&path, id, bytes, 0)),
        };
        if let Err(error) = kept {
            say(&error.to_string());
        }
    }

    /// Handles a message of the recorder, about files or about errors.
    fn heard(&mut self, line: &str) {
        let added = told_of(line, &self.folder).map(|path| {
            let bytes = path.symlink_metadata().map_or(0, |meta| meta.len());
            let id = files::file_at(&path)
                .map_err(|source| NotRemoved { path: path.clone(), source })?;
            self.files.add(&path, id, bytes, 0)
        });
        let line = line.strip_prefix("fxtrec: ").unwrap_or(line);
        if added.is_some()
            && let Some(alert) = self.counts.about(line).or_else(|| self.figure.take())
        {
            self.counts.count(alert);
        }
        say(line);
        if let Some(Err(error)) = added {
            say(&error.to_string());
        }
    }
}

/// If standard error is closed, the message is lost. Other users choose thread names.
fn say(text: &str) {
    let mut err = Escaping::new(io::stderr());
    let _ = writeln!(err, "fxtrec: {text}").and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn parse(text: &str) -> Result<Alert, NoAlert> {
        text.parse()
    }

    #[test]
    fn a_value_is_for_the_recorder_and_a_statistic_for_the_counts() {
        assert!(matches!(parse("wakeup > 20ms if cgroup ~ '/a*'"), Ok(Alert::Trigger(_))));
        for text in ["lost > 0", "turn > 5ms"] {
            assert!(matches!(parse(text), Ok(Alert::Trigger(_))), "{text}");
        }
        for text in ["wakeup.p99 > 5ms", "steal.sum > 1s if cgroup = '/a'", "slice.max > 1s"] {
            assert!(matches!(parse(text), Ok(Alert::Figure(_))), "{text}");
            assert_eq!(parse(text).expect("an alert").to_string(), text);
        }
    }

    #[test]
    fn files_are_counted_for_the_alert_that_a_line_is_about() {
        let alerts = ["wakeup > 20ms", "wakeup > 20ms if comm = 'a'", "slice.max > 1s"];
        let files = AlertFiles::of(&alerts.map(|text| parse(text).expect("an alert")));
        let names: Vec<&str> = files.counts().map(|(name, _)| name).collect();
        let about = |line: &str| files.about(line).map(|alert| names[alert]);
        assert_eq!(
            about("trigger wakeup > 20ms: a (7) on CPU 1, 25 ms: snapshot"),
            Some(alerts[0])
        );
        let text = parse(alerts[1]).expect("an alert").to_string();
        assert_eq!(about(&format!("trigger {text}: a (7)")), Some(text.as_str()));
        assert_eq!(about("alert slice.max > 1s: 2 s (5 samples)"), Some(alerts[2]));
        assert_eq!(about("snapshot of 3 MiB written to /a"), None);
        files.count(2);
        assert_eq!(files.counts().map(|(_, count)| count).sum::<u64>(), 1);
    }

    #[test]
    fn what_nobody_counts_is_refused() {
        for text in ["wakeup.min > 1ms", "irq.sum > 1ms", "switches > 5", "steal.p99 > 1ms"] {
            assert!(matches!(parse(text), Err(NoAlert::NotCounted(_))), "{text}");
        }
        for text in ["wakeup.p99 > 1ms if pid = 3", "slice.max > 1s if not cpu = 1"] {
            assert_eq!(parse(text), Err(NoAlert::Condition), "{text}");
        }
        for text in ["probe x", "alert x", "span('x') > 1ms", "probe('x') > 1ms"] {
            assert_eq!(parse(text), Err(NoAlert::NotRecorded), "{text}");
        }
        let misspelt = parse("wakeup.p98 > 1ms").expect_err("no statistic").to_string();
        assert!(misspelt.contains("did you mean p90"), "{misspelt}");
        let misspelt = parse("wakup > 1ms").expect_err("no metric").to_string();
        assert!(misspelt.contains("did you mean wakeup"), "{misspelt}");
    }

    /// This many waits of this many nanoseconds.
    fn waits(count: u64, nanos: u64) -> Figures {
        let mut figures = Figures::default();
        let histogram = &mut figures.histograms[Measure::Wakeup as usize];
        (histogram.sum, histogram.max) = (count * nanos, nanos);
        let bounds = (0..histogram.buckets.len()).map(crate::kernel::bpf::counts::bound);
        let bucket = bounds.take_while(|bound| bound.is_some_and(|bound| bound < nanos)).count();
        histogram.buckets[bucket] = count;
        figures
    }

    #[test]
    fn those_that_the_condition_chooses_are_judged_together_and_the_worst_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        let number = |name: &str| {
            std::fs::create_dir(root.path().join(name)).expect("a folder");
            root.path().join(name).metadata().expect("it is there").ino()
        };
        let (slow, fast, other) = (number("job-slow"), number("job-fast"), number("x"));
        let (_, mut groups) = Groups::new(Some(root.path().to_owned()));
        groups.look();
        let since: HashMap<Key, Figures> = [
            (Key::Cgroup(slow), waits(2, 40_000_000)),
            (Key::Cgroup(fast), waits(98, 1_000)),
            (Key::Cgroup(other), waits(1000, 1_000)),
            (Key::Other, waits(1, 90_000_000)),
        ]
        .into();
        let judge = |text: &str| match parse(text) {
            Ok(Alert::Figure(gate)) => judge(&gate, &since, &groups),
            other => panic!("{other:?}"),
        };
        let found = judge("wakeup.p99 > 5ms if cgroup ~ '/job-*'").expect("2 of 100");
        assert_eq!(found, "40.0 ms (100 samples, most in /job-slow)");
        assert_eq!(judge("wakeup.p99 > 41ms if cgroup ~ '/job-*'"), None);
        assert_eq!(judge("wakeup.p99 > 5ms"), None, "3 of 1101");
        assert_eq!(judge("wakeup.p99 > 1us if cgroup = '/job-slow'"), None, "too few");
        assert!(judge("wakeup.max > 80ms").is_some());
        assert!(judge("wakeup.count < 1 if cgroup = '/nobody'").is_some());
    }

    #[test]
    fn a_name_of_a_thread_makes_no_file_ours() {
        let reported = |line: &str| told_of(line, Path::new("/var/alerts"));
        let ours = "fxtrec: 12 events written to /var/alerts/alert-7.1.fxt.zst";
        assert_eq!(reported(ours), Some("/var/alerts/alert-7.1.fxt.zst".into()));
        for line in [
            "fxtrec: wakeup > 20ms:  written to /etc/passwd",
            "fxtrec:  written to /var/alerts/../alert-7.1.fxt.zst",
            "fxtrec:  written to /var/alerts/mine.fxt.zst",
            "fxtrec:  written to alert-7.1.fxt.zst",
        ] {
            assert_eq!(reported(line), None, "{line}");
        }
    }

    #[test]
    fn files_of_earlier_runs_count_and_those_of_others_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let write = |name: &str, bytes: usize, age: u64| {
            let path = folder.path().join(name);
            std::fs::write(&path, vec![0; bytes]).expect("room");
            let file = std::fs::File::options().append(true).open(&path).expect("it is there");
            file.set_modified(now - Duration::from_secs(age)).expect("a time");
        };
        write("alert-1.1.fxt.zst", 100, 30);
        write("alert-1.2.fxt.zst", 100, 20);
        write("alert-2.1.fxt.zst", 100, 10);
        write("mine.fxt.zst", 1000, 40);
        let (mut files, newest) = earlier(folder.path(), 250).expect("a folder");
        assert_eq!(newest, Some((2, folder.path().join("alert-2.1.fxt.zst"))));
        let there = || {
            let names = std::fs::read_dir(folder.path()).expect("a folder");
            let name = |it: io::Result<std::fs::DirEntry>| it.expect("an entry").file_name();
            let mut names: Vec<_> = names.map(name).collect();
            names.sort();
            names
        };
        assert_eq!(there(), ["alert-1.2.fxt.zst", "alert-2.1.fxt.zst", "mine.fxt.zst"]);
        write("alert-3.1.fxt.zst", 200, 0);
        let third = folder.path().join("alert-3.1.fxt.zst");
        let id = files::file_at(&third).expect("it is there");
        files.add(&third, id, 200, 0).expect("removable");
        assert_eq!(there(), ["alert-3.1.fxt.zst", "mine.fxt.zst"]);
    }
}
