"""The program's side of the protocol with the manager ("The protocol" in docs/reference/providers.md)."""
import fcntl
import os
import select
import socket
import struct
import threading

from ._buffer import HEADER_WORDS, STREAMING, Buffer
from ._session import Session

REGISTER, CATEGORIES, STOPPED, ALERT = 1, 2, 3, 4
START, STOP, TERMINATE = 16, 17, 18
STARTED, BUFFER_SAVED = 1, 3
VERSION = 1
HEAD = struct.Struct("=HHIQ")
BEGIN = struct.Struct("=IIQQQ")
MAX_MESSAGE = 65_536
# The daemon's address, if none is given.
DAEMON = "/run/fxtrec/providers"
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
# fcntl.h; Python has names for these only since 3.9 or 3.10.
F_GET_SEALS, F_SEAL_SHRINK = 1034, 2


class Malformed(Exception):
    """The manager sent a message that violates the protocol."""


def address():
    """The address of the manager; None if the program is not to be recorded."""
    given = os.environ.get("FXTREC_PROVIDER_SOCKET")
    if given is None:
        return DAEMON
    return ("\0" + given[1:] if given[0] == "@" else given) if given else None


def message(kind, data, payload=b""):
    return HEAD.pack(kind, VERSION, len(payload), data) + payload


def is_item(name):
    return 1 <= len(name) <= 255 and b"\0" not in name and b"\n" not in name


class Manager:
    """Connects, and serves sessions, on a separate thread. `publish` is called with each session, and with None at its end."""

    def __init__(self, name, publish):
        self.name, self.publish = name, publish
        self.control = None
        self.fifo = None
        self.session = None
        self.stopping = None
        self.categories = set()
        # Whether it is known if a session is running.
        self.decided = threading.Event()
        self.started = threading.Event()
        self.sending = threading.Lock()
        self.thread = threading.Thread(target=self._run, name="fxt-provider", daemon=True)
        self.is_over = threading.Event()

    def start(self):
        self.thread.start()

    def forget(self):
        """In a forked child: neither the connection nor the buffer belongs to the child."""
        for end in (self.control, self.fifo):
            if end is not None:
                end.close()
        if self.session is not None:
            self.session.is_open = False
            self.session.buffer.close()

    def _run(self):
        delay = FIRST_DELAY
        while not self.is_over.is_set():
            try:
                self._connect()
                delay = FIRST_DELAY
                self._serve()
            except (OSError, Malformed, struct.error, ValueError):
                pass
            finally:
                self._disconnect()
                self.decided.set()
            self.is_over.wait(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    def _connect(self):
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            control.connect(address())
            control.send(message(REGISTER, 0, self.name + b"\n"), socket.MSG_NOSIGNAL)
        except BaseException:
            control.close()
            raise
        with self.sending:
            self.control = control
            known, self.categories = self.categories, set()
        for category in known:
            self.on_category(category)

    def _disconnect(self):
        self._end_session()
        with self.sending:
            control, self.control = self.control, None
        if control is not None:
            control.close()

    def _end_session(self):
        session, self.session, self.stopping = self.session, None, None
        self.publish(None)
        self.started.clear()
        if session is not None:
            session.close()
            with session.lock:
                session.buffer.close()
            with session.buffer.saved:
                session.buffer.saved.notify_all()
        if self.fifo is not None:
            self.fifo.close()
            self.fifo = None

    def _send(self, kind, data, payload=b""):
        """Sends a message if there is a connection that accepts it at once; returns whether it did."""
        with self.sending:
            if self.control is None:
                return False
            try:
                self.control.send(message(kind, data, payload), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except OSError:
                return False
            return True

    def on_category(self, category):
        """Announces a category to the manager."""
        item = category.encode("utf-8", "replace")
        with self.sending:
            if category in self.categories or not is_item(item):
                return
            self.categories.add(category)
        self._send(CATEGORIES, 0, item + b"\n")

    def alert(self, name):
        """Reports an alert to the manager; returns whether it was reported."""
        return self._send(ALERT, 0, name)

    def _serve(self):
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while True:
            watched = self.fifo
            if watched is not None:
                poll.register(watched, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if watched is not None:
                poll.unregister(watched)
                if watched.fileno() in ready:
                    self._answer()
            if self.control.fileno() in ready:
                self._command()

    def _command(self):
        data, descriptors, flags, _ = socket.recv_fds(
            self.control, MAX_MESSAGE, 2, socket.MSG_CMSG_CLOEXEC
        )
        try:
            if len(data) < HEAD.size or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise Malformed
            kind, version, length, number = HEAD.unpack_from(data)
            payload = data[HEAD.size :]
            if version != VERSION or length != len(payload):
                raise Malformed
            if kind == START and len(descriptors) == 2:
                self._start(number, payload, descriptors)
            elif kind == STOP:
                self._stop(number)
            elif kind == TERMINATE:
                self._end_session()
                self.decided.set()
            else:
                raise Malformed
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, number, payload, descriptors):
        """Begins a session. Copies of the descriptors are kept."""
        mode, _, size, process, _ = BEGIN.unpack_from(payload)
        wanted = payload[BEGIN.size :].decode("utf-8").split("\n")[:-1]
        self._end_session()
        memory, fifo = descriptors
        is_sealed = fcntl.fcntl(memory, F_GET_SEALS) & F_SEAL_SHRINK
        is_whole = os.fstat(memory).st_size == size and size % 8 == 0
        # A buffer that could shrink would kill the process that writes to it.
        if mode > STREAMING or not is_sealed or not is_whole or size // 8 < 4 * HEADER_WORDS:
            self._send(STOPPED, number)
            return
        self.fifo = socket.socket(fileno=os.dup(fifo))
        buffer = Buffer(memory, size, mode, self.fifo)
        self.session = Session(number, process, wanted, buffer, self.on_category)
        self.fifo.send(HEAD.pack(STARTED, 0, VERSION, 0), socket.MSG_NOSIGNAL)
        self.publish(self.session)
        self.started.set()
        self.decided.set()

    def _stop(self, number):
        session = self.session
        if session is None or session.number != number:
            return
        self.publish(None)
        self.started.clear()
        session.close()
        if session.buffer.in_flight is None:
            self._send(STOPPED, number)
        else:
            # Only after it has saved the requested data.
            self.stopping = number

    def _answer(self):
        packet = self.fifo.recv(HEAD.size + 1)
        session = self.session
        if len(packet) != HEAD.size or session is None:
            raise Malformed
        kind, reserved, wrapped, durable_end = HEAD.unpack(packet)
        with session.lock:
            buffer = session.buffer
            if kind != BUFFER_SAVED or reserved != 0 or not buffer.is_answer(wrapped, durable_end):
                raise Malformed
            buffer.take_back(durable_end)
        if self.stopping is not None:
            self._send(STOPPED, self.stopping)
            self.stopping = None
