"""profile.proto, compressed, for pprof and what reads its files.

The messages and the numbers of their fields are those of perftools.profiles,
as pprof publishes them.  Protocol buffers are written by hand: a field is its
number and kind, then a varint or a length and bytes.

Samples name their thread in the labels pid, tid, process and thread.
"""

import collections
import datetime
import gzip

from perfpy.formats import function_name
from perfpy.profile import Kind


def _varint(number):
    number &= (1 << 64) - 1
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def _number(field, value):
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field, value):
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _numbers(field, values):
    return _bytes(field, b"".join(map(_varint, values)))


class _Strings:
    """The table of strings, which all messages refer to by number."""

    def __init__(self):
        self._index = {"": 0}

    def number(self, text):
        return self._index.setdefault(text, len(self._index))

    def encoded(self):
        for text in self._index:
            yield _bytes(6, text.encode("utf-8", "backslashreplace"))


def _messages(profile):
    """Yield the encoded fields of a Profile message."""
    strings = _Strings()
    samples_unit = (_number(1, strings.number("samples"))
                    + _number(2, strings.number("count")))
    unit = profile.meta.get("unit")
    scale = 1 if unit else 1e9
    time_unit = (_number(1, strings.number(unit or "cpu"))
                 + _number(2, strings.number("count" if unit
                                             else "nanoseconds")))
    yield _bytes(1, samples_unit)
    yield _bytes(1, time_unit)
    for thread in profile.threads:
        yield from _samples(profile, thread, strings, scale)
    functions = {}              # and their numbers
    for frame_number, frame in enumerate(profile.frames, start=1):
        number = functions.setdefault(frame.function, len(functions) + 1)
        line = _number(1, number) + _number(2, frame.line)
        yield _bytes(4, _number(1, frame_number) + _bytes(4, line))
    for function, number in functions.items():
        name = strings.number(function.name if function.kind is Kind.PYTHON
                              else function_name(function))
        # Without a system name: pprof would take it for one of C++ and cut
        # off what is in brackets.
        yield _bytes(5, _number(1, number) + _number(2, name)
                     + _number(4, strings.number(function.file)))
    for name, value in profile.meta.items():
        yield _number(13, strings.number(f"{name}: {value}"))
    started = profile.meta.get("started")
    if started:
        moment = datetime.datetime.fromisoformat(started)
        yield _number(9, round(moment.timestamp() * 1e9))
    longest = max((thread.times[-1] for thread in profile.threads
                   if thread.times), default=0)
    yield _number(10, round(longest * 1e9))
    yield _bytes(11, time_unit)
    yield _number(12, _period(profile.threads, scale))
    yield _number(14, strings.number(unit or "cpu"))
    yield from strings.encoded()


def _period(threads, scale):
    """Return what most samples stand for."""
    weights = collections.Counter()
    for thread in threads:
        weights.update(thread.weights)
    return round(weights.most_common(1)[0][0] * scale) if weights else 0


def _samples(profile, thread, strings, scale):
    """Yield a Sample message for each different stack of a thread."""
    labels = b"".join(
        _bytes(3, _number(1, strings.number(key)) + value)
        for key, value in (
            ("pid", _number(3, thread.pid)),
            ("tid", _number(3, thread.tid)),
            ("process", _number(2, strings.number(thread.process_name))),
            ("thread", _number(2, strings.number(thread.name)))))
    counts = collections.Counter(thread.stacks)
    seconds = collections.Counter()
    for stack, weight in zip(thread.stacks, thread.weights):
        seconds[stack] += weight
    for stack, weight in seconds.items():
        innermost_first = [frame + 1 for frame in profile.frames_of(stack)]
        innermost_first.reverse()
        yield _bytes(2, _numbers(1, innermost_first)
                     + _numbers(2, [counts[stack], round(weight * scale)])
                     + labels)


def write(profile, file):
    # The time in the header of gzip would make equal profiles differ.
    with gzip.GzipFile(fileobj=file, mode="wb", filename="",
                       mtime=0) as compressed:
        for message in _messages(profile):
            compressed.write(message)
