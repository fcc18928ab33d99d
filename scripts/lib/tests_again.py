#!/usr/bin/env python3
"""Distinguishes tests that failed because the machine was busy from tests that are broken.

Usage: tests_again.py OUTPUT

OUTPUT is the output of `cargo test --workspace --no-fail-fast`, both streams in one file. Exits with 0 if every failed test is one that
records the running machine (package fxtrec-tests, and the unit tests of fxtrec-kernel, which load programs into the kernel), if there are
at most three of them, and if each of them passes twice when it runs alone, in at most three runs. Any other failure, such as a failed build
or a crashed program, exits with 1.
"""

import os
import re
import subprocess
import sys

MOST = 3
PASSES = 2
TIMES = 3
# The folder in which each program runs, as under cargo.
OF_MACHINE = {"-p fxtrec-tests ": "tests", "-p fxtrec-kernel --lib ": "recorder/kernel"}


def failed(text):
    """The targets that failed, as arguments of cargo, with their programs, and the names of the tests, each counted in its own program."""
    heading = re.search(r"^error: (\d+) targets? failed:$", text, re.M)
    if not heading:
        sys.exit("the tests did not run to their end")
    targets = re.findall(r"^    `([^`]+)`$", text[heading.end() :], re.M)
    if len(targets) != int(heading[1]):
        sys.exit(f"{heading[1]} targets failed, {len(targets)} are named")
    # The second list of a program contains only the names.
    lists = re.findall(
        r"^failures:\n((?:    \S+\n)+)\ntest result: FAILED\. \d+ passed; (\d+) failed;", text, re.M
    )
    names = [name for listed, _ in lists for name in listed.split()]
    if len(lists) != len(targets) or len(names) != sum(int(count) for _, count in lists):
        sys.exit(f"{len(targets)} targets failed, {len(lists)} of them tell which tests: did one crash?")
    # Each program is named before its tests, and its target after them.
    programs, program = {}, None
    for running, target in re.findall(r"^     Running .* \((.+)\)$|to rerun pass `([^`]+)`$", text, re.M):
        program = running or program
        if target:
            programs[target] = program
    return {target: programs.get(target) for target in targets}, names


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if len(sys.argv) == 2 else 2)
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        targets, names = failed(file.read())
    others = [target for target in targets if not (target + " ").startswith(tuple(OF_MACHINE))]
    if others:
        sys.exit(f"these tests depend on no machine: {', '.join(others)}")
    if len(names) > MOST:
        sys.exit(f"{len(names)} tests failed: that is not by chance")
    passed = dict.fromkeys(names, 0)
    for attempt in range(TIMES):
        still = [name for name in names if passed[name] < PASSES]
        ran = []
        for target, program in targets.items() if still else []:
            # Cargo is not used for this, since it would rebuild the programs of one package with only that package's features.
            command = [os.path.abspath(program), "--exact", "--test-threads=1", *still]
            folder = next(folder for prefix, folder in OF_MACHINE.items() if (target + " ").startswith(prefix))
            print("+", *command, flush=True)
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
            print(done.stdout, end="", flush=True)
            results = dict(re.findall(r"^test (\S+) \.\.\. (ok|FAILED)$", done.stdout, re.M))
            if (done.returncode == 0) != ("FAILED" not in results.values()):
                sys.exit("it did not run to its end")
            ran += results
            for name, result in results.items():
                passed[name] += result == "ok"
        if sorted(ran) != sorted(still):
            sys.exit(f"of {len(still)} tests, {len(ran)} ran again")
    broken = [name for name in names if passed[name] < PASSES]
    if broken:
        sys.exit(f"they fail alone as well: {', '.join(broken)}")
    print(f"NOT RELIABLE: failed once, and passed {PASSES} times alone: {', '.join(names)}")


main()
