"""The output of fxt-writer's example `every_record`, as the PyPI package `fxt` reads it.

Each field of each record is compared, with the type of its value.
"""

import enum

THREAD = "Thread(process_id=100, thread_id=101)"
ARGS = {
    "null": None,
    "int32": -(2**31),
    "uint32": 2**32 - 1,
    "int64": -(2**63),
    "uint64": 2**64 - 1,
    "double": -1.5,
    "string": "text",
    "pointer": 0xDEADBEEF0000,
    "koid": 101,
    "bool": True,
}
FIELDS = {
    "category": "category",
    "name": "name",
    "message": "a message",
    "args": ARGS,
    "payload": b"not whole words",
    "counter_id": 2**64 - 1,
    "correlation_id": 2**64 - 1,
    "pointer": ARGS["pointer"],
    "process_id": 100,
    "cpu_id": 1,
    "outgoing_thread_id": 101,
    "outgoing_thread_state": 3,
    "incoming_thread_id": 102,
    "waking_thread_id": 101,
}
# Nanoseconds per tick, by provider.
TICK_NS = {"every_record": 1, "second provider": 1_000_000}
# The properties that distinguish records of one class of the package; each sequence has one record of every other class.
SEVERAL = {
    "BlobRecord": [{"type": 1}, {"type": 2}, {"type": 3}],
    "KernelObjectRecord": [{"type": 1, "id": 100}, {"type": 2, "id": 101}],
}
# How many sequences of records each provider has.
SEQUENCES = {"every_record": 2, "second provider": 1}


def differences(providers):
    """Differences from the written records, one line each."""
    found = []
    names = [provider.name for provider in providers]
    if names != list(TICK_NS):
        found.append(f"providers {names}")
    for provider in providers:
        seen = {}
        for record in provider.records:
            title = type(record).__name__
            number = seen[title] = seen.get(title, 0) + 1
            own = SEVERAL.get(title, [{}])
            tick = TICK_NS.get(provider.name, 0)
            # The package's duration is the end time in the specification.
            expected = {
                **FIELDS,
                "timestamp_ns": 100 * tick,
                "duration_ns": 200 * tick,
                **own[(number - 1) % len(own)],
            }
            for field in record.__slots__:
                value = getattr(record, field)
                if isinstance(value, enum.IntEnum):
                    value = int(value)
                wanted = THREAD if field == "thread" else repr(expected.get(field))
                if repr(value) != wanted:
                    found.append(f"{provider.name}, {title}: {field} is {value!r}, not {wanted}")
        for title, number in seen.items():
            wanted = SEQUENCES.get(provider.name, 0) * len(SEVERAL.get(title, [{}]))
            if number != wanted:
                found.append(f"{provider.name}: {title} is there {number} times, not {wanted}")
    return found
