#!/usr/bin/env python3
"""A trace provider in another language, by docs/reference/providers.md alone and the standard library.

    provider.py SPANS [kill]

Records SPANS durations named `sleep`, each around a sleep of two milliseconds, and prints the begin and end of each in nanoseconds of
CLOCK_MONOTONIC. Afterwards, it stops on request, or kills itself immediately.
"""
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

REGISTER, STOPPED, START, STOP, TERMINATE = 1, 3, 16, 17, 18
ONESHOT, CIRCULAR, STREAMING = 0, 1, 2
STARTED, SAVE_BUFFER, BUFFER_SAVED = 1, 2, 3
MAGIC = int.from_bytes(b"FxTrBuf1", sys.byteorder)
HEADER_WORDS = 16


def message(kind, data, payload=b""):
    return struct.pack("=HHIQ", kind, 1, len(payload), data) + payload


def packet(request, data32, data64=0):
    return struct.pack("=HHIQ", request, 0, data32, data64)


def words_of(text):
    padded = text + b"\0" * (-len(text) % 8)
    return list(struct.unpack(f"={len(padded) // 8}Q", padded))


def inline(text):
    return 0x8000 | len(text)


class Buffer:
    """The shared buffer of one session: header, durable part, two rolling buffers."""

    def __init__(self, fd, size, mode):
        self.memory = mmap.mmap(fd, size)
        self.view = memoryview(self.memory).cast("Q")
        total = size // 8
        available = total - HEADER_WORDS
        share = min(available // 16, (1 << 20) // 8)
        self.durable = 0 if mode == ONESHOT else share + (available - share) % 2
        self.rolling = available if mode == ONESHOT else (available - self.durable) // 2
        self.mode, self.wrapped, self.durable_end, self.at = mode, 0, 0, 0
        self.view[2], self.view[3], self.view[4] = total * 8, self.durable * 8, self.rolling * 8
        self.identity()
        self.view[0] = MAGIC

    def identity(self):
        self.view[1] = 1 | self.mode << 16 | self.wrapped << 32

    def put_durable(self, words):
        if self.mode == ONESHOT:
            return self.put(words)
        for word in words:
            self.view[HEADER_WORDS + self.durable_end % self.durable] = word
            self.durable_end += 1
        self.view[5] = self.durable_end * 8

    def put(self, words):
        base = HEADER_WORDS + self.durable + (self.wrapped & 1) * self.rolling + self.at
        # The first word is written last: where it is zero, nothing was written.
        for index in range(len(words) - 1, -1, -1):
            self.view[base + index] = words[index]
        self.at += len(words)

    def switch(self):
        """Continues in the other buffer; returns the request to save this one."""
        request = packet(SAVE_BUFFER, self.wrapped, self.durable_end * 8)
        self.view[6 + (self.wrapped & 1)] = self.at * 8
        self.wrapped, self.at = self.wrapped + 1, 0
        self.identity()
        return request

    def saved(self, wrapped):
        base = HEADER_WORDS + self.durable + (wrapped & 1) * self.rolling
        for index in range(self.view[6 + (wrapped & 1)] // 8):
            self.view[base + index] = 0
        self.view[6 + (wrapped & 1)] = 0


class Provider:
    def __init__(self, name):
        address = os.environ["FXTREC_PROVIDER_SOCKET"]
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.connect("\0" + address[1:] if address[0] == "@" else address)
        self.control.send(message(REGISTER, 0, name + b"\npython\n"))
        kind = TERMINATE
        while kind == TERMINATE:  # No session runs yet.
            data, fds, _, _ = socket.recv_fds(self.control, 65536, 2)
            kind, version, _, self.session = struct.unpack_from("=HHIQ", data)
        assert (kind, version) == (START, 1), (kind, version)
        mode, _, size, self.process, _ = struct.unpack_from("=IIQQQ", data, 16)
        self.mode = mode
        self.buffer = Buffer(fds[0], size, mode)
        self.fifo = socket.socket(fileno=fds[1])
        # Initialization: ticks per second.
        self.buffer.put_durable([0x21, 1_000_000_000])
        # Thread 1 is this one.
        thread = 3 | 3 << 4 | 1 << 16
        self.buffer.put_durable([thread, self.process, threading.get_native_id()])
        self.fifo.send(packet(STARTED, 1))

    def event(self, kind, name, timestamp):
        body = words_of(b"python") + words_of(name)
        size = 2 + len(body)
        head = 4 | size << 4 | kind << 16 | 1 << 24 | inline(b"python") << 32 | inline(name) << 48
        self.buffer.put([head, timestamp] + body)

    def save(self):
        if self.mode != STREAMING:
            return
        request = self.buffer.switch()
        self.fifo.send(request)
        assert self.fifo.recv(16) == struct.pack("=H", BUFFER_SAVED) + request[2:]
        self.buffer.saved(self.buffer.wrapped - 1)

    def serve_until_stopped(self):
        select.select([self.control], [], [])
        kind, _, _, session = struct.unpack_from("=HHIQ", self.control.recv(65536))
        assert (kind, session) == (STOP, self.session)
        # Buffer and durable data are final; fxtrec saves the rest.
        self.control.send(message(STOPPED, session))


def main():
    spans, how = int(sys.argv[1]), sys.argv[2:]
    provider = Provider(b"by hand")
    for number in range(spans):
        begin = time.monotonic_ns()
        provider.event(2, b"sleep", begin)
        time.sleep(0.002)
        end = time.monotonic_ns()
        provider.event(3, b"sleep", end)
        print(threading.get_native_id(), begin, end, flush=True)
        if number % 8 == 7:
            provider.save()
    if how == ["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == ["wait"]:
        provider.serve_until_stopped()


main()
