//! A Python with the package `varlink`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use fxtrec_tests::skip::skip;

/// The package, in a version that is known to work.
const PACKAGE: &str = "varlink==31.0.0";

fn has_it(python: &PathBuf) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import varlink"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Its path, once the package is installed; prints a message if that is impossible.
///
/// # Panics
/// When it cannot be installed, and the variable `CI` is set.
pub(super) fn with_varlink() -> Option<PathBuf> {
    let system = PathBuf::from("python3");
    if has_it(&system) {
        return Some(system);
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map_or("/root".into(), PathBuf::from).join(".cache");
    let folder = cache.unwrap_or_else(home).join("fxtrec");
    std::fs::create_dir_all(&folder).expect("a folder for what is installed");
    // Concurrent tests install it once.
    let lock = std::fs::File::create(folder.join("varlink.lock")).expect("a file");
    let _lock = nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusive).expect("ours");
    let venv = folder.join("varlink");
    let python = venv.join("bin/python");
    if has_it(&python) {
        return Some(python);
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).status();
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE];
    let installed = made.and_then(|_| Command::new(&python).args(pip).status());
    if installed.is_ok_and(|status| status.success()) && has_it(&python) {
        return Some(python);
    }
    skip(&format!("needs {PACKAGE} of PyPI, and python3-venv to install it"));
    None
}
