"""Writes a Perfetto trace as tracebox records a busy machine: perfetto_trace.py EVENTS FILE

Eight CPUs have switches and wakeups in compact bundles, and one event in four is a line that a program prints. Each CPU's bundles of a
tenth of a second are written together, so events of eight CPUs are as far out of order as in traces of tracebox.
"""

import sys

CPUS, THREADS = 8, 50
ROUND_NS = 12_000
# Two rounds: each has a wakeup and two switches, and prints the beginning or the end of a span.
EVENTS_OF_TWO = 8
ROUNDS, BUNDLES = 256, 32

INTERRUPT = 0x10


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, content):
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


class Cpu:
    """The common parts of all bundles of a CPU: everything except the times at which they begin."""

    def __init__(self, cpu):
        self.cpu = number(1, cpu)
        names = b"".join(field(5, name) for name in [b"swapper"] + [f"worker-{cpu}-{n}".encode() for n in range(THREADS)])
        tids = [1000 + cpu * 100 + n % THREADS for n in range(ROUNDS)]
        pack = lambda values: b"".join(map(varint, values))
        # Woken at 0 by an interrupt; has the CPU from 2 to 10 microseconds.
        self.switch_times = pack([8000] + [ROUND_NS - 8000, 8000] * (ROUNDS - 1))
        self.wake_times = pack([ROUND_NS] * (ROUNDS - 1))
        switches = zip(tids, (1 + n % THREADS for n in range(ROUNDS)))
        next_tids, next_comms = zip(*(side for tid, comm in switches for side in ((tid, comm), (0, 0))))
        self.columns = names + b"".join(
            field(at, pack(column))
            for at, column in (
                (2, [0, 1] * ROUNDS),
                (3, next_tids),
                (4, [120] * len(next_tids)),
                (6, next_comms),
                (8, tids),
                (9, [cpu] * ROUNDS),
                (10, [120] * ROUNDS),
                (11, [1 + n % THREADS for n in range(ROUNDS)]),
                (12, [INTERRUPT] * ROUNDS),
            )
        )
        self.prints = []
        for at in range(0, ROUNDS, 2):
            for offset, text in ((3000, f"B|{1000 + cpu * 100}|job {at % 40}\n"), (9000, "E\n")):
                after = number(2, tids[at]) + field(3, field(2, text.encode()))
                self.prints.append((at * ROUND_NS + offset, after))

    def packet(self, begin):
        """The packet of the bundle that begins at that time."""
        compact = field(1, varint(begin + 2000) + self.switch_times) + field(7, varint(begin) + self.wake_times) + self.columns
        events = b"".join(field(2, number(1, begin + offset) + after) for offset, after in self.prints)
        return field(1, field(1, self.cpu + events + field(4, compact)) + number(10, 1))


def main():
    wanted, path = int(sys.argv[1]), sys.argv[2]
    cpus, written, begin = [Cpu(cpu) for cpu in range(CPUS)], 0, 5_000_000_000
    clocks = b"".join(field(1, number(1, clock) + number(2, time)) for clock, time in ((6, begin), (3, begin - 10**9), (1, 17 * 10**17)))
    tree = b"".join(field(1, number(1, 1000 + cpu * 100) + field(3, f"/usr/bin/shop-{cpu}".encode())) for cpu in range(CPUS))
    tree += b"".join(
        field(2, number(1, 1000 + cpu * 100 + n) + number(3, 1000 + cpu * 100)) for cpu in range(CPUS) for n in range(THREADS)
    )
    with open(path, "wb") as file:
        file.write(field(1, field(6, clocks) + number(10, 1)) + field(1, field(2, tree) + number(10, 1)))
        while written < wanted:
            for cpu in cpus:
                for bundle in range(BUNDLES):
                    file.write(cpu.packet(begin + bundle * ROUNDS * ROUND_NS))
                    written += ROUNDS // 2 * EVENTS_OF_TWO
            begin += BUNDLES * ROUNDS * ROUND_NS
    print(written)


main()
