#!/usr/bin/env python3
"""Runs a test program, names its tests that take longer than two minutes, and ends it when one takes longer than five.

Usage: watch_tests.py PROGRAM [ARGUMENT...]

Cargo starts test programs through it (`CARGO_TARGET_<TRIPLE>_RUNNER`); other programs are run unchanged. libtest reports when a test has
been running for over 60 seconds; a minute later this names it again, and three minutes after that it lists the program's threads and kills
its process group: the exit status is 101, as if the test had failed. That includes the time in which a test waits for its turn to record
the machine. If tests run one after the other, libtest names each before it begins.
"""

import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import time

LIMIT = float(os.environ.get("FXTREC_TEST_LIMIT", "300"))
SAID_AFTER = min(120.0, LIMIT)
# How long libtest waits before it names a slow test.
NAMED_AFTER = 60.0
SLOW = re.compile(rb"^test (\S+)(?: - .*)? has been running for over 60 seconds")
DONE = re.compile(rb"^test (\S+)(?: - .*)? \.\.\. (?:ok|FAILED|ignored)")
BEGUN = re.compile(rb"^test (\S+)(?: - .*)? \.\.\. $")


class Watch:
    """Which tests have been running for long, according to libtest's output."""

    def __init__(self):
        self.deadlines = {}
        self.said = set()
        self.line = b""

    def take(self, output, now):
        """Parses a piece of output about tests."""
        lines = (self.line + output).split(b"\n")
        self.line = lines.pop()
        for line in lines:
            if slow := SLOW.match(line):
                self.deadlines.setdefault(slow[1], now + LIMIT - NAMED_AFTER)
            elif done := DONE.match(line):
                self.deadlines.pop(done[1], None)
        if begun := BEGUN.match(self.line):
            self.deadlines.setdefault(begun[1], now + LIMIT)

    def long(self, now):
        """The tests that have now been running for longer than two minutes."""
        long = {name for name, deadline in self.deadlines.items() if deadline - LIMIT + SAID_AFTER <= now} - self.said
        self.said |= long
        return [name.decode(errors="replace") for name in long]

    def late(self, now):
        """The tests whose time limit has passed."""
        return [name.decode(errors="replace") for name, deadline in self.deadlines.items() if deadline <= now]


def threads_of(process):
    """The threads of a process: name, state, the kernel function in which it sleeps."""
    for task in sorted(pathlib.Path(f"/proc/{process}/task").iterdir()):
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            yield f"{(task / 'comm').read_text().strip()}: {state} {(task / 'wchan').read_text()}"
        except OSError:
            continue


def watched(command):
    """Runs the command with its output passed on, and returns its exit status."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.killpg(child.pid, number))
    watch = Watch()
    selector = selectors.DefaultSelector()
    selector.register(child.stdout, selectors.EVENT_READ)
    while True:
        ready = selector.select(1.0)
        now = time.monotonic()
        if ready:
            output = os.read(child.stdout.fileno(), 1 << 16)
            if not output:
                break
            sys.stdout.buffer.write(output)
            sys.stdout.buffer.flush()
            watch.take(output, now)
        if long := watch.long(now):
            print(f"\nwatch_tests: longer than {SAID_AFTER:.0f} s so far: {', '.join(long)}", flush=True)
        if late := watch.late(now):
            print(f"\nwatch_tests: ended after more than {LIMIT:.0f} s: {', '.join(late)}", flush=True)
            print("threads:", *threads_of(child.pid), sep="\n    ", flush=True)
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return 101
    status = child.wait()
    return status if status >= 0 else 128 - status


def main():
    command = sys.argv[1:]
    if not command or command[0] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if command else 2)
    # Programs that tests start, and those of `cargo run`, keep their terminal and their signals.
    if pathlib.Path(command[0]).parent.name != "deps":
        os.execvp(command[0], command)
    sys.exit(watched(command))


if __name__ == "__main__":
    main()
