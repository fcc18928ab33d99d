"""The programs that run in guests, linked statically: fxtrec, the end-to-end tests and what they run."""

import json
import os
import pathlib
import subprocess
import sys

from .cache import run, say

TOP = pathlib.Path(__file__).resolve().parents[3]
TRIPLES = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
STATIC = "-C target-feature=+crt-static"
CARGO = ["cargo", "build", "--locked", "--package", "fxtrec-tests", "--bins", "--tests", "--message-format", "json"]

# Sources below tests/programs that tests compile; a guest has no compiler, and finds these.
C_PROGRAMS = ["spans", "usdt"]
# Before their names in the stage, where one of the Rust programs has the same name.
C_PREFIX = "c-"
C_FLAGS = ["-O1", "-g", "-pthread", "-static"]


class Programs:
    """Where cargo put each program, which is also where tests look for it."""

    def __init__(self, cache, arch):
        self.arch = arch
        self.stage = cache.chroot / "vm" / f"programs-{arch}"
        self.stage.mkdir(parents=True, exist_ok=True)
        say(f"building for {arch}")
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")).resolve()
        triple = TRIPLES[arch]
        name = f"CARGO_TARGET_{triple.upper().replace('-', '_')}"
        if arch == "amd64":
            self._build([*CARGO, "--target", triple], {f"{name}_RUSTFLAGS": STATIC})
            strip = ["strip"]
            for program in C_PROGRAMS:
                run(["gcc", *C_FLAGS, TOP / f"tests/programs/{program}.c", "-o", self.stage / f"{C_PREFIX}{program}"])
        else:
            cache.cross()
            cargo_home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
            cargo_home.mkdir(exist_ok=True)
            # Other crates than the machine's own rustc makes, in a folder of their own.
            target = target / "vm"
            target.mkdir(parents=True, exist_ok=True)
            settings = {
                "HOME": "/root",
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "CARGO_HOME": str(cargo_home),
                "CARGO_TARGET_DIR": str(target),
                "CARGO_TERM_COLOR": "never",
                "CC_aarch64_unknown_linux_gnu": "aarch64-linux-gnu-gcc",
                f"{name}_LINKER": "aarch64-linux-gnu-gcc",
                f"{name}_RUSTFLAGS": STATIC,
            }
            mounts = [TOP, cargo_home]
            if TOP not in target.parents:
                mounts.append(target)
            words = " ".join(f'{key}="{value}"' for key, value in settings.items())
            cargo = " ".join([*CARGO, "--target", triple])
            self._build(cache.inside(f'cd "{TOP}" && exec env -i {words} {cargo}', mounts), {})
            for program in C_PROGRAMS:
                words = ["aarch64-linux-gnu-gcc", *C_FLAGS, f"{TOP}/tests/programs/{program}.c"]
                words += ["-o", f"/vm/{self.stage.name}/{C_PREFIX}{program}"]
                run(cache.inside(" ".join(words), [TOP]))
            strip = ["chroot", cache.chroot, "aarch64-linux-gnu-strip"]
        self._strip(strip, cache)

    def _build(self, command, settings):
        env = {key: value for key, value in os.environ.items() if key not in ("RUSTFLAGS", "CARGO_BUILD_TARGET")}
        done = subprocess.run(command, cwd=TOP, env=env | settings, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"vm: the build for {self.arch} failed")
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        built = [message for message in messages if message.get("executable")]
        self.tests = {m["target"]["name"]: m["executable"] for m in built if m["target"]["kind"] == ["test"]}
        self.bins = {m["target"]["name"]: m["executable"] for m in built if m["target"]["kind"] == ["bin"]}

    def _strip(self, strip, cache):
        """Copies without symbols, as nothing looks these up: a guest holds them in memory."""
        self.files = {}
        for path in [*self.tests.values(), *self.bins.values()]:
            source, copy = pathlib.Path(path), self.stage / pathlib.Path(path).name
            if not copy.exists() or copy.stat().st_mtime < source.stat().st_mtime:
                # Copied first: a chroot does not see the folder that cargo wrote to.
                full = copy.with_name(copy.name + ".full")
                full.write_bytes(source.read_bytes())
                seen = {"amd64": self.stage, "arm64": pathlib.Path("/vm", self.stage.name)}[self.arch]
                run([*strip, "-o", seen / copy.name, seen / full.name])
                full.unlink()
            self.files[path] = copy
        # Copies of earlier builds.
        kept = {copy.name for copy in self.files.values()} | {f"{C_PREFIX}{program}" for program in C_PROGRAMS}
        for old in self.stage.iterdir():
            if old.name not in kept:
                old.unlink()
