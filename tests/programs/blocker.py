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


def cpu_time(process):
    """The ticks that a recorder and the processes that it reads files with have used."""
    children = [open(path).read() for path in glob.glob("/proc/%d/task/*/children" % process)]
    ticks = 0
    for of in [str(process)] + " ".join(children).split():
        try:
            name, fields = open("/proc/%s/stat" % of).read().rsplit(")", 1)
        except OSError:
            continue  # It has ended.
        if "(fxtrec" in name:
            ticks += sum(map(int, fields.split()[11:13]))
    return ticks


def warm_up(recorder):
    # The recorder is busy with the interpreter's files at first.
    before, now = -100, 0
    while now - before > 5:
        time.sleep(0.5)
        before, now = now, cpu_time(recorder)


warm_up(int(sys.argv[2]))
thread = threading.Thread(target=outer, args=(int(sys.argv[1]),))
thread.start()
print(threading.main_thread().native_id, thread.native_id, sys.executable)
outer(int(sys.argv[1]))
thread.join()
# A name is read within 10 ms of its stack: until then, the functions must exist.
threading.Event().wait(0.1)
