//! Programs that use the headers for C and C++, built by gcc and g++.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::succeed;

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

/// Builds the example in a directory, with flags that select the library to use.
///
/// # Panics
/// When it does not compile.
pub fn build(folder: &Path, library: &[&str]) -> PathBuf {
    compile(&header().join("examples/provider.c"), folder, library)
}

/// Builds a source in a directory, with flags that select the library to use.
fn compile(source: &Path, folder: &Path, library: &[&str]) -> PathBuf {
    let program = folder.join(source.file_stem().expect("a name"));
    let (compiler, language) = match source.extension().is_some_and(|kind| kind == "cpp") {
        true => ("g++", "-std=c++17"),
        false => ("gcc", "-std=gnu11"),
    };
    let output = Command::new(compiler)
        .args([language, "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-I")
        .arg(header())
        .args(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .expect("a compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Compiles both examples, and calls of C++ without arguments, by every standard, with all warnings as
/// errors.
///
/// # Panics
/// When there is a warning.
pub fn compile_strictly(folder: &Path, [c, cpp]: [&str; 2]) {
    let bare = folder.join("bare.cpp");
    let source = "#include \"fxt_provider.hpp\"\n\
         int main() { FXT_INSTANT(\"a\", \"b\"); FXT_DURATION(\"a\", \"c\"); FXT_SPAN(s, \"a\", \"d\"); \
         FXT_ASYNC_SPAN(r, \"a\", \"e\"); FXT_FLOW_BEGIN(\"a\", \"f\", 1); }\n";
    std::fs::write(&bare, source).expect("room");
    let examples = header().join("examples");
    let (in_c, in_cpp) = (examples.join("provider.c"), examples.join("provider.cpp"));
    let in_c = ["c11", "gnu11", "c17"].map(|standard| (c, standard, &in_c));
    let in_cpp = ["c++17", "gnu++17", "c++20"]
        .into_iter()
        .flat_map(|standard| [(cpp, standard, &in_cpp), (cpp, standard, &bare)]);
    for (compiler, standard, source) in in_c.into_iter().chain(in_cpp) {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]);
        succeed(command.arg(format!("-std={standard}")).arg(source).arg("-I").arg(header()));
    }
}

/// Builds the example in a directory, with the static library.
///
/// # Panics
/// When it does not compile.
pub fn build_statically(folder: &Path) -> PathBuf {
    compile_statically(&header().join("examples/provider.c"), folder)
}

/// Builds the example for C++ in a directory, with the static library.
///
/// # Panics
/// When it does not compile.
pub fn build_cpp(folder: &Path) -> PathBuf {
    compile_statically(&header().join("examples/provider.cpp"), folder)
}

/// Installs headers and libraries below a directory.
///
/// # Panics
/// When that fails.
pub fn install(prefix: &Path) {
    let mut install = Command::new(header().join("install"));
    succeed(install.arg(prefix).arg("--built").arg(libraries()));
}

/// Builds the example for C++ with the flags that pkg-config finds below a directory.
///
/// # Panics
/// When it finds nothing, or the example does not compile.
pub fn build_by_pkg_config(prefix: &Path, folder: &Path) -> PathBuf {
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", "fxt_provider"]);
    let flags = succeed(pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let program = folder.join("by-pkg-config");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-o"]).arg(&program);
    compiler.arg(header().join("examples/provider.cpp")).args(flags.split_whitespace());
    let found = prefix.join("lib");
    succeed(compiler.arg(format!("-Wl,-rpath,{}", found.display())).args(["-lpthread"]));
    program
}

/// Builds both examples with the targets that CMake finds below a directory: the one for C++ with the static library, the one for C with
/// the shared library.
///
/// # Panics
/// When it finds nothing, or an example does not compile.
pub fn build_by_cmake(prefix: &Path, folder: &Path) -> [PathBuf; 2] {
    let examples = header().join("examples").canonicalize().expect("a folder");
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\n\
         project(examples C CXX)\n\
         set(CMAKE_CXX_STANDARD 17)\n\
         find_package(fxt_provider 0.1 REQUIRED)\n\
         add_executable(cpp {0}/provider.cpp)\n\
         target_link_libraries(cpp fxt_provider::static)\n\
         add_executable(c {0}/provider.c)\n\
         target_link_libraries(c fxt_provider::shared pthread)\n",
        examples.display()
    );
    std::fs::write(folder.join("CMakeLists.txt"), lists).expect("room");
    let build = folder.join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder).arg("-B").arg(&build);
    succeed(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    succeed(Command::new("cmake").arg("--build").arg(&build));
    ["cpp", "c"].map(|name| build.join(name))
}

/// Builds a source in a directory, with the static library.
///
/// # Panics
/// When it does not compile.
pub fn compile_statically(source: &Path, folder: &Path) -> PathBuf {
    let library = libraries().join("libfxt_provider.a");
    compile(source, folder, &[library.to_str().expect("a plain path")])
}
