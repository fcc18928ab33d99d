"""The buffer that a program shares with the manager ("The buffer" in docs/reference/providers.md)."""
import mmap
import socket
import struct
import sys
import threading

ONESHOT, CIRCULAR, STREAMING = 0, 1, 2
SAVE_BUFFER = 2
MAGIC = int.from_bytes(b"FxTrBuf1", sys.byteorder)
HEADER_WORDS = 16
MAX_DURABLE_SHARE = 131_072
PACKET = struct.Struct("=HHIQ")


class Buffer:
    """Header, durable part and rolling buffers. The caller has the lock of the session."""

    def __init__(self, descriptor, size, mode, fifo):
        self.memory = mmap.mmap(descriptor, size)
        self.bytes = memoryview(self.memory)
        self.words = self.bytes.cast("Q")
        self.mode, self.fifo = mode, fifo
        available = size // 8 - HEADER_WORDS
        share = min(available // 16, MAX_DURABLE_SHARE)
        self.durable = 0 if mode == ONESHOT else share + (available - share) % 2
        self.rolling = available if mode == ONESHOT else (available - self.durable) // 2
        # In words: the end of the written data, and the start of the data that must still be kept.
        self.durable_end = self.durable_saved = 0
        self.wrapped = self.at = self.dropped = 0
        # The wrapped count of the buffer that is being saved.
        self.in_flight = None
        self.saved = threading.Condition(threading.Lock())
        self._fence = threading.Lock()
        self._fence.acquire()
        for index, value in enumerate((size, self.durable * 8, self.rolling * 8)):
            self.words[2 + index] = value
        self._identify()
        self._order()
        self.words[0] = MAGIC

    def close(self):
        """Releases the memory to the manager."""
        self.words.release()
        self.bytes.release()
        self.memory.close()

    def _identify(self):
        self.words[1] = 1 | self.mode << 16 | (self.wrapped & 0xFFFF_FFFF) << 32

    def _order(self):
        """Earlier stores become visible before later ones. Python has no fence of its own, but releasing and acquiring a lock acts as
        one."""
        self._fence.release()
        self._fence.acquire()

    def _base(self, wrapped):
        return HEADER_WORDS + self.durable + (wrapped & 1) * self.rolling

    def put(self, header, body):
        """Writes a record; returns whether there was room. The caller counts records without room."""
        size = 1 + len(body) // 8
        if size > self.rolling or (self.at + size > self.rolling and not self._turn()):
            return False
        first = self._base(self.wrapped) + self.at
        try:
            # The first word comes last: a zero word means that there is no record.
            self.bytes[(first + 1) * 8 : (first + size) * 8] = body
            self._order()
            self.words[first] = header
            self.at += size
        except BaseException:
            # A signal handler has raised in between: the space is unchanged.
            if self._base(self.wrapped) + self.at == first:
                self.words[first] = 0
                self.bytes[first * 8 : (first + size) * 8] = bytes(size * 8)
            raise
        return True

    def put_durable(self, header, body):
        """Writes a record that others refer to; returns whether there was room."""
        if self.mode == ONESHOT:
            return self.put(header, body)
        size = 1 + len(body) // 8
        if self.durable_end + size - self.durable_saved > self.durable:
            return False
        words = (header, *memoryview(body).cast("Q"))
        for distance, word in enumerate(words, self.durable_end):
            self.words[HEADER_WORDS + distance % self.durable] = word
        self._order()
        self.durable_end += size
        self.words[5] = self.durable_end * 8
        return True

    def drop(self, records=1):
        """Counts records for which there was no room."""
        self.dropped += records
        self.words[8] = self.dropped

    def _turn(self):
        """Switches to the other rolling buffer; returns whether it is free."""
        if self.mode == CIRCULAR:
            self._overwrite()
            return True
        if self.mode == ONESHOT or self.in_flight is not None:
            return False
        request = PACKET.pack(SAVE_BUFFER, 0, self.wrapped & 0xFFFF_FFFF, self.durable_end * 8)
        self.words[6 + (self.wrapped & 1)] = self.at * 8
        self._order()
        self.in_flight = self.wrapped
        self.wrapped, self.at = self.wrapped + 1, 0
        self._identify()
        try:
            self.fifo.send(request, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            # The manager is gone. The manager's thread here will notice that; until then, no buffer is released.
            pass
        return True

    def _overwrite(self):
        """Clears the buffer that is older. Its end and start mark it as empty in the meantime."""
        older = (self.wrapped + 1) & 1
        self.words[6 + (self.wrapped & 1)] = self.at * 8
        self.words[6 + older] = self.rolling * 8
        self.words[10 + older] = self.rolling * 8
        self._order()
        self._clear(older, self.rolling)
        self._order()
        self.wrapped, self.at = self.wrapped + 1, 0
        self._identify()
        self._order()
        self.words[6 + older] = 0
        self.words[10 + older] = 0

    def _clear(self, which, words):
        first = self._base(which) * 8
        self.bytes[first : first + words * 8] = bytes(words * 8)

    def is_answer(self, wrapped, durable_end):
        """Whether the manager may report that this was saved."""
        is_ours = self.in_flight is not None and wrapped == self.in_flight & 0xFFFF_FFFF
        return is_ours and self.durable_saved * 8 <= durable_end <= self.durable_end * 8

    def take_back(self, durable_end):
        """The manager has saved the requested part."""
        which = self.in_flight & 1
        self._clear(which, self.words[6 + which] // 8)
        self._order()
        self.words[6 + which] = 0
        self.durable_saved = durable_end // 8
        with self.saved:
            self.in_flight = None
            self.saved.notify_all()

    def request_save(self):
        """Requests that everything written so far be saved, if no other request is in flight; returns whether there is nothing left to
        request."""
        return self.mode == STREAMING and (self.at == 0 or self._turn())
