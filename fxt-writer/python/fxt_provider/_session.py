"""One session: the categories that it records, the names that it knows, and how a record gets into its buffer."""
import os
import threading
import time

from . import _records as records


def _ahead():
    """How many nanoseconds the clock of this process is ahead of the kernel's, which the trace uses: the offset of"""
    try:
        own, childrens = (os.readlink("/proc/self/ns/" + name) for name in ("time", "time_for_children"))
        # The file describes the namespace that children will be in.
        if own == childrens:
            with open("/proc/self/timens_offsets") as file:
                for clock, seconds, nanos in map(str.split, file):
                    if clock == "monotonic":
                        return int(seconds) * 1_000_000_000 + int(nanos)
    except (OSError, ValueError):
        pass
    return 0


_AHEAD = _ahead()


def _now():
    return time.monotonic_ns() - _AHEAD


def _comm(path):
    """The kernel's id of a process or thread, as in the scheduler's records."""
    try:
        with open(path, "rb") as file:
            return file.read().rstrip(b"\n")
    except OSError:
        return b""


# The kernel's limit.
_COMM_BYTES = 15


def _is_given(name):
    """Whether a program has given a thread this name; otherwise it is called Thread-1, Thread-2 (function), ..."""
    number, _, function = name.removeprefix("Thread-").partition(" (")
    return bool(name) and not (name.startswith("Thread-") and number.isdigit() and (not function or function.endswith(")")))


def _name_of_thread(koid):
    """The name of the current thread, as in `threading.Thread(name=...)`; this also passes it to the kernel, as Python itself does since
    3.14. So switches, probes and other tools show the name as well. If other code has given the thread a different name, it keeps that."""
    path = f"/proc/self/task/{koid}/comm"
    comm = _comm(path)
    thread = threading.current_thread()
    is_main = thread is threading.main_thread() or isinstance(thread, threading._DummyThread)
    if is_main or not _is_given(thread.name) or comm != _comm("/proc/self/comm"):
        return comm
    name = records.cut(thread.name, _COMM_BYTES)
    if not name:
        return comm
    try:
        with open(path, "wb") as file:
            file.write(name)
    except OSError:
        # At least the program's own events have it.
        return name
    return name


class Session:
    """Accepts records until it is closed."""

    def __init__(self, number, process, wanted, buffer, on_category):
        self.number, self.process, self.wanted, self.buffer = number, process, wanted, buffer
        self.on_category = on_category
        self.is_open = True
        self.sites, self.strings, self.threads = {}, {}, {}
        self.local = threading.local()
        self.owed = 0
        # Reentrant for signal handlers, which interrupt code on the same thread: `is_busy` detects them.
        self.lock = threading.RLock()
        self.is_busy = False
        # Records of handlers that could not be written, to be counted.
        self.interrupted = 0
        buffer.put_durable(*records.initialization())
        buffer.put_durable(*records.process_name(process, _comm("/proc/self/comm")[:64]))

    def wants(self, category):
        """Whether a category is recorded."""
        if not self.wanted:
            return True
        return any(
            category.startswith(name[:-1]) if name.endswith("*") else category == name
            for name in self.wanted
        )

    # The following four are called with the lock.

    def _reference(self, content):
        """A reference to a constant text, which is registered if there is room, and the inline part."""
        if not content:
            return 0, b""
        known = self.strings.get(content)
        if known is not None:
            return known
        index = len(self.strings) + 1
        if index > records.MAX_STRINGS or not self.buffer.put_durable(*records.string(index, content)):
            return records.inline(content)
        self.strings[content] = known = (index, b"")
        return known

    def _site(self, category, name):
        """The common part of the records of a category and a name; None if the category is not recorded."""
        known = self.sites.get((category, name), self)
        if known is not self:
            return known
        self.on_category(category)
        site = None
        if self.wants(category):
            of_category, category_text = self._reference(records.cut(category))
            of_name, name_text = self._reference(records.cut(name))
            site = (of_category << 32 | of_name << 48, category_text + name_text)
        # Names that a program generates must not fill its memory.
        if len(self.sites) < records.MAX_STRINGS:
            self.sites[category, name] = site
        return site

    def _thread(self):
        """How records refer to the current thread, whose name is registered the first time."""
        known = getattr(self.local, "thread", None)
        if known is not None:
            return known
        koid = threading.get_native_id()
        name = _name_of_thread(koid)[:64]
        self.buffer.put_durable(*records.thread_name(self.process, koid, name))
        index = len(self.threads) + 1
        if koid in self.threads:
            known = (self.threads[koid], b"")
        elif index <= records.MAX_THREADS and self.buffer.put_durable(
            *records.thread(index, self.process, koid)
        ):
            self.threads[koid] = index
            known = (index, b"")
        else:
            known = (0, records.TWO_WORDS.pack(self.process, koid))
        self.local.thread = known
        self.local.owed = []
        return known

    def _pay(self):
        """Writes the ends for which there was no room; returns whether none is left."""
        owed = self.local.owed
        while owed:
            if not self.buffer.put(*owed[0]):
                return False
            del owed[0]
            self.owed -= 1
        return True

    def _write(self, make, is_end):
        """Writes the record that `make` creates from the reference to this thread; returns whether it is, or will be, in the trace."""
        with self.lock:
            if not self.is_open:
                return False
            if self.is_busy:
                self.interrupted += 1
                return False
            self.is_busy = True
            try:
                record = make(self._thread())
                if record is None:
                    return False
                if records.words_of(record[1]) <= records.MAX_WORDS and self._pay() and self.buffer.put(*record):
                    return True
                if is_end:
                    self.local.owed.append(record)
                    self.owed += 1
                    return True
                self.buffer.drop()
                return False
            finally:
                self.is_busy = False
                if self.interrupted:
                    self.buffer.drop(self.interrupted)
                    self.interrupted = 0

    def event(self, kind, category, name, args=None, extra=None):
        """Records an event; returns whether it is in the trace."""
        now = _now()

        def make(thread):
            site = self._site(category, name)
            if site is None:
                return None
            arguments = [
                records.argument(*self._reference(records.cut(key)), value)
                for key, value in list(args.items())[: records.MAX_ARGS]
            ] if args else ()
            return records.event(kind, site, thread, now, arguments, extra)

        return self._write(make, kind == records.DURATION_END)

    def log(self, category, message):
        """Records a log message; returns whether it is in the trace."""
        now = _now()

        def make(thread):
            if self._site(category, "log") is None:
                return None
            return records.log(thread, now, records.cut(message, records.MAX_MESSAGE))

        return self._write(make, False)

    def blob(self, category, name, content):
        """Records bytes under a name, in several records if necessary; returns whether all are in the trace."""

        def make(part):
            if self._site(category, name) is None:
                return None
            return records.blob(*self._reference(records.cut(name)), part)

        content = bytes(content)
        starts = range(0, max(len(content), 1), records.MAX_BLOB)
        parts = (content[start : start + records.MAX_BLOB] for start in starts)
        return all([self._write(lambda _, part=part: make(part), False) for part in parts])

    def is_enabled(self, category):
        """Whether a category is recorded."""
        return self.is_open and self.wants(category)

    def close(self):
        """Accepts no more records. Ends that are still pending are lost, and counted."""
        with self.lock:
            self.is_open = False
            if self.owed:
                self.buffer.drop(self.owed)
                self.owed = 0

    def request_save(self):
        """Requests that everything written so far be saved; returns whether all of it is saved, or will be with the request in flight."""
        with self.lock:
            return self.is_open and self.buffer.request_save()
