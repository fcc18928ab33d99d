"""Trace points for Python: spans, instants, counters, flows and log messages of a program, in one trace with the scheduling of its threads.

    import fxt_provider as fxt

    fxt.init("app")
    with fxt.span("app", "load", path="x", size=17):
        ...

    sudo fxtrec -- python3 app.py

Without a session, trace points cost a call and record nothing. Only `init`, `wait_for_session` and `flush` wait for the recorder, each for
a limited time. Records that do not fit into the buffer are dropped and counted.
"""
import functools
import inspect
import itertools
import os

from . import _manager, _records

__all__ = [
    "alert", "async_span", "blob", "counter", "enabled", "flow_begin", "flow_end", "flow_step", "flush", "init",
    "instant", "is_recording", "log", "span", "traced", "unique_id", "wait_for_session",
]
__version__ = "0.1.0"

_the_manager = None
# None while no session is running.
_session = None
_ids = itertools.count(1)


def _publish(session):
    global _session
    _session = session


def _after_fork():
    """The child records nothing until it calls `init` itself."""
    global _the_manager, _session
    manager, _the_manager, _session = _the_manager, None, None
    if manager is not None:
        manager.forget()


os.register_at_fork(after_in_child=_after_fork)


def init(name, wait=0.5):
    """Makes this process a trace provider with this name, of 1 to 255 bytes; does nothing if it already is one.

    Under `fxtrec -- COMMAND` it returns when trace points record, or after `wait` seconds. If no manager listens, it returns at once, and a
    thread looks for a manager for as long as the process runs.
    """
    global _the_manager
    encoded = name.encode("utf-8")
    if not _manager.is_item(encoded):
        raise ValueError(f"no name of a provider: {name!r}")
    address = _manager.address()
    if _the_manager is not None or address is None:
        return
    _the_manager = _manager.Manager(encoded, _publish)
    _the_manager.start()
    _the_manager.decided.wait(wait)


def wait_for_session(seconds):
    """Waits until a session runs; returns whether one does."""
    manager = _the_manager
    return manager is not None and manager.started.wait(seconds)


def flush(seconds=0.5):
    """Saves everything that was recorded so far, and waits until it is saved; returns whether it is. Without it, the manager reads the
    remaining records when the process ends. Only sessions in streaming mode save anything before that."""
    session = _session
    if session is None:
        return False
    buffer = session.buffer

    def is_done():
        return not session.is_open or buffer.in_flight is None

    # A request in flight does not include the last records, so one more request is made.
    for _ in range(2):
        is_asked = session.request_save()
        with buffer.saved:
            if not buffer.saved.wait_for(is_done, seconds):
                return False
        if is_asked:
            break
    return session.is_open and is_asked


def is_recording():
    """Whether a session is running."""
    return _session is not None


def enabled(category):
    """Whether events of a category are recorded, for work that only a trace needs."""
    session = _session
    return session is not None and session.is_enabled(category)


def unique_id():
    """A number that no other call in this process has returned: for asynchronous operations and flows."""
    return next(_ids)


def alert(name):
    """Reports an alert to the manager, on which a trigger may fire: a name of 1 to 14 bytes. Returns whether it was reported."""
    encoded = name.encode("utf-8")
    if not 1 <= len(encoded) <= 14 or b"\0" in encoded:
        raise ValueError(f"no name of an alert: {name!r}")
    manager = _the_manager
    return manager is not None and manager.alert(encoded)


class _Nothing:
    """Represents a span that is not recorded."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


_NOTHING = _Nothing()


class _Span:
    __slots__ = ("session", "category", "name", "args", "is_begun")

    def __init__(self, session, category, name, args):
        self.session, self.category, self.name, self.args = session, category, name, args
        self.is_begun = False

    def __enter__(self):
        self.is_begun = self.session.event(_records.DURATION_BEGIN, self.category, self.name, self.args)
        return self

    def __exit__(self, *_):
        # Without its begin, an end would close a different span.
        if self.is_begun:
            self.session.event(_records.DURATION_END, self.category, self.name)


class _AsyncSpan:
    __slots__ = ("session", "category", "name", "args", "id")

    def __init__(self, session, category, name, args):
        self.session, self.category, self.name, self.args = session, category, name, args
        self.id = unique_id()

    def __enter__(self):
        self.session.event(_records.ASYNC_BEGIN, self.category, self.name, self.args, self.id)
        return self

    def __exit__(self, *_):
        self.session.event(_records.ASYNC_END, self.category, self.name, None, self.id)

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, *_):
        self.__exit__()


def span(category, name, /, **args):
    """A context manager: a span of this thread, with arguments. Spans of a thread nest."""
    session = _session
    return _NOTHING if session is None else _Span(session, category, name, args)


def async_span(category, name, /, **args):
    """A context manager, also for `async with`: an operation that may end on another thread, or overlap with others on the same thread."""
    session = _session
    return _NOTHING if session is None else _AsyncSpan(session, category, name, args)


def traced(category, name=None):
    """A decorator: each call of the function is a span, named like the function unless a name is given. Calls of coroutine functions are
    asynchronous spans. Generators are rejected, since they suspend and resume."""

    def decorate(function):
        title = name or function.__qualname__
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{title} is a generator: begin and end the span within it")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*args, **kwargs):
                with async_span(category, title):
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def call(*args, **kwargs):
                with span(category, title):
                    return function(*args, **kwargs)

        return call

    return decorate


def _record(kind, category, name, args, extra=None):
    session = _session
    if session is not None:
        session.event(kind, category, name, args, extra)


def instant(category, name, /, **args):
    """An instant event of this thread."""
    _record(_records.INSTANT, category, name, args)


def counter(category, name, /, id=0, **samples):
    """Samples of time series, one per argument. The id distinguishes counters of the same name."""
    _record(_records.COUNTER, category, name, samples, id)


def flow_begin(category, name, id, /, **args):
    """The beginning of an arrow, from the span around it to the span around the next step with this id."""
    _record(_records.FLOW_BEGIN, category, name, args, id)


def flow_step(category, name, id, /, **args):
    """A step in a span that the arrow passes through."""
    _record(_records.FLOW_STEP, category, name, args, id)


def flow_end(category, name, id, /, **args):
    """The end of the arrow."""
    _record(_records.FLOW_END, category, name, args, id)


def log(category, message, /):
    """A log message; it is truncated to 32 000 bytes."""
    session = _session
    if session is not None:
        session.log(category, message)


def blob(category, name, content, /):
    """Bytes under a name; more than 32 000 bytes become several records."""
    session = _session
    if session is not None:
        session.blob(category, name, content)
