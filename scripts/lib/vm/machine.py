"""One guest: starts QEMU, and reads the results of the checks from its serial line."""

import dataclasses
import os
import pathlib
import re
import select
import signal
import subprocess
import threading
import time

COMMON = "panic=-1 loglevel=4 random.trust_cpu=on"
# From here on, several threads that emulate CPUs take longer than one.
MANY_CPUS = 64
# Time limit for a guest to power off, in seconds.
POWER_OFF = 15
# Set when no guest is needed any more.
stopping = threading.Event()

MACHINES = {
    "amd64": {
        "program": "qemu-system-x86_64",
        "options": ["-M", "q35"],
        "tcg": ["-cpu", "max,la57=off"],
        "kvm": ["-cpu", "host"],
        # The check of timers is disabled: a busy host may be too late for it, and the kernel would stop.
        "append": "console=ttyS0 mitigations=off nokaslr tsc=reliable no_timer_check",
    },
    "arm64": {
        "program": "qemu-system-aarch64",
        "options": ["-M", "virt,gic-version=3"],
        "tcg": ["-cpu", "cortex-a72"],
        "append": "console=ttyAMA0",
    },
}

LINE = re.compile(r"@(plan|check|log|end)\b ?(.*)")


@dataclasses.dataclass
class Check:
    name: str
    status: str
    seconds: int
    why: str
    log: list


@dataclasses.dataclass
class Result:
    """The outcome of a guest. `checks` has one entry for each planned check."""

    checks: list
    cpu_seconds: float
    seconds: float
    log: pathlib.Path


def kvm_works():
    """Whether to try KVM: if the CPU shows no such extension, stock kernels were seen to hang in it."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    return bool(re.search(r"^flags\s*:.*\b(vmx|svm)\b", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE))


def command(cache, arch, image, initrd, cpus, memory, append, accelerator):
    machine = MACHINES[arch]
    threads = "single" if cpus >= MANY_CPUS else "multi"
    how = ["-accel", f"tcg,thread={threads}", *machine["tcg"]]
    if accelerator == "kvm":
        how = ["-accel", "kvm", *machine["kvm"]]
    words = [COMMON, machine["append"], append]
    if cpus >= MANY_CPUS:
        words.append("nowatchdog rcupdate.rcu_cpu_stall_suppress=1")

    def inner(path):
        return "/" + str(pathlib.Path(path).relative_to(cache.chroot))

    return [
        "chroot", str(cache.chroot), machine["program"], *machine["options"], *how,
        "-smp", str(cpus), "-m", memory, "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
        "-kernel", inner(image), "-initrd", inner(initrd), "-append", " ".join(filter(None, words)),
    ]  # fmt: skip


def boot(words, limit, log, expect_within=None):
    """Runs QEMU until the guest powers off, for at most `limit` seconds. Returns its output.

    With `expect_within`, gives up if no check was announced within this many seconds.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    text = b""
    ended = None
    is_closed = False
    with open(log, "wb") as file:
        try:
            while True:
                spent = time.monotonic() - begin
                left = limit - spent
                if b"@end" in text:
                    # A guest that has slept may not be able to power off.
                    ended = ended or spent
                    left = min(left, ended + POWER_OFF - spent)
                if expect_within and b"@plan" not in text:
                    left = min(left, expect_within - spent)
                if left <= 0 or stopping.is_set() or b"KVM internal error" in text:
                    break
                ready, _, _ = select.select([process.stdout], [], [], min(left, 1))
                if not ready:
                    continue
                piece = os.read(process.stdout.fileno(), 65536)
                if not piece:
                    is_closed = True
                    break
                file.write(piece)
                file.flush()
                text += piece
        finally:
            # A guest that has powered off is ending by itself, and has closed its output.
            if not is_closed:
                # The object is not used for this, since it would reap the process first and discard its times. It has not been reaped, so
                # its id is still valid.
                os.kill(process.pid, signal.SIGKILL)
            process.stdout.close()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
            cpu = usage.ru_utime + usage.ru_stime
    return text.decode(errors="replace"), cpu, time.monotonic() - begin


def read(text):
    """The checks in a guest's output. A planned check that did not report has failed."""
    planned, checks, is_ended = [], {}, False
    last = None
    for line in text.splitlines():
        found = LINE.search(line)
        if not found:
            continue
        kind, rest = found.groups()
        if kind == "plan":
            planned = rest.split()
        elif kind == "check":
            words = rest.split(" ", 3)
            if len(words) >= 3 and words[2].isdigit():
                last = Check(words[0], words[1], int(words[2]), words[3] if len(words) > 3 else "", [])
                checks[last.name] = last
        elif kind == "log" and last:
            last.log.append(rest)
        elif kind == "end":
            is_ended = True
    found = list(checks.values())
    if not planned:
        return [Check("boot", "FAILED", 0, "the guest did not reach its first process", text.splitlines()[-40:])]
    for name in [*planned, "kernel-log"]:
        if name not in checks:
            why = "no result" if is_ended else "the guest ended, or was ended, before this"
            found.append(Check(name, "FAILED", 0, why, text.splitlines()[-40:]))
    return found


def run(cache, arch, image, initrd, log, *, cpus, memory, append, limit, accelerator):
    result = None
    for how in ["kvm", "tcg"]:
        if how == "kvm" and (arch != "amd64" or not (accelerator == "kvm" or (accelerator == "auto" and kvm_works()))):
            continue
        words = command(cache, arch, image, initrd, cpus, memory, append, how)
        text, cpu, seconds = boot(words, limit, log, expect_within=30 if how == "kvm" else None)
        result = Result(read(text), cpu, seconds, log)
        if how == "tcg" or "@plan" in text:
            break
    return result
