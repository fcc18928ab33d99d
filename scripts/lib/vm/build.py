"""The programs that run in guests: fxtrec, the end-to-end tests and the programs they run.

Those for amd64 are the machine's own dev build, which exists anyway, with its shared libraries. Those for arm64 are linked statically;
without tests, they need a third fewer crates.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from .cache import run, say

TOP = pathlib.Path(__file__).resolve().parents[3]
TRIPLE = "aarch64-unknown-linux-gnu"
STATIC = "-C target-feature=+crt-static"
# The whole workspace is built, since CI and developers have already built that: for one package alone, cargo would build most crates again,
# with fewer features. The programs are built because of the test.
NATIVE = ["cargo", "test", "--locked", "--workspace", "--no-run", "--message-format", "json-render-diagnostics", "--test", "machine"]
CROSS = ["cargo", "build", "--locked", "--package", "fxtrec-tests", "--message-format", "json-render-diagnostics", "--target", TRIPLE]
# Tests that run any of the programs.
DRIVERS = {"machine", "probes"}
# The programs that other checks run.
NEEDED = ["fxtrec-tested", "guest", "planted", "spans", "workload"]

# Sources below tests/programs that tests compile; a guest has no compiler, and gets the compiled programs.
SOURCES = ["spans.c", "usdt.c", "locks.c", "blocker.rs"]
# These are placed before their names in the stage, if one of the Rust programs has the same name.
PREFIX = "source-"
C_FLAGS = ["-O1", "-g", "-pthread", "-static"]
RUST_FLAGS = ["--edition", "2024", "-C", "force-frame-pointers=yes"]


def is_of(copy, source):
    """Whether the copy was built from this source; repositories that share a cache have different sources."""
    return copy.exists() and copy.stat().st_mtime_ns == source.stat().st_mtime_ns


def rust_for(triple):
    """The folder of the machine's own Rust, which has the library for this architecture: rustup installs it. Debian's packages of the
    compiler and of the library for another architecture may have different versions."""
    sysroot = pathlib.Path(run(["rustc", "--print", "sysroot"], cwd=TOP).strip())
    if not (sysroot / "lib/rustlib" / triple / "lib").is_dir():
        if not shutil.which("rustup"):
            sys.exit(f"vm: this Rust has no library for {triple}; install Rust by https://rustup.rs")
        say(f"downloading Rust's library for {triple}")
        run(["rustup", "target", "add", triple], tries=3, cwd=TOP)
    return sysroot


def mark(copy, source):
    os.utime(copy, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))


class Programs:
    """The place where cargo put each program, which is also where tests look for it. Of the programs that contain tests, only `tests` are
    built."""

    def __init__(self, cache, arch, tests, tools):
        self.arch = arch
        self.stage = cache.chroot / "vm" / f"programs-{arch}"
        self.stage.mkdir(parents=True, exist_ok=True)
        say(f"building for {arch}")
        if arch == "amd64":
            others = [word for test in tests if test != "machine" for word in ["--test", test]]
            self._build(cache, [*NATIVE, *others], tests)
            strip = ["strip"]
            self._compile("gcc", ["rustc", *RUST_FLAGS], self.stage, lambda command: command)
        else:
            strip = ["chroot", cache.chroot, "aarch64-linux-gnu-strip"]
            self._cross(cache, tests)
        self._strip(strip)
        # Programs of the machine itself, which another architecture cannot run.
        self.tools = [shutil.which(tool) or sys.exit(f"vm: there is no {tool} here") for tool in tools]
        self.libraries = self._libraries() if arch == "amd64" else []

    def _cross(self, cache, tests):
        cache.cross()
        sysroot = rust_for(TRIPLE)
        cargo_home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
        cargo_home.mkdir(exist_ok=True)
        # The chroot has no certificates to download crates with.
        fetch = ["cargo", "fetch", "--locked", "--target", TRIPLE, "--target", "x86_64-unknown-linux-gnu"]
        run(fetch, tries=3, cwd=TOP)
        # With another Debian's linker, build scripts would be linked against another C library, so they have a separate folder.
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")).resolve() / "vm"
        target.mkdir(parents=True, exist_ok=True)
        name = f"CARGO_TARGET_{TRIPLE.upper().replace('-', '_')}"
        settings = {
            "HOME": "/root",
            "PATH": f"{sysroot}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "CARGO_HOME": str(cargo_home),
            "CARGO_TARGET_DIR": str(target),
            "CARGO_TERM_COLOR": "never",
            "CC_aarch64_unknown_linux_gnu": "aarch64-linux-gnu-gcc",
            f"{name}_LINKER": "aarch64-linux-gnu-gcc",
            f"{name}_RUSTFLAGS": STATIC,
            # Programs for a guest are stripped.
            "CARGO_PROFILE_DEV_DEBUG": "none",
        }
        mounts = [TOP, cargo_home, sysroot]
        if TOP not in target.parents:
            mounts.append(target)
        words = " ".join(f'{key}="{value}"' for key, value in settings.items())
        wanted = ["--bins"] if DRIVERS & set(tests) else [word for program in NEEDED for word in ["--bin", program]]
        command = " ".join([*CROSS, *wanted, *(word for test in tests for word in ["--test", test])])
        self._build(cache, cache.inside(f'cd "{TOP}" && exec env -i {words} {command}', mounts), tests)
        rustc = [sysroot / "bin/rustc", *RUST_FLAGS, "--target", TRIPLE, "-C", "linker=aarch64-linux-gnu-gcc", STATIC]

        def inside(command):
            return cache.inside(" ".join(map(str, command)), [TOP, sysroot])

        self._compile("aarch64-linux-gnu-gcc", rustc, pathlib.Path("/vm", self.stage.name), inside)

    def _compile(self, gcc, rustc, stage, wrap):
        """The programs whose source is in tests; `stage` is the path that the compiler sees."""
        for source in SOURCES:
            path = TOP / "tests/programs" / source
            copy = self.stage / f"{PREFIX}{path.stem}"
            if not is_of(copy, path):
                words = [gcc, *C_FLAGS] if path.suffix == ".c" else rustc
                run(wrap([*words, path, "-o", stage / copy.name]))
                mark(copy, path)

    def _build(self, cache, command, tests):
        # It takes minutes, and cargo has its own locks.
        cache.unlock()
        done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, text=True)
        cache.lock()
        if done.returncode != 0:
            sys.exit(f"vm: the build for {self.arch} failed")
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        built = [(m["target"]["name"], m["target"]["kind"], m) for m in messages if m.get("executable")]
        self.tests = {name: m["executable"] for name, kind, m in built if kind == ["test"] and name in tests}
        own = [(name, m) for name, kind, m in built if kind == ["bin"] and "#fxtrec-tests@" in m["package_id"]]
        # The others use memory of the guest.
        self.bins = {name: m["executable"] for name, m in own if DRIVERS & set(tests) or name in NEEDED}

    def _strip(self, strip):
        """Copies without symbols, since nothing uses them and a guest holds them in memory."""
        self.files = {}
        for path in [*self.tests.values(), *self.bins.values()]:
            source, copy = pathlib.Path(path), self.stage / pathlib.Path(path).name
            if not is_of(copy, source):
                # Copied first, because a chroot does not see the folder that cargo wrote to.
                full = copy.with_name(copy.name + ".full")
                full.write_bytes(source.read_bytes())
                seen = {"amd64": self.stage, "arm64": pathlib.Path("/vm", self.stage.name)}[self.arch]
                run([*strip, "-o", seen / copy.name, seen / full.name])
                full.unlink()
                mark(copy, source)
            self.files[path] = copy
        self.sources = {source.split(".")[0]: self.stage / f"{PREFIX}{source.split('.')[0]}" for source in SOURCES}
        # Copies of earlier builds.
        kept = {copy.name for copy in [*self.files.values(), *self.sources.values()]}
        for old in self.stage.iterdir():
            if old.name not in kept:
                old.unlink()

    def _libraries(self):
        """The libraries that the programs are linked against, by the paths at which they look for them."""
        found = set()
        for program in [*self.bins.values(), *self.tests.values(), self.sources["blocker"], *self.tools]:
            # It fails for a statically linked program.
            listed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            found.update(word for word in listed.stdout.split() if word.startswith("/"))
        return sorted(found)
