//! The statements that make a view of each table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::QueryError;

/// Statements that make a view for each table that is in any of these folders.
///
/// # Errors
/// When there is none in one of them, or it cannot be read, or its name is not UTF-8.
pub(super) fn of(folders: &[PathBuf]) -> Result<String, QueryError> {
    let mut tables = BTreeMap::<String, Vec<String>>::new();
    for folder in folders {
        let failed = |source| QueryError::Read { path: folder.clone(), source };
        // Absolute, so that no name is taken for an address in the network.
        let root = folder.canonicalize().map_err(failed)?;
        let known = tables.len();
        let mut found = false;
        for entry in root.read_dir().map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(name) = name.filter(|name| is_table(name, &path)) else { continue };
            let pattern = pattern(&path).ok_or_else(|| QueryError::NotUtf8(folder.clone()))?;
            tables.entry(name.to_owned()).or_default().push(pattern);
            found = true;
        }
        debug_assert!(found || tables.len() == known);
        if !found {
            return Err(QueryError::NoTables(folder.clone()));
        }
    }
    let view = |(name, patterns): (&String, &Vec<String>)| {
        let files = patterns.join(", ");
        format!(
            "CREATE VIEW \"{name}\" AS SELECT * FROM read_parquet([{files}], hive_partitioning = true, \
             union_by_name = true);\n"
        )
    };
    Ok(tables.iter().map(view).collect())
}

/// Whether it is laid out as `fxtrec export` does, and has a name that needs no quoting.
fn is_table(name: &str, path: &Path) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_day = |entry: std::fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with("day="))
    };
    name.bytes().all(is_plain) && path.read_dir().is_ok_and(|inside| inside.flatten().any(is_day))
}

/// A literal that stands for all files of a table below a folder, whatever its name has in it.
fn pattern(folder: &Path) -> Option<String> {
    let mut literal = String::from("'");
    for char in folder.to_str()?.chars() {
        match char {
            '\'' => literal.push_str("''"),
            '*' | '?' | '[' => literal.extend(['[', char, ']']),
            _ => literal.push(char),
        }
    }
    literal.push_str("/day=*/trace_id=*/*.parquet'");
    Some(literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_literals_that_stand_for_themselves_alone() {
        let of = |path: &str| pattern(Path::new(path)).expect("UTF-8");
        assert_eq!(of("/a/wait"), "'/a/wait/day=*/trace_id=*/*.parquet'");
        let odd = of("/x'); DROP TABLE t; --/[a]*?/wait");
        assert_eq!(odd, "'/x''); DROP TABLE t; --/[[]a][*][?]/wait/day=*/trace_id=*/*.parquet'");
    }

    #[test]
    fn only_folders_of_tables_become_views() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_owned();
        assert!(matches!(of(std::slice::from_ref(&path)), Err(QueryError::NoTables(_))));
        for name in ["wait/day=2026-11-23", "trace/day=2026-11-23", "notes", "Bad\"; x/day=1"] {
            std::fs::create_dir_all(path.join(name)).expect("room");
        }
        let views = of(&[path.clone(), path]).expect("tables");
        assert_eq!(views.lines().count(), 2, "{views}");
        assert!(views.contains("VIEW \"trace\"") && views.contains("VIEW \"wait\""), "{views}");
        assert_eq!(views.matches("/wait/day=*").count(), 2, "{views}");
    }
}
