//! Output files of all commands, in directories where other users can place links, FIFOs and devices: files that root creates belong to the
//! user who called sudo, and nothing else is touched.

mod derived;
mod modes;
mod recordings;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use fxtrec_tests::binary;
use fxtrec_tests::folder::{Done, Folder};

const CALLER: (u32, u32) = (65_533, 65_532);

/// Runs fxtrec as if through sudo.
#[track_caller]
fn sudo(folder: &Folder, args: &[&str]) -> Done {
    let mut command = binary::command();
    command.args(args);
    command.env("SUDO_UID", CALLER.0.to_string()).env("SUDO_GID", CALLER.1.to_string());
    folder.run(&mut command)
}

fn owner(path: &Path) -> (u32, u32) {
    let facts = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    (facts.uid(), facts.gid())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{path:?}: {error}")).mode() & 0o7777
}

/// The names of all files in the directory, including hidden ones.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path("")).expect("there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Records `true`, and other activity on the machine, to `name`.
fn trace(folder: &Folder, name: &str) {
    let done = folder.fxtrec(["-q", "-o", name, "--", "true"]).expect(0);
    assert!(fs::metadata(folder.path(name)).is_ok_and(|file| file.len() > 0), "{}", done.stderr);
}

/// The output of a shell in the directory.
fn shell(folder: &Folder, script: &str) -> Done {
    folder.run(Command::new("/bin/sh").args(["-c", script, "sh"]).arg(binary::fxtrec()))
}
