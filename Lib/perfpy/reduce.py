"""Take from perf's stream what the samples' stacks say, while it records.

perf copies the stack with each sample, up to 64 KiB.  That would be 30 MB a
second, so nothing of it is kept but what stackcopy.py finds in it, and the
short piece in which perf can later find the native functions that the
innermost Python function has called.  What is written is perf's stream again,
for `perf script`: all records as they are, but for the samples.  The stack of
one of ours is shortened, and its call chain gets one more address, a *token*
that stands for its Python functions::

    kernel's functions        as they were
    PERF_CONTEXT_USER
    token                     TOKEN | chain << 2 | End; NONE: image << 2
    native functions          perf finds them in the piece of the stack

Started by perf.py, as a thread of its own.  A failure is kept
until somebody asks, and the rest of the stream is thrown away, so that perf
never waits for us.
"""

import signal
import struct
import threading

from perfpy import perfstream, places, registers, stackcopy
from perfpy.stackcopy import End, Functions

TOKEN = 5 << 60             # no program has code at such an address

# Bytes of a stack that are kept for perf, at most.
PIECE = 8192

_BUFFER = 1 << 22
_LARGEST_RECORD = 1 << 16

_HEAD = struct.Struct("<IHH")
_U64 = struct.Struct("<Q")
_TASKS = struct.Struct("<II")


class Reducer(threading.Thread):
    """Reads a stream from a pipe to its end.

    Afterwards there are: functions, images, and counts.
    """

    def __init__(self, source, path):
        super().__init__(name="perfpy-reduce", daemon=True)
        self._source = source               # a descriptor, which is closed
        self._target = open(path, "wb", buffering=1 << 20)
        self._architecture = registers.of_machine()
        self._error = None
        self._layouts = {}                  # identifier or None: layout
        self._places = places.Places()
        self.functions = stackcopy.Functions()
        self._finder = stackcopy.Finder(self._architecture, self.functions)
        # A sample whose processor's records came before those that tell what
        # is mapped waits for them: perf promises them for the next round.
        self._previous, self._postponed = [], []
        self._round, self._waiting = [], []
        self.samples = 0

    @property
    def images(self):
        return self._places.all

    def finish(self):
        """Wait for the end of the stream; raise OSError if it failed."""
        self.join()
        if self._error:
            raise self._error

    # --- The stream -------------------------------------------------------

    def run(self):
        # Signals are for the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with open(self._source, "rb", buffering=0) as source:
            try:
                with self._target:
                    self._read(source)
            except Exception as error:
                self._error = error
                while source.read(_BUFFER):
                    pass

    def _read(self, source):
        buffer = bytearray(_BUFFER)
        view = memoryview(buffer)
        end = 0
        while end < len(perfstream.HEAD):
            count = source.readinto(view[end:])
            if not count:
                return
            end += count
        if not buffer.startswith(perfstream.HEAD):
            raise OSError("this perf writes another format")
        place = len(perfstream.HEAD)
        self._target.write(perfstream.HEAD)
        while True:
            place = self._records(buffer, place, end)
            if end + _LARGEST_RECORD > _BUFFER:
                buffer[:end - place] = buffer[place:end]
                place, end = 0, end - place
            count = source.readinto(view[end:])
            if not count:
                break
            end += count
        self._end_round()
        self._end_round()
        if place < end:
            raise OSError("perf's stream breaks off")

    def _records(self, buffer, place, end):
        """Take the whole records; return where the rest begins."""
        while end - place >= _HEAD.size:
            kind, flags, size = _HEAD.unpack_from(buffer, place)
            if kind == perfstream.TRACING_DATA and end - place >= 12:
                # Its data follow it.
                size += struct.unpack_from("<I", buffer, place + 8)[0] + 7 & ~7
            if size < _HEAD.size:
                raise OSError("perf's stream is damaged")
            if place + size > end:
                break
            if kind == perfstream.SAMPLE:
                self._sample(buffer, place, size)
            else:
                self._other(kind, flags, bytes(buffer[place:place + size]))
            place += size
        return place

    def _other(self, kind, flags, record):
        if kind == perfstream.FINISHED_ROUND:
            self._end_round()
        self._round.append(record)
        if kind in (perfstream.MMAP, perfstream.MMAP2):
            pid, address, size, offset, executable, path = perfstream.mapping(
                kind, record)
            if executable:
                self._places.map(pid, self._time_of(record), address, size,
                                 offset, path)
        elif kind == perfstream.FORK:
            self._places.fork(*_TASKS.unpack_from(record, 8),
                              self._time_of(record))
        elif kind == perfstream.COMM:
            if flags & perfstream.COMM_IS_EXEC:
                self._places.execute(_TASKS.unpack_from(record, 8)[0],
                                     self._time_of(record))
        elif kind == perfstream.ATTRIBUTES:
            layout, identifiers = perfstream.layout_of(record)
            for identifier in identifiers:
                self._layouts[identifier] = layout
            self._layouts.setdefault(None, layout)

    def _time_of(self, record):
        return self._layouts[None].time_of(record) if self._layouts else 0

    def _end_round(self):
        """Write the round before; its samples can wait no longer."""
        for index, layout, record in self._postponed:
            self._previous[index] = self._reduce(layout, record, 0,
                                                 len(record), True)
        self._target.writelines(self._previous)
        self._previous = self._round
        self._postponed = self._waiting
        self._round, self._waiting = [], []

    # --- Samples ----------------------------------------------------------

    def _sample(self, buffer, place, size):
        self.samples += 1
        layout = self._layouts[None]
        if layout.has_identifier:
            layout = self._layouts.get(
                _U64.unpack_from(buffer, place + 8)[0], layout)
        record = None
        if layout.is_known:
            record = self._reduce(layout, buffer, place, size, False)
            if record is None:
                self._waiting.append((len(self._round), layout,
                                      bytes(buffer[place:place + size])))
        else:
            record = bytes(buffer[place:place + size])
        self._round.append(record)

    def _reduce(self, layout, buffer, place, size, is_last_time):
        """Return the reduced record.

        Return None if not all is found, unless it is the last time.
        """
        sample = layout.find(buffer, place)
        image = self._places.image(sample.pid, sample.time)
        end, chain, needed = End.NONE, Functions.NOTHING, PIECE
        if image and image.has_python and sample.copied:
            end, chain, needed = self._find(layout, buffer, sample, image)
        if end is not End.NONE:
            image.note_functions(sample.tid, sample.time)
            token = TOKEN | chain << 2 | end
        elif not is_last_time:
            return None
        else:
            needed = PIECE
            token = (TOKEN | image.number << 2
                     if image and image.has_python else None)
        return _shortened(buffer, place, size, sample, needed, token)

    def _find(self, layout, buffer, sample, image):
        machine = self._architecture

        def register(number):
            return _U64.unpack_from(
                buffer, sample.registers + layout.register(number))[0]

        return self._finder.find(
            image, sample.tid, buffer, sample.stack, sample.copied,
            register(machine.stack_pointer), register(machine.frame_pointer),
            None if machine.return_address is None
            else register(machine.return_address))


def _shortened(buffer, place, size, sample, needed, token):
    """Return a sample with a piece of its stack, and with the token."""
    addresses = buffer[sample.callchain + 8:sample.after_callchain]
    if token is not None:
        addresses += _U64.pack(perfstream.CONTEXT_USER) + _U64.pack(token)
    # perf takes the last word for one that is not there.
    keep = min(needed + 8, PIECE, sample.copied) & ~7
    parts = [
        buffer[place + _HEAD.size:sample.callchain],
        _U64.pack(len(addresses) // 8), addresses,
        buffer[sample.after_callchain:sample.stack_size],
        _U64.pack(keep), buffer[sample.stack:sample.stack + keep],
        _U64.pack(keep) if keep else b"",
        buffer[sample.end_of_stack:place + size],
    ]
    body = b"".join(parts)
    kind, flags, _ = _HEAD.unpack_from(buffer, place)
    return _HEAD.pack(kind, flags, _HEAD.size + len(body)) + body
