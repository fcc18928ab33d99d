"""The programs that are recorded, and the time that each of their operations takes."""

import re
import subprocess
import time

QUIET_SECONDS = 3.0


class Workload:
    """A program that prints how long it took."""

    def __init__(self, name, what, command, operations, pattern, unit):
        self.name = name
        # One line for people.
        self.what = what
        self.command = command
        # How many operations one run does; none for an idle workload.
        self.operations = operations
        self.pattern = pattern
        # The number of microseconds in one unit of the program's output.
        self.unit = unit

    def run(self):
        """Runs it once; returns microseconds per operation."""
        done = subprocess.run(self.command, capture_output=True, text=True)
        found = re.search(self.pattern, done.stdout)
        if done.returncode or not found:
            raise RuntimeError(f"{' '.join(self.command)} failed:\n{done.stdout}{done.stderr}")
        return float(found[1]) * self.unit / self.operations


class Quiet(Workload):
    """An idle machine."""

    def __init__(self):
        super().__init__("quiet", f"nothing, for {QUIET_SECONDS:.0f} s", [], 0, "", 1)

    def run(self):
        time.sleep(QUIET_SECONDS)
        return None


def of_waits(storm):
    """Waits that are all too short to have a stack, and waits that are all long enough."""
    threads, sleeps = 38, 1500
    return [
        all_workloads(storm)[0],
        Workload(
            "long waits",
            f"{threads} threads that all sleep for 1.6 ms, over and over; one operation is a sleep",
            [storm, str(threads), str(sleeps), "1600"], threads * sleeps, r"([0-9]+) ns", 1e-3,
        ),
    ]


def all_workloads(storm):
    """Every workload; `storm` is the path of that program. About a second each on a slow machine."""
    seconds = r"Total time:\s+([0-9.]+) \[sec\]"
    pipe = ["perf", "bench", "sched", "pipe", "-l"]
    groups, loops = 4, 400
    threads, sleeps = 64, 3000
    return [
        Workload(
            "pipe, pinned",
            "perf bench sched pipe, both sides on CPU 0; one operation is a byte there and back",
            ["taskset", "-c", "0", *pipe, "200000"], 200000, seconds, 1e6,
        ),
        Workload(
            "pipe",
            "the same where the scheduler puts them",
            [*pipe, "100000"], 100000, seconds, 1e6,
        ),
        Workload(
            "messaging",
            f"perf bench sched messaging, {groups} groups of 40 processes; one operation is a message",
            ["perf", "bench", "sched", "messaging", "-g", str(groups), "-l", str(loops)],
            groups * 20 * 20 * loops, seconds, 1e6,
        ),
        Workload(
            "storm",
            f"{threads} threads that all sleep for 50 us by a timer, over and over; one operation is a sleep",
            [storm, str(threads), str(sleeps)], threads * sleeps, r"([0-9]+) ns", 1e-3,
        ),
        Quiet(),
    ]
