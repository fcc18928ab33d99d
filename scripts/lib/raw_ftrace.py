"""Copies the pages of one CPU's ftrace buffer to a file until SIGINT, as trace-cmd does: with splice, without parsing them.

    python3 raw_ftrace.py TRACE_PIPE_RAW FILE
"""

import os
import select
import signal
import sys

# As many pages as fit into a pipe.
CHUNK = 16 * 4096


def stop_signals():
    """A file that becomes readable at SIGINT or SIGTERM. A handler that raises would miss a signal shortly before the system call that
    waits, and SIGINT is ignored from the start after a shell's `&`."""
    stop, ours = os.pipe()
    os.set_blocking(ours, False)
    signal.set_wakeup_fd(ours)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return stop


def copy(source, pipe, target):
    """Moves the full pages that are available."""
    to_file, from_kernel = pipe
    while True:
        try:
            got = os.splice(source, from_kernel, CHUNK, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return
        if got == 0:
            return
        while got > 0:
            got -= os.splice(to_file, target, got, flags=os.SPLICE_F_MOVE)


def main():
    path, output = sys.argv[1:]
    stop = stop_signals()
    source = os.open(path, os.O_RDONLY)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    pipe = os.pipe()
    # The source is readable when the buffer is filled to buffer_percent.
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(stop, select.POLLIN)
    while stop not in dict(poll.poll()):
        copy(source, pipe, target)
    copy(source, pipe, target)
    # A page that is not full yet cannot be moved, only read.
    os.set_blocking(source, False)
    try:
        while page := os.read(source, 1 << 16):
            os.write(target, page)
    except BlockingIOError:
        pass


if __name__ == "__main__":
    main()
