"""What the guests found: one table, and which refusals are known."""

import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent


def known_refusals():
    """Of the file `refusals`: kernel, check, text, each a regular expression, and why the kernel does so."""
    rules = []
    for line in (HERE / "refusals").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            kernel, check, text, why = (part.strip() for part in line.split("|"))
            rules.append((re.compile(kernel), re.compile(check), re.compile(text), why))
    return rules


def judge(kernel, checks):
    """Turns refusals that nobody explained into failures. Returns the explanations of the others, by check."""
    explained = {}
    rules = known_refusals()
    for check in checks:
        if check.status != "refused":
            continue
        for of_kernel, of_check, text, why in rules:
            if of_kernel.fullmatch(kernel) and of_check.fullmatch(check.name) and text.search(check.why):
                explained[check.name] = why
                break
        else:
            check.status = "FAILED"
            check.why = f"refused, which is not expected here: {check.why}"
    return explained


def markdown(rows):
    """`rows`: (kernel, release, cpus, result, explanations). One line for each check, one column for each kernel."""
    names = []
    for _, _, _, result, _ in rows:
        names += [check.name for check in result.checks if check.name not in names]
    lines = ["| check | " + " | ".join(kernel for kernel, *_ in rows) + " |"]
    lines.append("| --- |" + " --- |" * len(rows))
    notes = []
    lines.append("| release | " + " | ".join(release for _, release, *_ in rows) + " |")
    lines.append("| CPUs, CPU seconds | " + " | ".join(f"{c}, {r.cpu_seconds:.0f}" for _, _, c, r, _ in rows) + " |")
    for name in names:
        cells = []
        for _, _, _, result, explained in rows:
            check = next((check for check in result.checks if check.name == name), None)
            if check is None:
                cells.append("")
            elif check.status == "refused":
                why = explained[name]
                if why not in notes:
                    notes.append(why)
                cells.append(f"refused ({notes.index(why) + 1})")
            else:
                cells.append(check.status)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append("")
    lines += [f"{number}. {why}" for number, why in enumerate(notes, 1)]
    return "\n".join(lines).rstrip() + "\n"
