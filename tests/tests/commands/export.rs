//! Tables of a recording, for SQL, compared with the report on the same file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use fxtrec_tests::folder::Folder;
use fxtrec_tests::root::may_record;
use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, Row};
use serde_json::Value;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_workload");

/// The file of a table below the directory of all tables, which has one trace.
fn path(folder: &Path, table: &str) -> PathBuf {
    let mut path = folder.join(table);
    for partition in ["day=", "trace_id="] {
        let inside: Vec<_> = std::fs::read_dir(&path)
            .expect("a folder")
            .map(|entry| entry.expect("readable").path())
            .collect();
        assert_eq!(inside.len(), 1, "{inside:?}");
        path.clone_from(&inside[0]);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(name.starts_with(partition), "{name}");
    }
    path.join(format!("{table}.parquet"))
}

fn rows(folder: &Path, table: &str) -> Vec<Row> {
    let file = File::open(path(folder, table)).expect("the table");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    reader.into_iter().map(|row| row.expect("a row")).collect()
}

/// A number in a column; 0 for null.
fn number(row: &Row, column: &str) -> u64 {
    let found = row.get_column_iter().find(|(name, _)| *name == column);
    match found.unwrap_or_else(|| panic!("no column {column}")).1 {
        Field::Long(number) => u64::try_from(*number).expect("not negative"),
        Field::Int(number) => u64::try_from(*number).expect("not negative"),
        Field::Null => 0,
        other => panic!("{column}: {other:?}"),
    }
}

#[test]
fn tables_of_a_recording_have_the_sums_of_its_report() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let words = ["-q", "-o", "t.fxt", "--", WORKLOAD, "threads", "3", "300"];
    folder.fxtrec(words).expect(0);
    let reported = folder.fxtrec(["export", "t.fxt", "-o", "tables", "--label", "commit=8f3a"]);
    let reported = reported.expect(0).stderr;
    let report =
        folder.fxtrec(["report", "t.fxt", "--json", "--include-recorder"]).expect(0).stdout;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let tables = folder.path("tables");

    let slices = rows(&tables, "sched_slice");
    assert!(reported.contains("rows from 1 trace to tables"), "{reported}");
    assert!(reported.contains(&format!("sched_slice    {}", slices.len())), "{reported}");
    // Threads of the table by their id in the trace.
    let koids: BTreeMap<u64, u64> = rows(&tables, "thread")
        .iter()
        .map(|row| (number(row, "utid"), number(row, "koid")))
        .collect();
    let mut ran = BTreeMap::<u64, u64>::new();
    for slice in slices.iter().filter(|slice| number(slice, "utid") != 0) {
        *ran.entry(koids[&number(slice, "utid")]).or_default() += number(slice, "dur");
    }
    let threads = report["threads"].as_array().expect("threads");
    assert!(threads.len() >= 4, "the workload's and others");
    for thread in threads {
        let koid = thread["koid"].as_u64().expect("a number");
        let expected = thread["cpu_time_ns"].as_u64().expect("a number");
        assert_eq!(ran.get(&koid).copied().unwrap_or(0), expected, "{thread}");
    }
    let waited: u64 = rows(&tables, "wait").iter().map(|row| number(row, "dur")).sum();
    let expected = report["total"]["metrics"]["runqueue"]["sum_ns"].as_u64().expect("a number");
    assert_eq!(waited, expected, "what threads waited for a CPU");
}
