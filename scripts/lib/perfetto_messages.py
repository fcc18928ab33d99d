"""Reads packets by the messages of Perfetto's Python package: perfetto_messages.py FILE

Prints for each source of stacks how many samples there are, and the sum of their weights. A field that the messages do not have is an
error.
"""

import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import StackSample, Trace


def refuse_unknown(message, where):
    """Ends the program if the message, or one inside it, has an undescribed field."""
    if len(UnknownFieldSet(message)):
        sys.exit(f"{where} has unknown fields")
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        many = isinstance(value, (list, tuple)) or hasattr(value, "append")
        for part in value if many else [value]:
            refuse_unknown(part, f"{where}.{field.name}")


def main():
    with open(sys.argv[1], "rb") as file:
        trace = Trace.FromString(file.read())
    refuse_unknown(trace, "the trace")
    sources, sums = {}, {}
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults.stack_sample_defaults
            if defaults.primary_descriptor.unit not in (StackSample.UNIT_NANOSECONDS, StackSample.UNIT_COUNT):
                sys.exit(f"{defaults.source} is neither in nanoseconds nor a number of samples")
            sources[sequence] = defaults.source
        if packet.HasField("stack_sample"):
            count, weight = sums.get(sources[sequence], (0, 0))
            sums[sources[sequence]] = (count + 1, weight + packet.stack_sample.primary_weight)
    # Sums may exceed the numbers of JSON.
    print(json.dumps({source: (count, str(weight)) for source, (count, weight) in sums.items()}))


main()
