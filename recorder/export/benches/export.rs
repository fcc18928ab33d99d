//! How long the export of two million switches takes, compared with the report of the same trace, in one run.
//!
//! `cargo bench -p fxtrec-export` prints for each the best elapsed time of several passes and its CPU time over all threads, both relative
//! to the report, and the bytes per row.

#[path = "../../benches/lib/busy.rs"]
mod busy;

use std::fs;
use std::path::Path;
use std::time::Instant;

use busy::{SWITCHES, trace};
use fxt_reader::Reader;
use fxtrec_export::{Export, Exported, Format, Table};
use fxtrec_report::{Options, analyse};

const PASSES: usize = 5;

/// CPU time of this process in clock ticks of a hundredth of a second, as the kernel counts it.
fn cpu_time() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    // It follows the name, which may contain spaces.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

/// The best elapsed time, the CPU time of that pass, and its result.
fn best<T>(mut work: impl FnMut() -> T) -> (f64, f64, T) {
    let pass = |_| {
        let (begin, cpu) = (Instant::now(), cpu_time());
        let result = work();
        (begin.elapsed().as_secs_f64(), cpu_time() - cpu, result)
    };
    let mut passes: Vec<_> = (0..PASSES).map(pass).collect();
    passes.sort_by(|a, b| a.0.total_cmp(&b.0));
    passes.swap_remove(0)
}

fn export(path: &Path, format: Format, tables: &[Table]) -> Exported {
    let folder = tempfile::tempdir_in(path.parent().expect("a folder")).expect("room");
    let export = Export { format, tables: tables.to_vec(), labels: Vec::new() };
    export.to_folder(&[path], folder.path()).expect("exported")
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("busy.fxt");
    fs::write(&path, trace()).expect("room");
    let report = best(|| {
        analyse(Reader::open(&path).expect("it is there"), Options::default()).expect("a trace")
    });
    assert_eq!(report.2.switches(), SWITCHES);
    println!("{SWITCHES} switches; best of {PASSES} passes");
    println!("{:<28} {:>7.0} ms, {:>5.2} s of CPU", "report", report.0 * 1e3, report.1);
    let tell = |what: &str, format: Format, tables: &[Table]| {
        let (elapsed, cpu, exported) = best(|| export(&path, format, tables));
        let rows: u64 = exported.rows.iter().sum();
        println!(
            "{what:<28} {:>7.0} ms, {cpu:>5.2} s of CPU, {:>5.1} reports, {rows} rows of {:.2} bytes",
            elapsed * 1e3,
            cpu / report.1,
            exported.bytes as f64 / rows.max(1) as f64
        );
    };
    tell("export of all tables, CSV", Format::Csv, &Table::ALL);
    tell("export of all tables", Format::Parquet, &Table::ALL);
    for table in Table::ALL {
        if export(&path, Format::Parquet, &[table]).rows_of(table) > 1000 {
            tell(table.name(), Format::Parquet, &[table]);
        }
    }
}
