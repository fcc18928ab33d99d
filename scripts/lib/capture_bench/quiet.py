"""Whether the machine was quiet while it was measured."""

import os
import pathlib
import resource
import statistics

# Limits for parts of the machine's CPU time: the share of other programs in the median of the runs and in any of them, and the share of the
# host.
OTHERS, OTHERS_ONCE, STEAL = 0.02, 0.10, 0.01

# The maximum spread of the untraced runs of a pinned workload, as a part of their median.
SPREAD = 0.15

TICK = os.sysconf("SC_CLK_TCK")


class Watch:
    """Measures the use of the CPUs from now on."""

    def __init__(self):
        self.begun = self._now()

    @staticmethod
    def _now():
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        user, nice, system, idle, iowait, irq, softirq, steal = fields[:8]
        busy = user + nice + system + irq + softirq
        own = sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, [resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN])
        )
        return busy / TICK, steal / TICK, (busy + idle + iowait + steal) / TICK, own

    def shares(self):
        """Which parts of the CPUs' time went to other programs than the benchmark, and to the host's other guests. Only processes that the
        benchmark has waited for count as its own, so all of them must have ended."""
        busy, steal, passed, own = (after - before for after, before in zip(self._now(), self.begun))
        passed = max(passed, 1 / TICK)
        return max(busy - own, 0) / passed, steal / passed


def disturbances(runs):
    """The parts that were not quiet, in lines for people."""
    found = []
    others = [run.others for run in runs]
    if statistics.median(others) > OTHERS:
        found.append(f"other processes took {statistics.median(others):.1%} of the CPUs' time in the median of all runs (limit: {OTHERS:.0%})")
    if max(others) > OTHERS_ONCE:
        worst = max(runs, key=lambda run: run.others)
        found.append(
            f"other processes took {worst.others:.1%} while {worst.recorder} recorded {worst.workload} (limit: {OTHERS_ONCE:.0%})"
        )
    steal = statistics.mean(run.steal for run in runs)
    if steal > STEAL:
        found.append(f"the host took {steal:.1%} of the CPUs' time for others (limit: {STEAL:.0%})")
    for workload in dict.fromkeys(run.workload for run in runs if "pinned" in run.workload):
        times = [run.per_operation for run in runs if run.workload == workload and run.recorder == "untraced"]
        spread = (max(times) - min(times)) / statistics.median(times) if times else 0
        if spread > SPREAD:
            found.append(f"untraced runs of {workload} are {spread:.0%} of their median apart (limit: {SPREAD:.0%})")
    return found
