//! The statements that create a view for each table.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::QueryError;
use crate::export::{Format, Table};

/// The maximum length of a header.
const HEADER: u64 = 64 << 10;

/// The source that a table is read from.
#[derive(Debug, Default)]
struct Sources {
    /// Patterns of files.
    parquet: Vec<String>,
    /// Files or patterns by header, since versions of a table may have different columns.
    csv: BTreeMap<String, Vec<String>>,
}

/// Statements that create a view for each table in any of these directories.
///
/// # Errors
/// Returns an error when a directory has no table, cannot be read, or its name is not UTF-8.
pub(super) fn of(folders: &[PathBuf]) -> Result<String, QueryError> {
    let mut tables = BTreeMap::<String, Sources>::new();
    for folder in folders {
        let failed = |source| QueryError::Read { path: folder.clone(), source };
        // Absolute paths, so that DuckDB does not take a name for a URL.
        let root = folder.canonicalize().map_err(failed)?;
        let mut found = false;
        for entry in root.read_dir().map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| is_plain(name)) else { continue };
            let files = Files::of(&path, name).map_err(failed)?;
            if files.is_empty() {
                continue;
            }
            let not_utf8 = || QueryError::NotUtf8(folder.clone());
            files.add(&path, tables.entry(name.to_owned()).or_default()).ok_or_else(not_utf8)?;
            found = true;
        }
        if !found {
            return Err(QueryError::NoTables(folder.clone()));
        }
    }
    let view = |(name, sources): (&String, &Sources)| {
        let reads = sources.reads(name).join(" UNION ALL BY NAME ");
        format!("CREATE VIEW \"{name}\" AS {reads};\n")
    };
    Ok(tables.iter().map(view).collect())
}

/// Whether a name needs no quoting.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// The files of a table below its directory.
#[derive(Debug, Default)]
struct Files {
    has_parquet: bool,
    csv: BTreeMap<String, Vec<PathBuf>>,
}

impl Files {
    /// The files in the layout of `fxtrec export`.
    fn of(folder: &Path, table: &str) -> io::Result<Files> {
        let mut files = Files::default();
        for day in partitions(folder, "day=") {
            for trace in partitions(&day, "trace_id=") {
                let file = |format: Format| trace.join(format!("{table}.{}", format.name()));
                files.has_parquet |= file(Format::Parquet).is_file();
                let csv = file(Format::Csv);
                if csv.is_file() {
                    files.csv.entry(header(&csv)?).or_default().push(csv);
                }
            }
        }
        Ok(files)
    }

    fn is_empty(&self) -> bool {
        !self.has_parquet && self.csv.is_empty()
    }

    /// Adds the files to the sources of the table; `None` if a path is not UTF-8.
    fn add(self, folder: &Path, sources: &mut Sources) -> Option<()> {
        let all =
            |format: Format| pattern(folder, &format!("/day=*/trace_id=*/*.{}", format.name()));
        if self.has_parquet {
            sources.parquet.push(all(Format::Parquet)?);
        }
        let are_alike = self.csv.len() == 1;
        for (header, files) in self.csv {
            let of_it = sources.csv.entry(header).or_default();
            match are_alike {
                true => of_it.push(all(Format::Csv)?),
                false => {
                    for file in files {
                        of_it.push(pattern(&file, "")?);
                    }
                }
            }
        }
        Some(())
    }
}

/// The subfolders whose names begin with `begin`.
fn partitions(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let is_one = |entry: &std::fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(begin))
    };
    entries.flatten().filter(is_one).map(|entry| entry.path()).collect()
}

/// The first line of a file.
fn header(path: &Path) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(File::open(path)?.take(HEADER)).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

impl Sources {
    /// The queries whose rows together form the table.
    fn reads(&self, table: &str) -> Vec<String> {
        let mut reads = Vec::new();
        if !self.parquet.is_empty() {
            let files = self.parquet.join(", ");
            reads.push(format!(
                "SELECT * FROM read_parquet([{files}], hive_partitioning = true, union_by_name = true)"
            ));
        }
        for (header, files) in &self.csv {
            let (files, columns) = (files.join(", "), columns(table, header));
            // Nothing is auto-detected. The parallel reader is off, since it may mistake line breaks in strings for ends of rows.
            reads.push(format!(
                "SELECT * FROM read_csv([{files}], columns = {{{columns}}}, auto_detect = false, header = true, delim = ',', \
                 quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, parallel = false, \
                 hive_partitioning = true, union_by_name = true)"
            ));
        }
        reads
    }
}

/// The columns and types of CSV files with this header. Unknown columns are text.
fn columns(table: &str, header: &str) -> String {
    let known = table.parse::<Table>().map_or(&[][..], Table::columns);
    let column = |name: &str| {
        let kind = known.iter().find(|column| column.name == name).map(|column| column.kind.sql());
        let name = name.replace('\'', "''");
        format!("'{name}': '{}'", kind.unwrap_or("VARCHAR"))
    };
    header.split(',').map(column).collect::<Vec<_>>().join(", ")
}

/// A literal for a path with any characters, followed by `behind`.
fn pattern(path: &Path, behind: &str) -> Option<String> {
    let mut literal = String::from("'");
    for char in path.to_str()?.chars() {
        match char {
            '\'' => literal.push_str("''"),
            '*' | '?' | '[' => literal.extend(['[', char, ']']),
            _ => literal.push(char),
        }
    }
    literal.push_str(behind);
    literal.push('\'');
    Some(literal)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn paths_become_literals_that_stand_for_themselves_alone() {
        let of = |path: &str| pattern(Path::new(path), "/day=*").expect("UTF-8");
        assert_eq!(of("/a/wait"), "'/a/wait/day=*'");
        let odd = of("/x'); DROP TABLE t; --/[a]*?/wait");
        assert_eq!(odd, "'/x''); DROP TABLE t; --/[[]a][*][?]/wait/day=*'");
    }

    /// Creates a file of a table, and its parent directories.
    fn file(root: &Path, table: &str, trace: &str, ending: &str, content: &str) {
        let folder = root.join(table).join("day=2026-11-23").join(format!("trace_id={trace}"));
        fs::create_dir_all(&folder).expect("room");
        fs::write(folder.join(format!("{table}.{ending}")), content).expect("room");
    }

    #[test]
    fn only_folders_of_tables_become_views() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        assert!(matches!(of(std::slice::from_ref(&path)), Err(QueryError::NoTables(_))));
        for name in ["wait/day=2026-11-23/trace_id=t0", "notes", "Bad\"; x/day=1"] {
            fs::create_dir_all(path.join(name)).expect("room");
        }
        assert!(matches!(of(std::slice::from_ref(&path)), Err(QueryError::NoTables(_))));
        file(&path, "wait", "t1", "parquet", "");
        file(&path, "trace", "t1", "parquet", "");
        let views = of(&[path.clone(), path]).expect("tables");
        assert_eq!(views.lines().count(), 2, "{views}");
        assert!(views.contains("VIEW \"trace\"") && views.contains("VIEW \"wait\""), "{views}");
        assert_eq!(views.matches("/wait/day=*").count(), 2, "{views}");
        assert!(!views.contains("read_csv"), "{views}");
    }

    #[test]
    fn columns_of_csv_have_the_types_of_the_schema_whatever_version_wrote_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        file(&path, "loss", "t1", "csv", "ts,dur,cpu,events\n");
        let views = of(std::slice::from_ref(&path)).expect("tables");
        let expected = "'ts': 'BIGINT', 'dur': 'BIGINT', 'cpu': 'INTEGER', 'events': 'BIGINT'";
        assert!(views.contains(expected) && views.contains("trace_id=*/*.csv'"), "{views}");
        // A later version has one more column, and there is also a Parquet file.
        file(&path, "loss", "t2", "csv", "ts,dur,cpu,events,reason's\n");
        file(&path, "loss", "t3", "parquet", "");
        let views = of(std::slice::from_ref(&path)).expect("tables");
        assert_eq!(views.matches("UNION ALL BY NAME").count(), 2, "{views}");
        assert!(views.contains("'reason''s': 'VARCHAR'"), "{views}");
        assert!(views.contains("trace_id=t1/loss.csv'") && views.contains("trace_id=t2/loss.csv'"));
        assert!(views.contains("/*.parquet'") && !views.contains("*.csv"), "{views}");
    }
}
