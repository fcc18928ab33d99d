"""Copies the pages of one CPU's ftrace buffer to a file until SIGINT, as trace-cmd does: by splice, without looking
into them.

    python3 raw_ftrace.py TRACE_PIPE_RAW FILE
"""

import os
import signal
import sys

# As many pages as a pipe holds.
CHUNK = 16 * 4096


def copy(source, pipe, target):
    """Moves full pages as long as there are any, waiting for them."""
    from_kernel, to_file = pipe[1], pipe[0]
    while True:
        got = os.splice(source, from_kernel, CHUNK, flags=os.SPLICE_F_MOVE)
        while got > 0:
            got -= os.splice(to_file, target, got, flags=os.SPLICE_F_MOVE)


def main():
    path, output = sys.argv[1:]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    source = os.open(path, os.O_RDONLY)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        copy(source, os.pipe(), target)
    except KeyboardInterrupt:
        pass
    # The page that is not full yet is only to be had by reading.
    os.set_blocking(source, False)
    try:
        while page := os.read(source, 1 << 16):
            os.write(target, page)
    except BlockingIOError:
        pass


if __name__ == "__main__":
    main()
