"""Records of the Fuchsia trace format, as the words and bytes of a shared buffer.

A record is a header word and a body of whole words. The comments name the sections of the format's
document.
"""
import struct

INSTANT, COUNTER, DURATION_BEGIN, DURATION_END = 0, 1, 2, 3
ASYNC_BEGIN, ASYNC_INSTANT, ASYNC_END = 5, 6, 7
FLOW_BEGIN, FLOW_STEP, FLOW_END = 8, 9, 10

# Limits of the format: the size of a record, an event's arguments, and the entries of both tables.
MAX_WORDS = 4095
MAX_ARGS = 15
MAX_STRINGS = 0x7FFF
MAX_THREADS = 0xFF

# Longer texts are cut, so that an event with the most arguments still fits a record.
MAX_TEXT = 1024
MAX_MESSAGE = 32_000
MAX_BLOB = 32_000

WORD = struct.Struct("=Q")
TWO_WORDS = struct.Struct("=QQ")
SIGNED = struct.Struct("=q")
REAL = struct.Struct("=d")
INLINE = 0x8000

NANOSECONDS = 1_000_000_000


def padded(content):
    """The bytes, and zeros up to a whole word."""
    return content + b"\0" * (-len(content) % 8)


def cut(text, limit=MAX_TEXT):
    """The text in UTF-8, without what a string record can't hold: cut at a NUL, and to the limit."""
    content = str(text).encode("utf-8", "replace").split(b"\0", 1)[0]
    if len(content) > limit:
        content = content[:limit].decode("utf-8", "ignore").encode("utf-8")
    return content


def words_of(body):
    """The size of a record with this body, in words."""
    return 1 + len(body) // 8


def inline(content):
    """A reference to a text that follows in the record, and that text ("String references")."""
    return (INLINE | len(content), padded(content)) if content else (0, b"")


def initialization():
    """Initialization record: ticks are nanoseconds."""
    return 1 | 2 << 4, WORD.pack(NANOSECONDS)


def string(index, content):
    """String record."""
    body = padded(content)
    return 2 | words_of(body) << 4 | index << 16 | len(content) << 32, body


def thread(index, process, koid):
    """Thread record."""
    return 3 | 3 << 4 | index << 16, TWO_WORDS.pack(process, koid)


def process_name(process, name):
    """Kernel object record of a process."""
    reference, text = inline(name)
    body = WORD.pack(process) + text
    return 7 | words_of(body) << 4 | 1 << 16 | reference << 24, body


def thread_name(process, koid, name):
    """Kernel object record of a thread, with the process that it belongs to."""
    reference, text = inline(name)
    of_name, of_text = inline(b"process")
    of = WORD.pack(8 | (2 + len(of_text) // 8) << 4 | of_name << 16) + of_text + WORD.pack(process)
    body = WORD.pack(koid) + text + of
    return 7 | words_of(body) << 4 | 2 << 16 | reference << 24 | 1 << 40, body


def argument(reference, text, value):
    """An argument by the type of its value ("Argument types"); whole numbers beyond 64 bits become floating-point numbers."""
    head = reference << 16
    size = 1 + len(text) // 8
    if value is None:
        return WORD.pack(0 | size << 4 | head) + text
    if isinstance(value, bool):
        return WORD.pack(9 | size << 4 | head | int(value) << 32) + text
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return WORD.pack(3 | (size + 1) << 4 | head) + text + SIGNED.pack(value)
        if 0 <= value < 1 << 64:
            return WORD.pack(4 | (size + 1) << 4 | head) + text + WORD.pack(value)
        try:
            value = float(value)
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    if isinstance(value, float):
        return WORD.pack(5 | (size + 1) << 4 | head) + text + REAL.pack(value)
    of_value, content = inline(cut(value))
    size += len(content) // 8
    return WORD.pack(6 | size << 4 | head | of_value << 32) + text + content


def event(kind, site, of_thread, time, arguments, extra):
    """Event record. `site` and `of_thread` are a part of the header, and the inline data that follows."""
    body = WORD.pack(time) + of_thread[1] + site[1] + b"".join(arguments)
    if extra is not None:
        body += WORD.pack(extra & 0xFFFF_FFFF_FFFF_FFFF)
    head = 4 | words_of(body) << 4 | kind << 16 | len(arguments) << 20
    return head | of_thread[0] << 24 | site[0], body


def log(of_thread, time, message):
    """Log record."""
    body = WORD.pack(time) + of_thread[1] + padded(message)
    return 9 | words_of(body) << 4 | len(message) << 16 | of_thread[0] << 32, body


def blob(reference, text, content):
    """BLOB record of untyped data."""
    body = text + padded(content)
    return 5 | words_of(body) << 4 | reference << 16 | len(content) << 32 | 1 << 48, body
