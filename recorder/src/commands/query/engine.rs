//! The installed DuckDB: its program, or its Python module.

use std::env;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::QueryError;
use super::temporary::Temporary;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
}

/// An SQL engine.
#[derive(Debug)]
pub(super) enum Engine {
    Program(PathBuf),
    Python(PathBuf),
}

/// Imports nothing from the current directory, which is not trusted. The views, the statements and the format are passed as three lines of
/// JSON.
const SCRIPT: &str = r#"
import sys
sys.path = [path for path in sys.path if path not in ("", ".")]
import csv, json
import duckdb
views, sql, form = (json.loads(line) for line in sys.stdin.buffer.read().splitlines())
try:
    database = duckdb.connect(":memory:")
    # After two seconds it would go to standard output.
    database.execute("SET enable_progress_bar = false")
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

/// The exit status shows what Python has: 0 for the module, 10 for neither the module nor pip, 11 for pip, 12 for a pip that installs only
/// for the user and only if forced.
const LOOK_FOR_MODULE: &str = r#"
import sys
sys.path = [path for path in sys.path if path not in ("", ".")]
import importlib.util, os, sysconfig
if importlib.util.find_spec("duckdb"):
    sys.exit(0)
if not importlib.util.find_spec("pip"):
    sys.exit(10)
marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
sys.exit(12 if sys.prefix == sys.base_prefix and os.path.exists(marker) else 11)
"#;

/// DuckDB was not found; this describes how Python could install it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoEngine {
    NoPython,
    NoPip,
    Pip,
    /// The distribution lets pip install only if it is forced.
    ForcedPip,
}

const PIP: &str = "python3 -m pip install duckdb";
const FORCED_PIP: &str = "python3 -m pip install --user --break-system-packages duckdb";

impl NoEngine {
    /// The missing program, and a command that installs it.
    pub(super) fn describe(self) -> String {
        let installs = |manager: &str| in_path(manager).is_some();
        self.describe_by(installs)
    }

    fn describe_by(self, is_there: impl Fn(&str) -> bool) -> String {
        let python = match self {
            NoEngine::NoPython => "there is no python3",
            _ => "python3 has no module `duckdb`",
        };
        let packages = ["apt-get", "dnf", "zypper"].into_iter().find(|manager| is_there(manager));
        let command = match (self, packages) {
            (NoEngine::Pip, _) => PIP.to_owned(),
            (NoEngine::ForcedPip, _) => FORCED_PIP.to_owned(),
            (_, Some(manager)) => {
                let pip = if manager == "apt-get" { FORCED_PIP } else { PIP };
                format!("sudo {manager} install python3-pip && {pip}")
            }
            (_, None) => "curl https://install.duckdb.org | sh".to_owned(),
        };
        format!("DuckDB: there is no program `duckdb` in PATH, and {python}; install it: {command}")
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    // A relative directory depends on the current directory and is not trusted.
    let absolute = env::split_paths(&paths).filter(|folder| folder.is_absolute());
    absolute.map(|folder| folder.join(name)).find(|path| {
        path.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
    })
}

impl Engine {
    /// The installed engine; the program is preferred to the module.
    ///
    /// # Errors
    /// Returns an error when none is.
    pub(super) fn find() -> Result<Engine, NoEngine> {
        if let Some(program) = in_path("duckdb") {
            return Ok(Engine::Program(program));
        }
        let python = in_path("python3").ok_or(NoEngine::NoPython)?;
        let mut asked = Command::new(&python);
        asked.args(["-c", LOOK_FOR_MODULE]).stdin(Stdio::null()).stderr(Stdio::null());
        match asked.status().ok().and_then(|status| status.code()) {
            Some(0) => Ok(Engine::Python(python)),
            Some(10) => Err(NoEngine::NoPip),
            Some(11) => Err(NoEngine::Pip),
            Some(12) => Err(NoEngine::ForcedPip),
            _ => Err(NoEngine::NoPython),
        }
    }

    /// Creates the views and runs the statements; rows are written to standard output.
    ///
    /// # Errors
    /// Returns an error when it cannot be run, or fails.
    pub(super) fn run(
        &self,
        views: &str,
        sql: &str,
        format: Format,
        temporary: Option<&Temporary>,
    ) -> Result<(), QueryError> {
        let start = |command: &mut Command| match temporary {
            Some(temporary) => temporary.start(|| command.spawn()),
            None => command.spawn(),
        };
        let (program, ended) = match self {
            Engine::Program(path) => {
                let form = match format {
                    Format::Table => "-box",
                    Format::Json => "-json",
                    Format::Csv => "-csv",
                };
                let mut command = Command::new(path);
                // Ignores the user's settings, which may change the output.
                command.args(["-init", "/dev/null", "-batch", "-bail", form, ":memory:"]);
                command.args(["-c", views, "-c", sql]).stdin(Stdio::null());
                (path, start(&mut command).and_then(|mut child| child.wait()))
            }
            Engine::Python(path) => {
                let form = match format {
                    Format::Table => "table",
                    Format::Json => "json",
                    Format::Csv => "csv",
                };
                let mut command = Command::new(path);
                command.args(["-c", SCRIPT]).stdin(Stdio::piped());
                (path, start(&mut command).and_then(|child| feed(child, [views, sql, form])))
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

fn feed(mut child: Child, lines: [&str; 3]) -> std::io::Result<ExitStatus> {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::Value::from(line).to_string();
        text.push('\n');
    }
    // If it ended early, its status says why.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_one_command_that_installs_it_here() {
        let debian = |name: &str| name == "apt-get";
        let fedora = |name: &str| name == "dnf";
        let none = |_: &str| false;
        let command = |missing: NoEngine, is_there: &dyn Fn(&str) -> bool| {
            let text = missing.describe_by(is_there);
            text.split_once("install it: ").expect("a command").1.to_owned()
        };
        assert_eq!(command(NoEngine::Pip, &debian), "python3 -m pip install duckdb");
        assert_eq!(command(NoEngine::ForcedPip, &none), FORCED_PIP);
        assert_eq!(
            command(NoEngine::NoPip, &debian),
            format!("sudo apt-get install python3-pip && {FORCED_PIP}")
        );
        assert_eq!(
            command(NoEngine::NoPython, &fedora),
            format!("sudo dnf install python3-pip && {PIP}")
        );
        assert_eq!(command(NoEngine::NoPython, &none), "curl https://install.duckdb.org | sh");
    }
}
