"""The recorders that are compared.

Each has `start`, which returns when it records, `stop`, which returns the result, and `abort`.
"""

import dataclasses
import mmap
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time

from .process import Process

EVENTS = ["sched_switch", "sched_wakeup", "sched_wakeup_new"]
INSTANCE = "fxtrec-bench-"
READER = pathlib.Path(__file__).resolve().parent.parent / "raw_ftrace.py"

# A recorder that has created its output may still have to start.
SETTLE_SECONDS = 0.4


@dataclasses.dataclass
class Outcome:
    """The result of one recording."""

    # None if only the recorder's own tools can count it.
    events: int | None
    lost: int | None
    # The size of the output.
    bytes: int
    # Nanoseconds of CPU time since the workload began, including the end of the recording.
    cpu: int
    # The same without the end of the recording.
    cpu_meanwhile: int
    # Peak resident bytes.
    resident: int
    # Sleeps and preemptions of the recorder's threads while the workload ran.
    wakes: int


class Recorder:
    """Shared by all recorders: processes, and their use of the machine."""

    def __init__(self, name, scratch):
        self.name = name
        self.scratch = scratch
        self.processes = []
        self.before = (0, 0)

    def launch(self):
        """Starts the processes."""

    def outputs(self):
        """The files that exist once it records."""
        return []

    def count(self):
        """Events written and events lost."""
        raise NotImplementedError

    def stop_producing(self):
        """Actions that are necessary before the processes are interrupted."""

    def clean_up(self):
        """Removes everything that it created."""
        for path in self.outputs():
            path.unlink(missing_ok=True)

    def start(self):
        self.processes = []
        self.launch()
        deadline = time.monotonic() + 20.0
        while not all(path.exists() for path in self.outputs()):
            ended = [process for process in self.processes if not process.is_running()]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not record: {self.why()}")
            time.sleep(0.01)
        time.sleep(SETTLE_SECONDS)
        self.before = self.use()

    def why(self):
        """Its message about a failure."""
        return "see above"

    def use(self):
        """CPU time and wakeups of its processes so far."""
        alive = [process for process in self.processes if process.is_running()]
        if len(alive) < len(self.processes):
            raise RuntimeError(f"{self.name} ended before it was told to: {self.why()}")
        return sum(p.cpu() for p in alive), sum(p.wakes() for p in alive)

    def stop(self):
        cpu_before, wakes_before = self.before
        cpu_meanwhile, wakes = self.use()
        resident = sum(process.resident() for process in self.processes)
        self.stop_producing()
        for process in self.processes:
            process.interrupt()
        cpu = sum(process.wait() for process in self.processes) - cpu_before
        size = sum(path.stat().st_size for path in self.outputs())
        events, lost = self.count()
        self.clean_up()
        meanwhile = (cpu_meanwhile - cpu_before, resident, wakes - wakes_before)
        return Outcome(events, lost, size, cpu, *meanwhile)

    def abort(self):
        """Ends it and removes everything that it created, whatever its state."""
        for process in self.processes:
            process.kill()
        self.clean_up()


class Nothing(Recorder):
    """No recorder: measures the workload alone."""

    def __init__(self, scratch):
        super().__init__("untraced", scratch)

    def start(self):
        pass

    def stop(self):
        return None


class Perf(Recorder):
    """perf record with its defaults, which include a pass over the whole file at the end."""

    def __init__(self, scratch):
        super().__init__("perf record", scratch)
        self.path = scratch / "perf.data"

    def launch(self):
        events = ",".join(f"sched:{event}" for event in EVENTS)
        # Without -N it would leave files in ~/.debug.
        command = ["perf", "record", "-a", "-N", "-q", "-e", events, "-o", str(self.path)]
        self.processes = [Process(command)]

    def outputs(self):
        return [self.path]

    def count(self):
        return count_perf_data(self.path)


class Tracebox(Recorder):
    """Perfetto's recorder, with its own services: the same events through ftrace, written to the file as they arrive."""

    def __init__(self, scratch):
        super().__init__("tracebox", scratch)
        self.path = scratch / "trace.perfetto-trace"
        self.config = scratch / "tracebox.pbtx"

    def command(self):
        return ["tracebox", "--txt", "-c", str(self.config), "-o", str(self.path)]

    def launch(self):
        events = "\n".join(f'ftrace_events: "sched/{event}"' for event in EVENTS)
        self.config.write_text(
            "buffers { size_kb: 65536 fill_policy: RING_BUFFER }\n"
            "write_into_file: true\nfile_write_period_ms: 500\nduration_ms: 300000\n"
            f'data_sources {{ config {{ name: "linux.ftrace" ftrace_config {{\n{events}\n}} }} }}\n'
        )
        self.processes = [Process(self.command())]

    def outputs(self):
        return [self.path]

    def clean_up(self):
        super().clean_up()
        self.config.unlink(missing_ok=True)

    def count(self):
        # Only trace_processor can count them.
        return None, None


class Wprof(Recorder):
    """wprof, which records more than switches and wakeups."""

    def __init__(self, scratch):
        super().__init__("wprof", scratch)
        self.path = scratch / "wprof.data"

    def command(self):
        # The time limit in milliseconds applies if the benchmark is no longer there to end it.
        return ["wprof", "-d300000", "-D", str(self.path)]

    def launch(self):
        self.processes = [Process(self.command())]

    def outputs(self):
        return [self.path]

    def count(self):
        return None, None


def installed(scratch):
    """Other recorders of the scheduler that are in PATH."""
    return [one for one in [Tracebox(scratch), Wprof(scratch)] if shutil.which(one.name)]


def count_perf_data(path):
    """Numbers of samples and lost samples in a perf.data file."""
    sample, lost_record = 9, 2
    header = struct.Struct("<IHH")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # struct perf_file_header: magic, size, attr_size, attrs, then offset and size of the data.
        start, size = struct.unpack_from("<QQ", data, 40)
        at, end, samples, lost = start, start + size, 0, 0
        while at + header.size <= end:
            kind, _, length = header.unpack_from(data, at)
            if kind == sample:
                samples += 1
            elif kind == lost_record:
                lost += struct.unpack_from("<Q", data, at + 16)[0]
            at += max(length, header.size)
    return samples, lost


class PerfStacks(Perf):
    """perf record of switches alone, with call chains by frame pointers."""

    def __init__(self, scratch):
        super().__init__(scratch)
        self.name = "perf record -g"

    def launch(self):
        command = ["perf", "record", "-a", "-N", "-q", "-g", "-e", "sched:sched_switch", "-o", str(self.path)]
        self.processes = [Process(command)]


class RawFtrace(Recorder):
    """The pages of a separate tracing instance, moved to one file per CPU without being parsed."""

    def __init__(self, scratch, tracefs):
        super().__init__("raw ftrace", scratch)
        self.instances = tracefs / "instances"
        self.instance = self.instances / f"{INSTANCE}{os.getpid()}"
        self.cpus = sorted(os.sched_getaffinity(0))

    def write(self, name, text):
        (self.instance / name).write_text(text)

    def launch(self):
        self.instance.mkdir()
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", "8192")
        self.write("buffer_percent", "25")
        for cpu, path in zip(self.cpus, self.outputs()):
            source = self.instance / f"per_cpu/cpu{cpu}/trace_pipe_raw"
            self.processes.append(Process([sys.executable, str(READER), str(source), str(path)]))
        for event in EVENTS:
            self.write(f"events/sched/{event}/enable", "1")

    def outputs(self):
        return [self.scratch / f"cpu{cpu}.raw" for cpu in self.cpus]

    def stop_producing(self):
        for event in EVENTS:
            self.write(f"events/sched/{event}/enable", "0")

    def count(self):
        read, lost = 0, 0
        for cpu in self.cpus:
            stats = (self.instance / f"per_cpu/cpu{cpu}/stats").read_text()
            figures = dict(re.findall(r"^([^:]+): (\d+)$", stats, re.MULTILINE))
            read += int(figures["read events"]) + int(figures["entries"])
            lost += int(figures["overrun"]) + int(figures["dropped events"])
        return read, lost

    def clean_up(self):
        super().clean_up()
        if self.instance.exists():
            self.instance.rmdir()


def remove_stale_instances(tracefs):
    """Removes the files that killed benchmarks have left behind."""
    for left in (tracefs / "instances").glob(f"{INSTANCE}*"):
        if not pathlib.Path("/proc", left.name.removeprefix(INSTANCE)).exists():
            left.rmdir()


class Fxtrec(Recorder):
    """fxtrec, with one of its sources and one kind of output; or armed, when it keeps the last events and writes nothing before the end."""

    # Nothing in a benchmark waits that long for a CPU.
    ARMED = ["--mode", "circular", "--trigger", "wakeup > 1s"]

    def __init__(self, scratch, binary, source, suffix, armed=False, other=False):
        packed = ", .zst" if suffix.endswith(".zst") else ""
        super().__init__(f"{'other ' * other}fxtrec {source or 'perf'}{packed}{', armed' if armed else ''}", scratch)
        self.path = scratch / f"trace{suffix}"
        self.said = scratch / "said"
        options = [*(["--source", source] if source else []), *(self.ARMED if armed else [])]
        self.binary = str(binary)
        # The time limit applies if the benchmark is no longer there to end it. The report that otherwise follows is not part of the
        # recording.
        self.command = [self.binary, "-a", "-d", "300s", "--no-summary", *options, "-o", str(self.path)]

    def launch(self):
        with open(self.said, "w") as said:
            self.processes = [Process(self.command, errors=said)]

    def outputs(self):
        return [self.path]

    def why(self):
        return self.said.read_text().strip()

    def clean_up(self):
        super().clean_up()
        self.said.unlink(missing_ok=True)

    def count(self):
        dump = [self.binary, "dump", "--type", "event", str(self.path)]
        events = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
        ending = next((line for line in reversed(events.splitlines()) if '"trace_stats"' in line), "")
        figures = {name: int(number) for name, number in re.findall(r" (\w+)=(\d+)", ending)}
        recorded = sum(figures.get(name, 0) for name in ["switches", "wakeups", "spurious_wakeups"])
        if not recorded:
            raise RuntimeError(f"{self.name} recorded nothing: {self.why()}")
        return recorded, figures["lost"]


class FxtrecStacks(Fxtrec):
    """fxtrec with stacks of waits of at least a millisecond, and the names of their functions."""

    def __init__(self, scratch, binary, source, options):
        super().__init__(scratch, binary, source, ".fxt")
        self.name = f"fxtrec {source} {' '.join(options)}"
        self.command[-2:-2] = [*options, "--stacks-over", "1ms"]

    def count(self):
        events, lost = super().count()
        dump = [self.binary, "dump", "--type", "event", str(self.path)]
        told = re.findall(r'"stack_stats".* lost=(\d+)', subprocess.run(dump, check=True, capture_output=True, text=True).stdout)
        return events, lost + int(told[-1])


def fxtrec_sources(binary):
    """The sources that this fxtrec supports and this machine allows; one without a name if there is no choice."""
    usage = subprocess.run([binary, "record", "--help"], capture_output=True, text=True).stdout
    if "--source" not in usage:
        return [None]
    tries = {
        source: subprocess.run(
            [binary, "-a", "-d", "100ms", "-q", "--source", source, "-o", "/dev/null"],
            capture_output=True, text=True,
        )
        for source in ["perf", "bpf", "ftrace"]
    }
    for source, tried in tries.items():
        if tried.returncode:
            print(f"not measured: --source {source}: {tried.stderr.strip()}")
    return [source for source, tried in tries.items() if tried.returncode == 0]
