"""Medians of all rounds, as a table for the terminal or for docs/."""

import statistics

from . import results

HEAD = [
    "workload", "recorder", "us per op", "added", "of perf's", "CPU s per M events", "bytes per event",
    "lost", "resident MiB",
]
OTHER_HEAD = ["workload", "recorder", "added, of the other's", "quarter of rounds below", "above", "CPU, of the other's"]
STACKS_HEAD = ["workload", "recorder", "us per op", "added", "CPU s", "MB", "lost", "resident MiB"]
QUIET_HEAD = ["recorder", "% of one CPU", "wakeups per second", "resident MiB"]


def median(values):
    """The median, or None without values."""
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def text(value, digits=2):
    """A number as shown in the table."""
    return "" if value is None else f"{value:.{digits}f}"


def spread(values, digits=2):
    """The median of all rounds, with the minimum and the maximum if there are several."""
    values = [value for value in values if value is not None]
    if len(values) < 2:
        return text(median(values), digits)
    return f"{text(median(values), digits)} ({text(min(values), digits)}, {text(max(values), digits)})"


def all_added(traced, untraced):
    """How many microseconds an operation takes longer than untraced in the same round, for each round."""
    return [run.per_operation - bare.per_operation for run, bare in zip(traced, untraced)]


def added_in_rounds(traced, untraced):
    """The median of these."""
    return median(all_added(traced, untraced))


def per_million(outcomes):
    """Seconds of the recorder's CPU time for each million events, for each round in which they were counted."""
    return [outcome.cpu / 1e9 / (outcome.events / 1e6) for outcome in outcomes if outcome.events]


def rows_of_workload(name, runs):
    """One row per recorder of one workload."""
    of = {}
    for run in runs:
        if run.workload == name:
            of.setdefault(run.recorder, []).append(run)
    times = {recorder: spread(run.per_operation for run in found) for recorder, found in of.items()}
    added_by = {recorder: added_in_rounds(found, of.get("untraced", [])) for recorder, found in of.items()}
    perf_added = added_by.get("perf record")
    rows = []
    for recorder in sorted(of, key=list(order(runs)).index):
        outcomes = [run.outcome for run in of[recorder] if run.outcome]
        if not outcomes:
            rows.append([name, recorder, times[recorder]] + [""] * 6)
            continue
        added = added_by[recorder]
        share = added / perf_added if perf_added and added is not None else None
        lost = [o.lost for o in outcomes if o.lost is not None]
        rows.append([
            name, recorder, times[recorder], spread(all_added(of[recorder], of.get("untraced", []))), text(share),
            spread(per_million(outcomes), 3), spread([o.bytes / o.events for o in outcomes if o.events], 1),
            f"{sum(lost)}" if lost else "", spread([o.resident / (1 << 20) for o in outcomes], 0),
        ])
    return rows


def order(runs):
    """The recorders in a fixed order: untraced, perf, the others in the order in which they first ran."""
    names = dict.fromkeys(run.recorder for run in runs)
    first = [name for name in ("untraced", "perf record", "raw ftrace") if name in names]
    return dict.fromkeys(first + sorted(name for name in names if name not in first))


def quiet_rows(runs):
    """The resources that each recorder uses while the machine is idle."""
    rows = []
    for recorder in order(runs):
        found = [run for run in runs if run.workload == "quiet" and run.recorder == recorder and run.outcome]
        if found:
            rows.append([
                recorder,
                spread([100 * run.outcome.cpu_meanwhile / 1e9 / run.seconds for run in found], 3),
                spread([run.outcome.wakes / run.seconds for run in found], 1),
                spread([run.outcome.resident / (1 << 20) for run in found], 0),
            ])
    return rows


def other_rows(runs, names):
    """The cost of each recorder relative to the other fxtrec with the same source, in the same rounds."""
    rows = []
    for workload in names:
        of = {}
        for run in runs:
            if run.workload == workload:
                of.setdefault(run.recorder, []).append(run)
        bare = of.get("untraced", [])
        for name, others in of.items():
            mine = of.get(name.removeprefix("other "))
            if not name.startswith("other ") or not mine:
                continue
            added = [
                (one.per_operation - untraced.per_operation) / (other.per_operation - untraced.per_operation)
                for one, other, untraced in zip(mine, others, bare)
                if other.per_operation > untraced.per_operation
            ]
            cpu = [
                one.outcome.cpu / max(one.outcome.events, 1) / (other.outcome.cpu / max(other.outcome.events, 1))
                for one, other in zip(mine, others)
                if one.outcome and other.outcome
            ]
            share = added_in_rounds(mine, bare) / added_in_rounds(others, bare)
            low, _, high = statistics.quantiles(added, n=4) if len(added) > 1 else [None] * 3
            rows.append([workload, name.removeprefix("other "), text(share), text(low), text(high), text(median(cpu))])
    return rows


def rows_of_stacks(runs, names):
    """One row per recorder of each workload: recorders of stacks write different events, so CPU is that of a whole run."""
    rows = []
    for name in names:
        of = {}
        for run in runs:
            if run.workload == name:
                of.setdefault(run.recorder, []).append(run)
        for recorder, found in of.items():
            times = [run.per_operation for run in found]
            took = f"{median(times):.2f} ({min(times):.2f}, {max(times):.2f})"
            outcomes = [run.outcome for run in found if run.outcome]
            if not outcomes:
                rows.append([name, recorder, took] + [""] * 5)
                continue
            rows.append([
                name, recorder, took, spread(all_added(found, of.get("untraced", []))),
                spread([o.cpu / 1e9 for o in outcomes]), spread([o.bytes / 1e6 for o in outcomes], 0),
                f"{sum(o.lost for o in outcomes)}", spread([o.resident / (1 << 20) for o in outcomes], 0),
            ])
    return rows


def plain(head, rows):
    """Columns for a terminal."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows])


def markdown(head, rows):
    """A table for docs/."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def render(found, as_markdown):
    """The whole result, from the return value of `results.read`."""
    table = markdown if as_markdown else plain
    runs = found["runs"]
    names = list(dict.fromkeys(run.workload for run in runs if run.per_operation is not None))
    head = f"{results.line(found)}; medians of {found['rounds']} rounds (least, greatest), losses summed over them."
    if found["disturbed"]:
        head += "\n\nNOT ON A QUIET MACHINE: " + "; ".join(found["disturbed"]) + "."
    if found["of_stacks"]:
        return "\n\n".join([head, table(STACKS_HEAD, rows_of_stacks(runs, names))])
    rows = [row for name in names for row in rows_of_workload(name, runs)]
    parts = [head, table(HEAD, rows)]
    others = other_rows(runs, names)
    if others:
        parts += ["Beside another fxtrec:", table(OTHER_HEAD, others)]
    quiet = quiet_rows(runs)
    if quiet:
        parts += ["A quiet machine:", table(QUIET_HEAD, quiet)]
    return "\n\n".join(parts)
