//! Compares tables with the report of the same trace. They are read as Parquet, and CSV tables are compared with these.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fxt_reader::{Nanos, Reader};
use fxt_writer::{Koid, Value};
use fxtrec_gates::SpanPart;
use fxtrec_report::scene::{Leaves, Scene};
use fxtrec_report::{Metric, Report, Selection, spans};
use parquet::basic::{Compression, Encoding};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use super::*;
use crate::sheet::ROWS;

/// A directory with a trace in it, and its tables.
struct ExportRun {
    folder: tempfile::TempDir,
    exported: Exported,
    report: Report,
}

fn export() -> Export {
    let labels = vec![("commit".to_owned(), "8f3a".to_owned())];
    Export { format: Format::Parquet, tables: Table::ALL.to_vec(), labels }
}

fn tell(bytes: &[u8]) -> ExportRun {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.fxt");
    fs::write(&trace, bytes).expect("room");
    let out = folder.path().join("out");
    let exported = export().to_folder(&[&trace], &out).expect("exported");
    let options = Options::default();
    let mut report = analysis::analyse(Reader::from_slice(bytes), options).expect("a trace");
    let open = || Ok(Reader::from_slice(bytes));
    let spans = spans::measure(open, &Selection::default(), &report, spans::Room::OF_COMMANDS);
    report.spans = Some(spans.expect("a trace"));
    ExportRun { folder, exported, report }
}

fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).expect("a file")).expect("it is Parquet")
}

impl ExportRun {
    fn path(&self, table: Table) -> PathBuf {
        let mut path = self.folder.path().join("out").join(table.name());
        for _ in 0..2 {
            let mut inside = fs::read_dir(&path).expect("a folder");
            path = inside.next().expect("one partition").expect("readable").path();
            assert!(inside.next().is_none());
        }
        path.join(format!("{table}.parquet"))
    }

    fn rows(&self, table: Table) -> Vec<Row> {
        let rows: Vec<Row> =
            open(&self.path(table)).into_iter().map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len() as u64, self.exported.rows_of(table), "{table}");
        rows
    }

    /// The thread ids by utid.
    fn tids(&self) -> BTreeMap<i64, u64> {
        let rows = self.rows(Table::Thread);
        let tids: BTreeMap<i64, u64> =
            rows.iter().map(|row| (int(row, "utid"), int(row, "tid") as u64)).collect();
        assert_eq!(tids.len(), rows.len(), "each has one row");
        tids
    }

    /// For each thread, the number of rows for which `chosen` holds, and the sum of their lengths.
    fn sums(&self, table: Table, chosen: impl Fn(&Row) -> bool) -> BTreeMap<u64, (u64, u64)> {
        let tids = self.tids();
        let mut sums = BTreeMap::<u64, (u64, u64)>::new();
        for row in self.rows(table).iter().filter(|row| chosen(row)) {
            let sum = sums.entry(tids[&int(row, "utid")]).or_default();
            *sum = (sum.0 + 1, sum.1 + int(row, "dur") as u64);
        }
        sums
    }

    /// The same for a metric of the report.
    fn metric(&self, metric: Metric) -> BTreeMap<u64, (u64, u64)> {
        let nanos = |length: std::time::Duration| length.as_nanos() as u64;
        let threads = self.report.threads().iter();
        let sums = threads.map(|thread| {
            let values = thread.metric(metric);
            (thread.tid.expect("one by one"), (values.count(), nanos(values.sum())))
        });
        sums.filter(|(_, sum)| sum.0 > 0).collect()
    }

    /// Compares everything that the report has, too.
    fn must_agree(&self) {
        let slices = |whole: bool| {
            self.sums(Table::SchedSlice, |row| {
                int(row, "utid") != 0 && (!whole || bool(row, "complete"))
            })
        };
        assert_eq!(slices(true), self.metric(Metric::Slice), "slices");
        let cpu_time: BTreeMap<u64, u64> = self
            .report
            .threads()
            .iter()
            .map(|thread| {
                (thread.tid.expect("one by one"), thread.stats.cpu_time.as_nanos() as u64)
            })
            .filter(|thread| thread.1 > 0)
            .collect();
        let slices = slices(false).into_iter().map(|(tid, sum)| (tid, sum.1));
        assert_eq!(slices.filter(|sum| sum.1 > 0).collect::<BTreeMap<_, _>>(), cpu_time);
        for cpu in &self.report.cpus {
            let idle =
                |row: &&Row| int(row, "utid") == 0 && int(row, "cpu") == i64::from(cpu.cpu.0);
            let rows = self.rows(Table::SchedSlice);
            let idle: i64 = rows.iter().filter(idle).map(|row| int(row, "dur")).sum();
            assert_eq!(idle as u128, cpu.idle.as_nanos(), "idle time of {:?}", cpu.cpu);
        }
        for (kind, metric) in [("wakeup", Metric::Wakeup), ("preempted", Metric::Preemption)] {
            let waits = self.sums(Table::Wait, |row| text(row, "kind") == Some(kind));
            assert_eq!(waits, self.metric(metric), "{kind}");
        }
        let blocked = |states: &[&str]| {
            self.sums(Table::ThreadState, |row| {
                bool(row, "complete") && text(row, "state").is_some_and(|it| states.contains(&it))
            })
        };
        assert_eq!(blocked(&["D"]), self.metric(Metric::BlockedUninterruptible));
        assert_eq!(blocked(&["S", "I", "P"]), self.metric(Metric::Blocked));
        let losses = self.rows(Table::Loss);
        assert_eq!(losses.len() as u64, self.report.losses.gaps);
        let events: i64 = losses.iter().filter_map(|row| maybe(row, "events")).sum();
        assert_eq!(events as u64, self.report.losses.events);
        let trace = &self.rows(Table::Trace)[0];
        assert_eq!(int(trace, "gaps") as u64, self.report.losses.gaps);
        assert_eq!(int(trace, "lost_events") as u64, self.report.losses.events);
        let switches: u64 = self.report.cpus.iter().map(|cpu| cpu.switches).sum();
        assert_eq!(int(trace, "switches") as u64, switches);
        assert_eq!(Nanos(int(trace, "start_ts") as u64), self.report.span.begin);
        let spans: u64 = self
            .report
            .spans
            .iter()
            .flat_map(|spans| &spans.rows)
            .map(|row| row.figures.part(SpanPart::Wall).count())
            .sum();
        let own = self.rows(Table::Span);
        let own = own.iter().filter(|row| maybe(row, "begin_utid").is_none()).count();
        assert_eq!(own as u64, spans);
        self.waits_must_add_up();
    }

    /// The known occupants of the CPU during a wait do not add up to more than the wait.
    fn waits_must_add_up(&self) {
        let mut by_wait = BTreeMap::<i64, Vec<(i64, i64)>>::new();
        for row in self.rows(Table::Antagonist) {
            let reported = (int(&row, "utid"), int(&row, "dur"));
            by_wait.entry(int(&row, "wait_id")).or_default().push(reported);
        }
        for wait in self.rows(Table::Wait) {
            let had = by_wait.remove(&int(&wait, "id")).unwrap_or_default();
            let first = had.iter().max_by_key(|it| it.1).map(|it| it.1);
            assert_eq!(maybe(&wait, "antagonist_ns"), first);
            let threads: i64 = had.iter().map(|it| it.1).sum();
            let rest = ["idle_ns", "unknown_ns"].map(|name| maybe(&wait, name).unwrap_or(0));
            let reported = threads + rest.iter().sum::<i64>();
            match maybe(&wait, "antagonists") {
                Some(all) if all > had.len() as i64 => assert!(reported <= int(&wait, "dur")),
                _ => assert_eq!(reported, int(&wait, "dur")),
            }
        }
        assert!(by_wait.is_empty(), "each antagonist is of a wait");
    }
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    let found = row.get_column_iter().find(|column| column.0 == name);
    found.unwrap_or_else(|| panic!("no column {name}")).1
}

fn maybe(row: &Row, name: &str) -> Option<i64> {
    match field(row, name) {
        Field::Long(value) => Some(*value),
        Field::Int(value) => Some((*value).into()),
        Field::Null => None,
        other => panic!("{name} is {other:?}"),
    }
}

fn int(row: &Row, name: &str) -> i64 {
    maybe(row, name).unwrap_or_else(|| panic!("{name} is null"))
}

fn bool(row: &Row, name: &str) -> bool {
    matches!(field(row, name), Field::Bool(true))
}

fn text<'a>(row: &'a Row, name: &str) -> Option<&'a str> {
    match field(row, name) {
        Field::Str(text) => Some(text),
        _ => None,
    }
}

/// Every kind of event, in a few microseconds.
fn eventful() -> Scene {
    let mut scene = Scene::with_causes("steal,irq,throttled,migrate,waker,syscall");
    let interrupt = [("interrupt", Value::Bool(true))];
    let held = [
        ("throttled_ns", Value::Uint64(3_000)),
        ("throttled_by", Value::Str(fxt_writer::Text::Inline("/q"))),
    ];
    let taken = [
        ("steal_ns", Value::Uint64(700)),
        ("irq_ns", Value::Uint64(90)),
        ("irqs", Value::Uint64(2)),
    ];
    let call = [("syscall", Value::Uint32(202))];
    scene
        .switch(10, 0, 0, Leaves::R, 101)
        .switch(11, 1, 0, Leaves::R, 201)
        .wake_by(20, 0, 102, 201)
        .wake_with(22, 0, 103, &interrupt)
        .switch_with((30, 0), 101, Leaves::S, 102, &call)
        .switch_with((35, 0), 102, Leaves::R, 103, &taken)
        .wake_by(36, 0, 103, 201)
        .wake_by(37, 1, 101, 103)
        .migrate(38, 101, 1, 0)
        .switch(40, 0, 103, Leaves::D, 101)
        .span((41, 49), 101, "frame")
        .async_span(5, (42, 101), (55, 201), "request")
        .switch(50, 0, 101, Leaves::X, 102)
        .throttle(52, "/q", 1)
        .switch(54, 1, 201, Leaves::R, 0)
        .release(57, "/q", 1)
        .switch_with((60, 1), 0, Leaves::R, 201, &held)
        .wake_by(61, 0, 103, 201)
        .lose(70, 0, 12)
        .switch(75, 0, 104, Leaves::S, 103)
        .inferred(80, 1, 201, 105)
        .switch(90, 1, 105, Leaves::I, 0)
        .offline(95, 1)
        .online(97, 1)
        .switch(98, 1, 0, Leaves::R, 105)
        .damage()
        .switch(99, 0, 103, Leaves::R, 102)
        .end(120);
    scene
}

#[test]
fn tables_have_the_figures_of_the_report() {
    let reported = tell(eventful().bytes());
    reported.must_agree();
    for table in
        [Table::SchedSlice, Table::ThreadState, Table::Wait, Table::Antagonist, Table::Loss]
    {
        assert!(reported.exported.rows_of(table) >= 2, "{table} has something to compare");
    }
    let idle: Vec<bool> =
        reported.rows(Table::Wakeup).iter().map(|row| bool(row, "effective")).collect();
    assert_eq!(idle, [true, true, false, true, true]);
}

/// A row as a line of CSV.
fn as_csv(row: &Row) -> String {
    let fields = row.get_column_iter().map(|(_, field)| match field {
        Field::Null => String::new(),
        Field::Str(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        Field::Bool(is) => is.to_string(),
        Field::Int(number) => number.to_string(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => format!("{number:?}"),
        other => panic!("{other:?}"),
    });
    fields.collect::<Vec<_>>().join(",") + "\n"
}

#[test]
fn csv_has_the_same_files_columns_and_rows_as_parquet() {
    let mut scene = eventful();
    // Unsorted by time, and more than a row group.
    for turn in 0..ROWS as u64 {
        let (out, inn) = if turn % 2 == 0 { (101, 102) } else { (102, 101) };
        scene.switch(200 + turn * 3, 0, out, Leaves::R, inn);
    }
    let reported = tell(scene.span((150, 160), 101, "a \"b\",\n").end(900_000).bytes());
    let trace = reported.folder.path().join("a.fxt");
    let out = reported.folder.path().join("csv");
    let csv = Export { format: Format::Csv, ..export() };
    let exported = csv.to_folder(&[&trace], &out).expect("exported");
    assert_eq!(exported.rows, reported.exported.rows);
    let mut bytes = 0;
    for table in Table::ALL {
        let parquet = reported.path(table);
        let below = parquet.strip_prefix(reported.folder.path().join("out")).expect("it is there");
        let path = out.join(below).with_extension("csv");
        let text = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", path.display()));
        bytes += text.len() as u64;
        let (header, rows) = text.split_once('\n').expect("a header");
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        assert_eq!(header, names.join(","), "{table}");
        let expected: String = reported.rows(table).iter().map(as_csv).collect();
        assert!(rows == expected, "{table}: {} bytes and {}", rows.len(), expected.len());
    }
    assert_eq!(bytes, exported.bytes);
    // One table of several traces.
    let [parquet, csv_file] = ["w.parquet", "w.csv"].map(|name| reported.folder.path().join(name));
    export().to_file(&[&trace, &trace], Table::Wait, &parquet).expect("exported");
    csv.to_file(&[&trace, &trace], Table::Wait, &csv_file).expect("exported");
    let text = fs::read_to_string(&csv_file).expect("it is there");
    let (header, rows) = text.split_once('\n').expect("a header");
    assert!(header.starts_with("trace_id,ts,"), "{header}");
    let expected: String =
        open(&parquet).into_iter().map(|row| as_csv(&row.expect("a row"))).collect();
    assert_eq!(rows.lines().count() as u64, 2 * exported.rows_of(Table::Wait));
    assert!(rows == expected);
}

#[test]
fn a_trace_is_in_a_folder_in_one_format_only() {
    let reported = tell(eventful().bytes());
    let trace = reported.folder.path().join("a.fxt");
    let out = reported.folder.path().join("out");
    let csv = Export { format: Format::Csv, ..export() };
    let error = csv.to_folder(&[&trace], &out).expect_err("it is there as Parquet");
    assert!(
        matches!(&error, ExportError::OtherFormat(path) if path.ends_with("sched_slice.parquet"))
    );
    assert!(reported.path(Table::Trace).with_extension("csv").metadata().is_err());
}

#[test]
fn a_wait_shows_who_woke_whom_and_who_had_the_cpu() {
    let reported = tell(eventful().bytes());
    let tids = reported.tids();
    let waits = reported.rows(Table::Wait);
    let tid = |row: &Row, name: &str| maybe(row, name).map(|utid| tids[&utid]);
    let of = |thread: u64, ts: i64| {
        let found =
            waits.iter().find(|row| tid(row, "utid") == Some(thread) && int(row, "ts") == ts);
        found.unwrap_or_else(|| panic!("no wait of {thread} at {ts}"))
    };
    let first = of(102, 20_000);
    assert_eq!((tid(first, "waker_utid"), tid(first, "antagonist_utid")), (Some(201), Some(101)));
    assert_eq!((int(first, "dur"), int(first, "antagonist_ns")), (10_000, 10_000));
    let second = of(103, 22_000);
    assert!(bool(second, "irq_context") && tid(second, "waker_utid").is_none());
    assert_eq!(maybe(second, "antagonists"), Some(2));
    let throttled = of(201, 54_000);
    assert_eq!((int(throttled, "dur"), int(throttled, "throttled_ns")), (3_000, 3_000));
    assert_eq!(
        (text(throttled, "kind"), text(throttled, "throttled_by")),
        (Some("preempted"), Some("/q"))
    );
    let slices = reported.rows(Table::SchedSlice);
    let taken = slices.iter().find(|row| maybe(row, "steal_ns").is_some()).expect("one was taken");
    assert_eq!((tid(taken, "utid"), int(taken, "ts")), (Some(102), 30_000));
    assert_eq!((int(taken, "irq_ns"), int(taken, "irqs")), (90, 2));
    let states = reported.rows(Table::ThreadState);
    let call =
        states.iter().find(|row| maybe(row, "syscall").is_some()).expect("one was in a call");
    assert_eq!(
        (tid(call, "utid"), text(call, "state"), int(call, "dur")),
        (Some(101), Some("S"), 7_000)
    );
    let ended: Vec<u64> = reported
        .rows(Table::Thread)
        .iter()
        .filter(|row| maybe(row, "end_ts").is_some())
        .map(|row| int(row, "tid") as u64)
        .collect();
    assert_eq!(ended, [101]);
}

#[test]
fn a_process_keeps_its_cgroup_when_an_application_names_it() {
    let mut scene = Scene::new();
    scene.name_in(101, "web", Some("/a")).switch(10, 0, 0, Leaves::R, 101);
    scene.name(101, "web").switch(20, 0, 101, Leaves::S, 0).end(30);
    let rows = tell(scene.bytes()).rows(Table::Process);
    let cgroups: Vec<_> = rows.iter().map(|row| text(row, "cgroup")).collect();
    assert_eq!(cgroups, [Some("/a")]);
}

#[test]
fn threads_of_the_recorder_are_marked() {
    let mut scene = Scene::recorded_by(900, "waker", None);
    scene.name(101, "app").name(901, "fxtrec-capture").name(1001, "fxtrec-files");
    scene.switch(10, 0, 0, Leaves::R, 101).switch(20, 0, 101, Leaves::R, 901);
    scene.switch(30, 0, 901, Leaves::R, 1001).switch(40, 0, 1001, Leaves::X, 0).end(50);
    let reported = tell(scene.bytes());
    let rows = reported.rows(Table::Thread);
    let own = rows.iter().filter(|row| bool(row, "is_recorder"));
    let mut own: Vec<i64> = own.map(|row| int(row, "tid")).collect();
    own.sort_unstable();
    assert_eq!((rows.len(), own), (4, vec![901, 1001]));
}

#[test]
fn a_file_says_its_version_and_is_sorted_and_packed_to_be_pruned_by_time() {
    // More slices than a row group has; the order of their ends differs from that of their beginnings.
    let mut scene = Scene::new();
    let turns = ROWS as u64;
    scene.switch(1, 1, 0, Leaves::R, 201);
    for turn in 0..turns {
        let (out, inn) = if turn % 2 == 0 { (101, 102) } else { (102, 101) };
        scene.switch(10 + turn * 3, 0, out, Leaves::R, inn);
        if turn % 1000 == 999 {
            scene.switch(11 + turn * 3, 1, 201, Leaves::R, 201);
        }
    }
    let reported = tell(scene.end(turns * 4).bytes());
    reported.must_agree();
    let file = open(&reported.path(Table::SchedSlice));
    let about = file.metadata().file_metadata();
    let pairs = about.key_value_metadata().expect("there is some");
    let value =
        |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    assert_eq!(value("fxtrec.schema_version").as_deref(), Some("1"));
    assert_eq!(value("fxtrec.table").as_deref(), Some("sched_slice"));
    let path = reported.path(Table::SchedSlice);
    assert!(
        path.to_string_lossy()
            .contains(&format!("trace_id={}", value("fxtrec.trace_id").expect("it is there")))
    );
    assert_eq!(file.num_row_groups(), 2);
    for group in file.metadata().row_groups() {
        assert_eq!(group.sorting_columns().expect("sorted")[0].column_idx, 0);
        let ts = group.column(0);
        assert_eq!(ts.column_path().string(), "ts");
        assert!(ts.statistics().is_some_and(|known| known.min_bytes_opt().is_some()));
        assert!(ts.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED));
        assert!(matches!(ts.compression(), Compression::ZSTD(_)));
        assert!(ts.offset_index_offset().is_some(), "pages can be skipped");
    }
    for group in 0..2 {
        let rows = file.get_row_group(group).expect("there");
        let times = rows.get_row_iter(None).expect("rows").map(|row| int(&row.expect("one"), "ts"));
        assert!(times.is_sorted());
    }
}

#[test]
fn several_traces_lie_next_to_each_other_and_one_that_comes_again_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two] = ["one.fxt", "two.fxt"].map(|name| folder.path().join(name));
    fs::write(&one, eventful().bytes()).expect("room");
    fs::write(&two, Scene::new().switch(5, 0, 0, Leaves::R, 11).end(9).bytes()).expect("room");
    let out = folder.path().join("out");
    let exported = export().to_folder(&[&one, &two], &out).expect("exported");
    assert_eq!((exported.traces, exported.rows_of(Table::Label)), (2, 2));
    export().to_folder(&[&two], &out).expect("again");
    let days: Vec<PathBuf> = fs::read_dir(out.join("trace"))
        .expect("there")
        .map(|it| it.expect("readable").path())
        .collect();
    assert_eq!(days, [out.join("trace/day=__HIVE_DEFAULT_PARTITION__")], "no clock is told");
    assert_eq!(fs::read_dir(&days[0]).expect("there").count(), 2);
}

#[test]
fn a_file_of_one_table_has_the_id_of_the_trace_in_each_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two, out] = ["one.fxt", "two.fxt", "x.parquet"].map(|name| folder.path().join(name));
    fs::write(&one, eventful().bytes()).expect("room");
    fs::write(&two, Scene::new().switch(5, 0, 0, Leaves::R, 11).end(9).bytes()).expect("room");
    fs::write(&out, "precious").expect("room");
    let bad = folder.path().join("bad.fxt");
    fs::write(&bad, "no trace").expect("room");
    export().to_file(&[&one, &bad], Table::Thread, &out).expect_err("one is no trace");
    assert_eq!(fs::read_to_string(&out).expect("there"), "precious");
    export().to_file(&[&one, &two], Table::Thread, &out).expect("exported");
    let ids: std::collections::BTreeSet<String> = open(&out)
        .into_iter()
        .map(|row| text(&row.expect("a row"), "trace_id").expect("an id").to_owned())
        .collect();
    let expected = [&one, &two].map(|path| Identity::of(path).expect("a trace").id);
    assert_eq!(ids, expected.into());
}

#[test]
fn planted_links_are_not_followed_and_inputs_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.fxt");
    fs::write(&trace, eventful().bytes()).expect("room");
    // A symbolic link in place of the table's file is replaced.
    let Identity { id, day } = Identity::of(&trace).expect("a trace");
    let inner = folder.path().join(format!("out/wait/day={day}/trace_id={id}"));
    fs::create_dir_all(&inner).expect("made");
    let target = folder.path().join("target");
    fs::write(&target, "precious").expect("room");
    std::os::unix::fs::symlink(&target, inner.join("wait.parquet")).expect("linked");
    export().to_folder(&[&trace], &folder.path().join("out")).expect("exported");
    assert_eq!(fs::read_to_string(&target).expect("there"), "precious");
    assert!(!fs::symlink_metadata(inner.join("wait.parquet")).expect("there").is_symlink());
    // A file in place of the directory is kept.
    let error = export().to_folder(&[&trace], &target).expect_err("it is a file");
    assert!(error.to_string().contains("target"), "{error}");
    assert_eq!(fs::read_to_string(&target).expect("there"), "precious");
    let error = export().to_file(&[&trace], Table::Wait, &trace).expect_err("the same");
    assert!(error.to_string().contains("same file as the input"), "{error}");
}

#[test]
fn a_counter_is_a_row_for_each_of_its_values() {
    let mut bytes = Scene::new().switch(5, 0, 0, Leaves::R, 11).bytes().to_vec();
    let mut words: Vec<u8> = Vec::new();
    let thread = fxt_writer::ThreadName::Inline { process: Koid(1), thread: Koid(11) };
    let text = fxt_writer::Text::Inline;
    let args = [
        fxt_writer::Arg::new(text("used"), Value::Uint64(7)),
        fxt_writer::Arg::new(text("share"), Value::Double(-0.0)),
        fxt_writer::Arg::new(text("why"), Value::Bool(true)),
    ];
    let event = fxt_writer::record::Event {
        time: fxt_writer::Ticks(6_000),
        thread,
        category: text("app"),
        name: text("memory"),
        kind: fxt_writer::record::EventKind::Counter { id: 3 },
        args: &args,
    };
    fxt_writer::record::Record::write(&event, &mut words).expect("room");
    bytes.extend(words);
    let reported = tell(&bytes);
    let rows = reported.rows(Table::Counter);
    let values: Vec<(Option<&str>, &Field)> =
        rows.iter().map(|row| (text_of(row), field(row, "value"))).collect();
    assert_eq!(
        values,
        [(Some("used"), &Field::Double(7.0)), (Some("share"), &Field::Double(-0.0))]
    );
}

fn text_of(row: &Row) -> Option<&str> {
    text(row, "series")
}

#[test]
fn damaged_traces_make_tables_or_an_error() {
    let whole = eventful();
    let mut made = 0;
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.fxt");
    let out = folder.path().join("out.parquet");
    for at in (0..whole.bytes().len()).step_by(29) {
        let mut bytes = whole.bytes().to_vec();
        match at % 2 {
            0 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << (at % 8),
        }
        fs::write(&trace, &bytes).expect("room");
        for table in [Table::SchedSlice, Table::Thread] {
            made += usize::from(export().to_file(&[&trace], table, &out).is_ok());
        }
    }
    assert!(made > 20, "most can be read in part: {made}");
}
