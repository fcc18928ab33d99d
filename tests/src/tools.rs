//! External programs that a test needs.

use std::path::Path;

use nix::unistd::{AccessFlags, access};

use crate::skip::skip;

/// Debian's packages of tools whose names differ from the tools'.
const PACKAGES: [(&str, &str); 12] = [
    ("chroot", "coreutils"),
    ("go", "golang-go"),
    ("nm", "binutils"),
    ("node", "nodejs"),
    ("objcopy", "binutils"),
    ("objdump", "binutils"),
    ("perf", "linux-perf"),
    ("pkg-config", "pkgconf"),
    ("readelf", "binutils"),
    ("setpriv", "util-linux"),
    ("strip", "binutils"),
    ("systemd-analyze", "systemd"),
];

/// Whether these tools are installed; prints which is missing if not. CI installs them: see `.ci/run`.
///
/// # Panics
/// When one is missing, and the variable `CI` is set.
pub fn or_skip(tools: &[&str]) -> bool {
    let Some(tool) = tools.iter().find(|tool| !is_there(tool)) else { return true };
    let package = PACKAGES.iter().find(|(name, _)| name == tool).map_or(*tool, |(_, name)| name);
    skip(&format!("needs {tool} (apt install {package})"));
    false
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let can_run = |file: &Path| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    std::env::split_paths(&path).any(|folder| can_run(&folder.join(tool)))
}

#[cfg(test)]
mod tests {
    use super::is_there;

    #[test]
    fn a_tool_is_there_when_it_can_be_run_by_its_name() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-tool-anywhere"));
        assert!(!is_there(""), "a folder is no tool");
    }
}
