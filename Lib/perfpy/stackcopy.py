"""Find the Python functions in a copy of a C stack.

The words {link, return address} on the stack show where an evaluator runs
below labels.  The link is the address of the newest record, and records
{address of the next, label} are linked up to the outermost one, whose next is
the real frame record of the code that made the area::

    high addresses   X                          beside R0: the end
                     R0: {X, label}
                     ...
                     {next, label}    <--.
                     return address      |      the place that is looked for
                     link  --------------'
                     what the evaluator calls
    stack pointer

See Doc/design/whole_stacks.rst.  Used by reduce.py for each sample, so every
microsecond counts.
"""

import array
import enum
import struct

_WORD = struct.Struct("<Q")
_RECORD = struct.Struct("<QQ")

CHAINS_KNOWN = 16_384       # most to remember, for speed
LONGEST_KNOWN = 4096        # bytes of one that is worth it
NEAR = 4096, 16384          # bytes of a copy to search before the whole


class End(enum.IntEnum):
    """How a search went.  The numbers go into tokens."""

    NONE = 0            # no evaluator below labels
    COMPLETE = 1        # down to the outermost function
    CUT = 2             # further functions are beyond the copy


class Functions:
    """The different chains of Python functions in a recording.

    A chain is the number of a node.  callers[number] is the chain without its
    innermost function, innermost[number] the number of that function's label,
    and labels[that] is (image, address).
    """

    NOTHING = 0

    def __init__(self):
        self.callers = array.array("i", [self.NOTHING])
        self.innermost = array.array("i", [-1])
        self.labels = []
        self._numbers = {}

    def label(self, image, address):
        """Return the number of a label; None if it cannot be one."""
        number = image.labels.get(address)
        if number is None and image.is_label(address):
            number = image.labels[address] = len(self.labels)
            self.labels.append((image, address))
        return number

    def chain(self, labels):
        """Return the chain of these labels' numbers, innermost first."""
        numbers = self._numbers
        chain = self.NOTHING
        for label in reversed(labels):
            key = chain << 32 | label
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(self.callers)
                self.callers.append(chain)
                self.innermost.append(label)
            chain = number
        return chain


class Finder:

    def __init__(self, architecture, functions):
        self._architecture = architecture
        self._functions = functions
        self._ends = {}     # (image, thread): address of its outermost record
        self._known = {}    # (image, link, records): chain

    def find(self, image, tid, buffer, start, size, stack_pointer,
             frame_pointer, return_address):
        """Return (End, chain, bytes up to and with the return address).

        buffer[start:start + size] is the copy, whose lowest byte was at the
        stack pointer.  The registers are those of the sample; return_address
        is None where calls put it on the stack.
        """
        place = start
        if return_address is not None:
            found = self._entered(image, tid, buffer, start, size,
                                  stack_pointer, frame_pointer, return_address)
            if found:
                return found
        while True:
            place = self._next_place(image, buffer, start, place,
                                     start + size)
            if place is None:
                return End.NONE, Functions.NOTHING, 0
            # The evaluator's first and last instructions have no link.
            link = (frame_pointer if place == start
                    else _WORD.unpack_from(buffer, place - 8)[0])
            lowest = stack_pointer + place - start
            end, chain = self._walk(image, tid, buffer,
                                    start - stack_pointer, lowest,
                                    stack_pointer + size, link)
            if end:
                return end, chain, place + 8 - start
            place += 8      # something that an earlier call has left

    def _entered(self, image, tid, buffer, start, size, stack_pointer,
                 frame_pointer, return_address):
        """The same if the return address is still in its register only."""
        bits = self._architecture.address_bits
        return_address &= (1 << bits) - 1
        if return_address not in image.points:
            return None
        record = (frame_pointer + self._architecture.record + 8
                  - stack_pointer)
        if 0 <= record <= size - 8:
            saved, = _WORD.unpack_from(buffer, start + record)
            if saved & (1 << bits) - 1 == return_address:
                return None     # the evaluator has made its record
        end, chain = self._walk(image, tid, buffer, start - stack_pointer,
                                stack_pointer, stack_pointer + size,
                                frame_pointer)
        return (end, chain, 0) if end else None

    def _next_place(self, image, buffer, start, place, stop):
        """Return where the first return address of an evaluator is."""
        # Mostly it is near.
        for size in NEAR:
            near = place + size
            if near < stop:
                found = self._search(image, buffer, start, place, near)
                if found is not None:
                    return found
        return self._search(image, buffer, start, place, stop)

    def _search(self, image, buffer, start, place, stop):
        best = None
        length = self._architecture.address_bits // 8
        for needle in image.needles:
            needle = needle[:length]
            found = buffer.find(needle, place, stop)
            while found >= 0 and (found - start) % 8:
                found = buffer.find(needle, found + 1, stop)
            if found >= 0:
                best = found
                stop = found + length - 1
        return best

    def _walk(self, image, tid, buffer, base, lowest, stop, link):
        """Return (End, chain) of the records from a link on.

        An address plus base is its place in the buffer; the copy has lowest
        and what is above it up to stop.
        """
        link += self._architecture.record
        if link & 7 or link < lowest:
            return End.NONE, Functions.NOTHING
        thread = image, tid
        # The outermost record of a thread is mostly where it was.
        outermost = self._ends.get(thread, 0)
        size = outermost + 16 - link
        if 0 < size <= LONGEST_KNOWN and outermost + 16 <= stop:
            key = image, link, bytes(buffer[base + link:base + link + size])
            chain = self._known.get(key)
            if chain is not None:
                return End.COMPLETE, chain
        labels = []
        own_record = self._architecture.own_record
        distance = self._architecture.record
        number_of = image.labels.get
        unpack = _RECORD.unpack_from
        last = stop - 16
        here = link
        end = End.CUT
        while here <= last:
            next, address = unpack(buffer, base + here)
            label = number_of(address)
            if label is None:
                label = self._functions.label(image, address)
                if label is None:
                    return End.NONE, Functions.NOTHING
            labels.append(label)
            next += distance
            if next - here == own_record:
                end = End.COMPLETE
                break
            if next <= here or next & 7:
                return End.NONE, Functions.NOTHING
            here = next
        chain = self._functions.chain(labels)
        if end is End.COMPLETE:
            self._remember(thread, image, buffer, base, link, here, chain)
        return end, chain

    def _remember(self, thread, image, buffer, base, link, outermost, chain):
        self._ends[thread] = outermost
        if outermost + 16 - link <= LONGEST_KNOWN:
            if len(self._known) >= CHAINS_KNOWN:
                self._known.clear()
            records = bytes(buffer[base + link:base + outermost + 16])
            self._known[image, link, records] = chain
