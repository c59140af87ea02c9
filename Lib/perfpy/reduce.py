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

For wall-clock time there is another stream, of samples of threads that stop
to run.  Of those only the ones with another stack than all before are kept;
waits.py knows the others' times.

Started by perf.py, as a thread of its own.  A failure is kept
until somebody asks, and the rest of the stream is thrown away, so that perf
never waits for us.
"""

import signal
import struct
import threading

from perfpy import architecture, initial, perfstream, places, stackcopy
from perfpy.stackcopy import End, Functions

TOKEN = 5 << 60             # no program has code at such an address

# Bytes of a stack that are kept for perf, at most.
PIECE = 8192

# Nanoseconds between two looks at what is beyond a copy.
_LOOK_EVERY = 20_000_000
_NOTHING_FOR = 1_000_000_000    # the same, where there was nothing
_MOST_BEYOND = 10_000

_BUFFER = 1 << 22
_LARGEST_RECORD = 1 << 16

_HEAD = struct.Struct("<IHH")
_U64 = struct.Struct("<Q")
_TASKS = struct.Struct("<II")
_EXITING = struct.Struct("<III")


class Reducer(threading.Thread):
    """Reads a stream from a pipe to its end.

    Afterwards there are: functions, images, and, if asked for, waits.  Of two
    streams with the same Waits, the one of has_switches tells when threads
    run, and the other where they are when they stop.
    """

    def __init__(self, source, path, waits=None, has_switches=True):
        super().__init__(name="perfpy-reduce", daemon=True)
        self._source = source               # a descriptor, which is closed
        self._target = open(path, "wb", buffering=1 << 20)
        self._architecture = architecture.of_machine()
        self._error = None
        self._layouts = {}                  # identifier or None: layout
        self._places = places.Places()
        self.waits = waits and waits.stream()
        self._switches = self.waits if has_switches else None
        self._sites = {}                    # what is known of one: its number
        self.initial = {}                   # of threads that wait already
        self._forced_site = None
        self._beyond = {}                   # see _find_beyond()
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
        if self.waits:
            self._add_initial()
            self.waits.finish()
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
            elif kind == perfstream.SWITCH and self._layouts:
                # There may be very many, and nobody else wants them.
                if self._switches:
                    layout = self._layouts.get(
                        _U64.unpack_from(buffer, place + size - 8)[0],
                        self._layouts[None])
                    pid, tid, time = layout.task_and_time(buffer, place + size)
                    self._switches.switch(
                        time, pid, tid, flags & perfstream.SWITCH_IS_OUT,
                        bool(flags & perfstream.SWITCH_IS_PREEMPTION))
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
        elif kind == perfstream.EXIT:
            if self._switches:
                pid, _, tid = _EXITING.unpack_from(record, 8)
                self._switches.exit(self._time_of(record), pid, tid)
        elif kind == perfstream.COMM:
            if self._switches:
                self._switches.name(_TASKS.unpack_from(record, 8)[1],
                                    perfstream.text(record[16:]))
            if flags & perfstream.COMM_IS_EXEC:
                task = _TASKS.unpack_from(record, 8)
                time = self._time_of(record)
                self._places.execute(task[0], time)
                if self._switches:
                    self._switches.execute(time, *task)
        elif kind == perfstream.ATTRIBUTES:
            layout, identifiers = perfstream.layout_of(record)
            for identifier in identifiers:
                self._layouts[identifier] = layout
            self._layouts.setdefault(None, layout)

    def _time_of(self, record):
        if not self._layouts:
            return 0
        # Other events than that of the samples may tell of processes.
        layout = self._layouts.get(
            _U64.unpack_from(record, len(record) - 8)[0], self._layouts[None])
        return layout.time_of(record)

    def _end_round(self):
        """Write the round before; its samples can wait no longer."""
        for index, layout, record in self._postponed:
            self._previous[index] = self._reduce(layout, record, 0,
                                                 len(record), True)
        if self.waits:
            self.waits.end_round()
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

    def _reduce(self, layout, buffer, place, size, is_last_time,
                waiting=None):
        """Return the reduced record.

        Return None if not all is found, unless it is the last time.  waiting
        has more of the stack than the record.
        """
        sample = layout.find(buffer, place)
        image = self._places.image(sample.pid, sample.time)
        end, chain, needed = End.NONE, Functions.NOTHING, PIECE
        if image and image.has_python and sample.copied:
            end, chain, needed = self._find(layout, buffer, sample, image)
            if end is not End.COMPLETE and self.waits and not self._switches:
                end, chain, needed = (
                    self._find_in(image, waiting) if waiting else
                    self._find_beyond(layout, buffer, sample, image,
                                      is_last_time)
                    ) or (end, chain, needed)
        if end is not End.NONE:
            image.note_functions(sample.tid, sample.time)
            token = TOKEN | chain << 2 | end
        elif not is_last_time:
            return None
        else:
            needed = PIECE
            token = (TOKEN | image.number << 2
                     if image and image.has_python else None)
        if self.waits and not self._switches:
            is_new = self._note_switch(layout, buffer, sample, image,
                                       chain << 2 | end, needed)
            if not is_new:
                return b""
        return _shortened(buffer, place, size, sample, needed, token)

    def _note_switch(self, layout, buffer, sample, image, chain, depth):
        """Tell of a thread that stops to run; return whether its site is new.
        """
        program = stack_pointer = None
        if sample.registers:
            def register(number):
                return _U64.unpack_from(
                    buffer, sample.registers + layout.register(number))[0]
            program = register(self._architecture.program_counter)
            stack_pointer = register(self._architecture.stack_pointer)
        key = (image, chain, depth if chain else (sample.tid, stack_pointer),
               program, bytes(buffer[sample.callchain:sample.after_callchain]))
        site = self._sites.get(key)
        is_new = site is None or self._forced_site is not None
        if self._forced_site is not None:
            site = self._forced_site
        elif is_new:
            site = self._sites[key] = len(self._sites)
        if is_new:
            self.waits.new_site(
                site, sample.time, sample.tid,
                bool(image and image.runtime and program is not None
                     and register(self._architecture.first_argument)
                     in image.runtime))
        if self._forced_site is None:
            self.waits.sample(sample.time, sample.pid, sample.tid, site)
        return is_new

    def _add_initial(self):
        """Write a sample for each thread that had stopped before the others.

        initial has {site: (Waiting, its time)}, and the stream is at its end.
        """
        layout = self._layouts.get(None)
        if not layout or not layout.is_known:
            return
        identifier = next(filter(None, self._layouts), 0)
        for site, (waiting, time) in list(self.initial.items()):
            record = initial.record_of(waiting, layout, time, identifier)
            if record and waiting.stack:
                self._forced_site = site
                self._target.write(self._reduce(layout, record, 0, len(record),
                                                True, waiting))
        self._forced_site = None

    def _find_beyond(self, layout, buffer, sample, image, is_last_time):
        """Find what is higher on the stack than perf has copied, or None.

        perf stops at a page that was never used, too.  The thread is looked
        at while it still waits in the same place, or was not long ago.  So
        the first waits there have no callers if they are short.
        """
        machine = self._architecture
        stack_pointer, program = (
            _U64.unpack_from(buffer, sample.registers
                             + layout.register(number))[0]
            for number in (machine.stack_pointer, machine.program_counter))
        key = sample.pid, sample.tid, stack_pointer, program
        next, found = self._beyond.get(key, (0, None))
        if sample.time < next:
            return found
        next = sample.time + _LOOK_EVERY
        try:
            waiting = initial.look(sample.pid, sample.tid)
        except (OSError, ValueError):
            waiting = None
        if (waiting and waiting.registers.get(machine.stack_pointer)
                == stack_pointer
                and waiting.registers[machine.program_counter] == program):
            found = self._find_in(image, waiting)
            if found[0] is End.NONE:
                found, next = None, sample.time + _NOTHING_FOR
        if found or is_last_time:       # else the labels may be unknown yet
            if len(self._beyond) >= _MOST_BEYOND:
                self._beyond.clear()
            self._beyond[key] = next, found
        return found

    def _find_in(self, image, waiting):
        machine = self._architecture
        return self._finder.find(
            image, waiting.tid, waiting.stack, 0, len(waiting.stack),
            waiting.registers[machine.stack_pointer], 0,
            None if machine.return_address is None else 0)

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
