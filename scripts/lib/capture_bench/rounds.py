"""Runs every workload under every recorder, alternating, so that disturbances of the machine affect all alike."""

import dataclasses
import sys
import time

from .quiet import Watch
from .recorders import Outcome
from .workloads import Quiet


@dataclasses.dataclass
class Run:
    """One workload under one recorder."""

    workload: str
    recorder: str
    # Microseconds per operation; None if there is no operation.
    per_operation: float | None
    # Seconds that the workload took.
    seconds: float
    outcome: Outcome | None
    # Parts of the CPUs' time that other programs and the host took during the run.
    others: float = 0
    steal: float = 0


def run_once(workload, recorder):
    """One run; leaves nothing behind, however it ends."""
    watch = Watch()
    try:
        recorder.start()
        begun = time.monotonic()
        per_operation = workload.run()
        seconds = time.monotonic() - begun
        outcome = recorder.stop()
    except BaseException:
        recorder.abort()
        raise
    return Run(workload.name, recorder.name, per_operation, seconds, outcome, *watch.shares())


def run_all(workloads, recorders, rounds, quiet_rounds, seconds):
    """All runs of at most this many rounds, as many as `seconds` probably allow. Returns them, and the number of rounds. The order of the
    recorders rotates by one from round to round.
    """
    runs = []
    begun = time.monotonic()
    for number in range(rounds):
        shifted = recorders[number % len(recorders):] + recorders[:number % len(recorders)]
        for workload in workloads:
            if isinstance(workload, Quiet) and number >= quiet_rounds:
                continue
            for recorder in shifted:
                if isinstance(workload, Quiet) and recorder.name == "untraced":
                    continue
                runs.append(run_once(workload, recorder))
        passed = time.monotonic() - begun
        print(f"round {number + 1} of {rounds} done after {passed:.0f} s", file=sys.stderr)
        if passed * (number + 2) / (number + 1) > seconds:
            break
    return runs, number + 1
