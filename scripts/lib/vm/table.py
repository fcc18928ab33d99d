"""The results of the guests: the known refusals, the data that is kept of each run, and the table of all."""

import fnmatch
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent

# Columns of the table, each with its checks; a check belongs to the first column that matches.
GROUPS = [
    ("choice of source", "doctor fallback limits without-*"),
    ("`bpf`", "*-bpf wakers closing locks migrations"),
    ("`perf`", "*-perf"),
    ("`ftrace`", "*-ftrace"),
    ("threads", "states pid-reuse brief-threads running-process"),
    ("stacks, why", "stacks why-*"),
    ("probes and events", "probe* usdt tracepoint syscalls interrupts"),
    ("trigger, provider", "trigger provider"),
    ("engine", "engine"),
    ("cgroups", "quota-* cgroups cgroup-scope"),
    ("rights", "capabilities paranoid-*"),
    ("suspend", "suspend"),
    ("kernel log", "kernel-log"),
]
KERNEL_LOG = "kernel-log"


def known_refusals():
    """From the file `refusals`: kernel, check, text, each a regular expression, and the kernel's reason."""
    rules = []
    for line in (HERE / "refusals").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            kernel, check, text, why = (part.strip() for part in line.split("|"))
            rules.append((re.compile(kernel), re.compile(check), re.compile(text), why))
    return rules


def judge(kernel, checks):
    """Turns unexplained refusals into failures, and explained warnings of the kernel into known ones. Returns the explanations, by
    check."""
    explained = {}
    rules = known_refusals()
    for check in checks:
        is_warning = check.name == KERNEL_LOG and check.status == "FAILED"
        if check.status != "refused" and not is_warning:
            continue
        for of_kernel, of_check, text, why in rules:
            # A known warning must not hide an unknown one.
            fits = text.fullmatch(check.why.strip()) if is_warning else text.search(check.why)
            if fits and of_kernel.fullmatch(kernel) and of_check.fullmatch(check.name):
                explained[check.name] = why
                check.status = "known" if is_warning else check.status
                break
        else:
            if is_warning:
                continue
            check.status = "FAILED"
            check.why = f"refused, which is not expected here: {check.why}"
    return explained


class Results:
    """For each check in each guest the last result, over all runs."""

    def __init__(self, file):
        self.file = file
        self.read()

    def read(self):
        self.kernels = json.loads(self.file.read_text()) if self.file.exists() else {}

    def add(self, kernel, release, date, result, explained):
        # Another run may have added results in the meantime.
        self.read()
        row = self.kernels.setdefault(kernel, {})
        if row.get("release") != release:
            # The results of another kernel.
            row["checks"] = {}
        row.update(release=release, date=date)
        is_shorter = not set(row["checks"]) <= {check.name for check in result.checks}
        for check in result.checks:
            # A run with fewer checks does not remove the kernel's earlier warnings.
            if check.name == KERNEL_LOG and check.status == "ok" and is_shorter and KERNEL_LOG in row["checks"]:
                continue
            kept = {"status": check.status, "date": date, "why": explained.get(check.name, check.why)}
            row["checks"][check.name] = kept
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.kernels, indent=1))
        new.rename(self.file)

    def markdown(self, order):
        """A row for each kernel that was booted, those of `order` first, and a column for each group of checks."""
        kernels = [kernel for kernel in order if kernel in self.kernels]
        kernels += sorted(kernel for kernel in self.kernels if kernel not in order)
        lines = ["| kernel | last run | " + " | ".join(name for name, _ in GROUPS) + " |"]
        lines.append("| --- |" + " --- |" * (len(GROUPS) + 1))
        notes = []
        for kernel in kernels:
            row = self.kernels[kernel]
            cells = [f"{kernel} ({row['release']})", row["date"]]
            of_group = {name: [] for name, _ in GROUPS}
            for check, found in row["checks"].items():
                of_group[group(check)].append((check, found))
            cells += [cell(found, notes) for found in of_group.values()]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
        lines += [f"{number}. {why}" for number, why in enumerate(notes, 1)]
        return "\n".join(lines).rstrip() + "\n"


def group(check):
    names = [name for name, patterns in GROUPS if any(fnmatch.fnmatch(check, it) for it in patterns.split())]
    return names[0]


def cell(found, notes):
    """How many checks passed, and which were refused or failed."""
    passed = sum(result["status"] == "ok" for _, result in found)
    parts = [f"{passed} ok"] if passed else []
    refused = {}
    for check, result in found:
        if result["status"] in ("refused", "known"):
            if result["why"] not in notes:
                notes.append(result["why"])
            refused.setdefault((result["status"], notes.index(result["why"]) + 1), []).append(check)
        elif result["status"] == "FAILED":
            parts.append(f"**{check} failed**")
    parts += [f"{len(checks)} {status} ({number})" for (status, number), checks in refused.items()]
    return ", ".join(parts)
