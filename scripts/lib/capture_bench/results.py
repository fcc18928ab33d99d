"""Results of a benchmark as a file: every run of every round, with where and when it was measured. The tables of docs/ are generated from
such files (scripts/check-bench), so every figure there can be recomputed."""

import dataclasses
import datetime
import json
import pathlib
import platform
import subprocess

from .recorders import Outcome
from .rounds import Run


def about(programs):
    """The machine, the kernel, the date, and the versions of programs, by name."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cpus = sum(1 for line in pathlib.Path("/proc/stat").read_text().splitlines() if line[:3] == "cpu" and line[3:4].isdigit())
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{cpus} CPUs ({model}), {platform.machine()}",
        "kernel": platform.release(),
        "versions": {name: version(command) for name, command in programs.items()},
    }


def version(command):
    """The output of a program about itself, in a line."""
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().split("\n")[0]


def line(found):
    """One line about the machine and the programs."""
    parts = [found["machine"], f"Linux {found['kernel']}", *(text for text in found["versions"].values() if text)]
    return f"{found['date']}: {', '.join(parts)}"


def write(path, found):
    """Writes results, one run per line."""
    runs = [dataclasses.asdict(run) if dataclasses.is_dataclass(run) else run for run in found["runs"]]
    head = json.dumps({key: value for key, value in found.items() if key != "runs"}, indent=1)
    lines = ",\n".join("  " + json.dumps(run) for run in runs)
    pathlib.Path(path).write_text(f'{head[:-2]},\n "runs": [\n{lines}\n ]\n}}\n')


def read(path):
    """Reads results; those of recorders as runs."""
    found = json.loads(pathlib.Path(path).read_text())
    if found["bench"] == "capture":
        found["runs"] = [
            Run(**{**run, "outcome": run["outcome"] and Outcome(**run["outcome"])}) for run in found["runs"]
        ]
    return found
