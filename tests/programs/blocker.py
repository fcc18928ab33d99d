"""Blocks in a known place, three functions deep, in the main thread and in another one, for the given number of rounds."""

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


def warm_up():
    # The recorder may be busy with the interpreter's files.
    time.sleep(2)


warm_up()
thread = threading.Thread(target=outer, args=(int(sys.argv[1]),))
thread.start()
print(threading.main_thread().native_id, thread.native_id)
outer(int(sys.argv[1]))
thread.join()
# A name is read within 10 ms of its stack: until then, the functions must exist.
threading.Event().wait(0.1)
