//! DuckDB, as it is installed: its program, or its module for Python.

use std::env;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::QueryError;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
}

/// What understands SQL.
#[derive(Debug)]
pub(super) enum Engine {
    Program(PathBuf),
    Python(PathBuf),
}

/// Nothing is imported from the current directory, where anybody may have put something. The views, the statements and the
/// format come as three lines of JSON.
const SCRIPT: &str = r#"
import sys
sys.path = [path for path in sys.path if path not in ("", ".")]
import csv, json
import duckdb
views, sql, form = (json.loads(line) for line in sys.stdin.buffer.read().splitlines())
try:
    database = duckdb.connect(":memory:")
    database.execute(views)
    if form == "table":
        rows = database.sql(sql)
        if rows is not None:
            rows.show(max_rows=1000000, max_width=1000)
        sys.exit()
    rows = database.execute(sql)
    names = [column[0] for column in rows.description or []]
    rows = rows.fetchall()
except duckdb.Error as error:
    sys.exit(str(error))
if form == "csv":
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(names)
    out.writerows(rows)
else:
    json.dump([dict(zip(names, row)) for row in rows], sys.stdout, default=str)
    print()
"#;

/// Says by its status whether Python has the module.
const HAS_MODULE: &str = r#"
import sys
sys.path = [path for path in sys.path if path not in ("", ".")]
import importlib.util
sys.exit(importlib.util.find_spec("duckdb") is None)
"#;

fn in_path(name: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    // A relative folder is whatever lies there where we happen to be.
    let absolute = env::split_paths(&paths).filter(|folder| folder.is_absolute());
    absolute.map(|folder| folder.join(name)).find(|path| {
        path.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
    })
}

impl Engine {
    /// The one that is installed, the program rather than the module.
    pub(super) fn find() -> Option<Engine> {
        if let Some(program) = in_path("duckdb") {
            return Some(Engine::Program(program));
        }
        let python = in_path("python3")?;
        let mut asked = Command::new(&python);
        asked.args(["-c", HAS_MODULE]).stdin(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success()).then_some(Engine::Python(python))
    }

    /// Makes the views and runs the statements; rows go to standard output.
    ///
    /// # Errors
    /// When it cannot be run, or fails.
    pub(super) fn run(&self, views: &str, sql: &str, format: Format) -> Result<(), QueryError> {
        let (program, ended) = match self {
            Engine::Program(path) => {
                let form = match format {
                    Format::Table => "-box",
                    Format::Json => "-json",
                    Format::Csv => "-csv",
                };
                let mut command = Command::new(path);
                // Without the user's settings, which may change what is printed.
                command.args(["-init", "/dev/null", "-batch", "-bail", form, ":memory:"]);
                command.args(["-c", views, "-c", sql]).stdin(Stdio::null());
                (path, command.status())
            }
            Engine::Python(path) => {
                let form = match format {
                    Format::Table => "table",
                    Format::Json => "json",
                    Format::Csv => "csv",
                };
                (path, feed(path, [views, sql, form]))
            }
        };
        let program = program.display().to_string();
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(QueryError::Failed { program, status }),
            Err(source) => Err(QueryError::Run { program, source }),
        }
    }
}

fn feed(python: &Path, lines: [&str; 3]) -> std::io::Result<ExitStatus> {
    let mut child = Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::piped()).spawn()?;
    let mut text = String::new();
    for line in lines {
        text += &serde_json::Value::from(line).to_string();
        text.push('\n');
    }
    // One that ended early says why by its status.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    child.wait()
}
