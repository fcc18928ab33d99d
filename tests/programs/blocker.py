"""Blocks in a known place, three functions deep, in the main thread and in another one, for the given number of rounds,
once the recorder with the given process id has become idle."""

import glob
import sys
import threading
import time


def wait_here(seconds):
    time.sleep(seconds)


def middle(seconds):
    rounds = 1

    wait_here(seconds)
    return rounds


def outer(rounds):
    for _ in range(rounds):
        middle(0.003)


def work(process):
    """What the threads of a recorder, and of the processes that it reads files with, do: the ticks of CPU that they have used, and how many
    of them run or are ready to."""
    children = [open(path).read() for path in glob.glob("/proc/%d/task/*/children" % process)]
    ticks = ready = 0
    for of in [str(process)] + " ".join(children).split():
        for path in glob.glob("/proc/%s/task/*/stat" % of):
            try:
                name, fields = open(path).read().rsplit(")", 1)
            except OSError:
                continue  # It has ended.
            fields = fields.split()
            if "(fxt" in name:
                ticks += sum(map(int, fields[11:13]))
                ready += fields[0] in "RD"
    return ticks, ready


def warm_up(recorder):
    # The recorder is busy with the interpreter's files at first.
    before, (now, ready) = -100, (0, 0)
    while ready or now - before > 5:
        time.sleep(0.5)
        before, (now, ready) = now, work(recorder)


warm_up(int(sys.argv[2]))
thread = threading.Thread(target=outer, args=(int(sys.argv[1]),))
thread.start()
print(threading.main_thread().native_id, thread.native_id, sys.executable)
outer(int(sys.argv[1]))
thread.join()
# A name is read within 10 ms of its stack: until then, the functions must exist.
threading.Event().wait(0.1)
