#!/usr/bin/env python3
"""A program that records itself with the package fxt_provider.

    traced.py THREADS SPANS [fork|signal|flood|named]

Each thread records SPANS durations named `nap`, each around a sleep of two milliseconds, and prints its thread id, and the times just
before and just after, in nanoseconds of CLOCK_MONOTONIC. With `fork`, a child does the same without being a provider, and a child that
becomes one records an instant. With `signal`, a handler records instant events at the same time. With `flood`, it records as many moments
as THREADS times SPANS in place of all that, and prints how many were refused. With `named`, each of its threads has a name.
"""
import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time

import fxt_provider as fxt


def nap(spans, out):
    for number in range(spans):
        before = time.monotonic_ns()
        with fxt.span("app", "nap", number=number):
            time.sleep(0.002)
        out.append((threading.get_native_id(), before, time.monotonic_ns()))


def naps(threads, spans, named):
    lists = [[] for _ in range(threads)]
    names = [f"loader number {number} of many" if named else None for number in range(threads)]
    running = [threading.Thread(target=nap, args=(spans, out), name=name) for out, name in zip(lists, names)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for line in sum(lists, []):
        print(*line)


@fxt.traced("app", "request")
async def request(number):
    fxt.instant("app", "begun", number=number)
    await asyncio.sleep(0.002)


async def requests():
    await asyncio.gather(*(request(number) for number in range(3)))


def one_of_each():
    with fxt.span("app", "all", whole=-5, large=1 << 63, real=0.5, truth=True, text="f\u00fcnf", none=None):
        fxt.counter("app", "level", id=3, number=17)
        flow = fxt.unique_id()
        fxt.flow_begin("app", "way", flow)
        fxt.flow_end("app", "way", flow)
        fxt.log("app", "a message")
        fxt.blob("app", "bytes", bytes(range(256)) * 256)
        fxt.instant("other", "not wanted")
    asyncio.run(requests())


def main():
    threads, spans, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    fxt.init("python")
    assert fxt.is_recording() and fxt.enabled("app")
    if how == ["flood"]:
        for number in range(threads * spans):
            fxt.instant("app", "flood", number=number)
        return
    if how == ["fork"]:
        child = os.fork()
        if child == 0:
            assert not fxt.is_recording()
            nap(1, [])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

        def become_provider():
            fxt.init("child")
            assert fxt.is_recording()
            fxt.instant("app", "of the child")

        child = multiprocessing.get_context("fork").Process(target=become_provider)
        child.start()
        child.join()
        assert child.exitcode == 0
    if how == ["signal"]:
        signal.signal(signal.SIGALRM, lambda *_: fxt.instant("app", "tick"))
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        # The handler runs on the main thread, wherever that is.
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            with fxt.span("app", "turn"):
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    one_of_each()
    naps(threads, spans, how == ["named"])


main()
