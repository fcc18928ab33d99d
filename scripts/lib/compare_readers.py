"""Counts the records of traces with the PyPI package `fxt` and compares with fxtrec.

Run by scripts/check-trace, which provides the package and FXTREC.
"""

import collections
import io
import json
import os
import subprocess
import sys
import zlib

import every_record
from fxt import reader

# The package's and fxtrec's names of records.
NAMES = {
    "InstantEventRecord": "instant",
    "CounterEventRecord": "counter",
    "DurationBeginEventRecord": "duration_begin",
    "DurationEndEventRecord": "duration_end",
    "DurationCompleteEventRecord": "duration_complete",
    "AsyncBeginEventRecord": "async_begin",
    "AsyncInstantEventRecord": "async_instant",
    "AsyncEndEventRecord": "async_end",
    "FlowBeginEventRecord": "flow_begin",
    "FlowStepEventRecord": "flow_step",
    "FlowEndEventRecord": "flow_end",
    "BlobRecord": "blob",
    "UserspaceObjectRecord": "userspace_object",
    "KernelObjectRecord": "kernel_object",
    "ContextSwitchRecord": "context_switch",
    "ThreadWakeupRecord": "wakeup",
    "LogRecord": "log",
    "LargeBlobWithMetadataRecord": "large_blob",
    "LargeBlobNoMetadataRecord": "large_blob",
}
COMPARED = set(NAMES.values()) | {"provider_info", "provider_event"}
# Records that the package rejects, together with the rest of the file.
REFUSED = {"legacy_context_switch", "unknown"}

# Types of records.
PROFILER = 10
LARGE = 15

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Disagreement(Exception):
    """The error in a file that does not pass."""


def plain(path):
    """The bytes of the trace in `path`; for a truncated compressed file, the bytes before the cut."""
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith(GZIP_MAGIC):
        parts = []
        while data.startswith(GZIP_MAGIC):
            member = zlib.decompressobj(wbits=31)
            parts.append(member.decompress(data))
            data = member.unused_data
        return b"".join(parts)
    if data.startswith(ZSTD_MAGIC):
        import zstandard

        stream = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        return b"".join(iter(lambda: stream.read(1 << 20), b""))
    return data


def without_profiler(trace):
    """The trace without profiler records, which the package does not support: it stops there. They are among the records that fxtrec writes
    by default."""
    kept, at, since = [], 0, 0
    while at + 8 <= len(trace):
        header = int.from_bytes(trace[at : at + 8], "little")
        kind = header & 0xF
        words = header >> 4 & (0xFFFFFFFF if kind == LARGE else 0xFFF)
        end = at + 8 * words
        if words == 0 or end > len(trace):
            break
        if kind == PROFILER:
            kept.append(trace[since:at])
            since = end
        at = end
    kept.append(trace[since:])
    return b"".join(kept)


def count_with_package(trace):
    """Records by fxtrec's name, whether the last record was truncated, and the providers."""
    # The package treats a last piece of less than a word as an error.
    whole_words = trace[: len(trace) - len(trace) % 8]
    result = reader.parse_records(io.BytesIO(whole_words))
    counts = collections.Counter()
    providers = list(result.records_by_provider.values())
    for provider in providers:
        counts["provider_info"] += 1
        counts["provider_event"] += len(provider.events)
        for record in provider.records:
            counts[NAMES[type(record).__name__]] += 1
    return +counts, result.had_unexpected_eof, providers


def count_with_fxtrec(path):
    """The output of `fxtrec dump --stats --json`."""
    command = [os.environ["FXTREC"], "dump", "--stats", "--json", "--", path]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise Disagreement(f"fxtrec cannot read it: {result.stderr.strip()}")
    return json.loads(result.stdout)


def compare(path, every=False):
    """Compares one file, with `every` also with its known content; returns a line about the matching records."""
    stats = count_with_fxtrec(path)
    ours = {name: row["records"] for name, row in stats["types"].items()}
    refused = sorted(REFUSED & ours.keys())
    if refused:
        raise Disagreement(f"cannot be compared: the Python reader refuses {', '.join(refused)}")
    if stats["damaged_regions"]:
        raise Disagreement(f"fxtrec finds it damaged in {stats['damaged_regions']} places")
    try:
        theirs, cut_short, providers = count_with_package(without_profiler(plain(path)))
    except Exception as error:
        raise Disagreement(f"the Python reader fails: {error}") from error

    differences = [
        f"{name}: fxtrec counts {ours.get(name, 0)}, the Python reader {theirs.get(name, 0)}"
        for name in sorted(COMPARED)
        if ours.get(name, 0) != theirs.get(name, 0)
    ]
    if cut_short != (stats["truncated_tail"] >= 8):
        differences.append(
            f"fxtrec sees a last piece of {stats['truncated_tail']} bytes, "
            f"the Python reader sees {'one' if cut_short else 'none'}"
        )
    if every:
        differences += [f"{name}: is missing" for name in sorted(COMPARED - ours.keys())]
        differences += every_record.differences(providers)
    if differences:
        raise Disagreement("\n  ".join(["the readers disagree", *differences]))

    agreed = {name: count for name, count in ours.items() if name in COMPARED}
    rest = {name: count for name, count in ours.items() if name not in COMPARED}
    line = f"{sum(agreed.values())} records agree: " + listed(agreed)
    if rest:
        line += f"\n  not counted by the Python reader: {listed(rest)}"
    if cut_short:
        line += "\n  both see that the last record is cut short"
    return line


def listed(counts):
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def main(paths):
    failed = 0
    every = paths[0] == "--every-record"
    for path in paths[1:] if every else paths:
        try:
            print(f"{path}: {compare(path, every)}")
        except (Disagreement, OSError) as error:
            failed += 1
            print(f"{path}: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
