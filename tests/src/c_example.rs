//! Programs that use the C header, built by gcc.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the libraries that a test depends on.
///
/// # Panics
/// When the test was not built by cargo.
pub fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent().expect("a folder").to_path_buf()
}

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fxt-writer/capi")
}

/// Builds the example in a folder, with flags that say which library to use.
///
/// # Panics
/// When it does not compile.
pub fn build(folder: &Path, library: &[&str]) -> PathBuf {
    compile(&header().join("examples/provider.c"), folder, library)
}

/// Builds a source in a folder, with flags that say which library to use.
fn compile(source: &Path, folder: &Path, library: &[&str]) -> PathBuf {
    let program = folder.join(source.file_stem().expect("a name"));
    let output = Command::new("gcc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-I")
        .arg(header())
        .args(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The same with the static library.
///
/// # Panics
/// When it does not compile.
pub fn build_statically(folder: &Path) -> PathBuf {
    compile_statically(&header().join("examples/provider.c"), folder)
}

/// Builds a source in a folder, with the static library.
///
/// # Panics
/// When it does not compile.
pub fn compile_statically(source: &Path, folder: &Path) -> PathBuf {
    let library = libraries().join("libfxt_provider.a");
    compile(source, folder, &[library.to_str().expect("a plain path")])
}
