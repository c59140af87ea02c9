"""perfpy's search for Python functions in copies of stacks, on drawn stacks.

test_perfpy_stacks.py has real ones.
"""

import os
import random
import struct
import sys
import sysconfig
import unittest
from test.support.perf_helper import requires_trampoline

from perfpy import architecture, labels, perfstream, returnpoints
from perfpy.places import Image, Mapping, Places
from perfpy.stackcopy import End, Finder, Functions

TOP = 0x7FFC_0000_8000          # an address in a stack
POINT = 0x5555_0000_1234        # where evaluators return to
ARENA = 0x5600_0000_0000
TID = 77


def label(number):
    return ARENA + 16 * number + 8


class Stack:
    """A stack drawn from its lowest word on, below TOP."""

    def __init__(self, machine, words=4096):
        self.machine = architecture.of_machine(machine)
        self.words = [0x1000 + index for index in range(words)]
        self.image = Image(0, TID)
        self.image.add([Mapping(0, POINT, POINT, (POINT,), None),
                        Mapping(0, ARENA, ARENA + (1 << 20), (), None)])
        self.functions = Functions()
        self.finder = Finder(self.machine, self.functions)

    def index(self, address):
        return (address - TOP) // 8 + len(self.words)

    def put(self, address, *words):
        index = self.index(address)
        self.words[index:index + len(words)] = words

    def area(self, address, *numbers, next=None):
        """Put records there, upwards; return the link to the first."""
        pointer = address - self.machine.record     # what a register has
        for number in numbers[:-1]:
            self.put(address, pointer + 16, label(number))
            address += 16
            pointer += 16
        self.put(address, next or pointer + self.machine.own_record,
                 label(numbers[-1]))
        return pointer - 16 * (len(numbers) - 1)

    def evaluator(self, address, link, point=POINT):
        self.put(address, link, point)

    def find(self, stack_pointer, frame_pointer=0, return_address=0,
             size=None):
        """Return (End, numbers of labels outermost first, bytes kept)."""
        data = struct.pack(f"<{len(self.words)}Q", *self.words)
        start = 8 * self.index(stack_pointer)
        end, chain, kept = self.finder.find(
            self.image, TID, bytearray(data), start,
            len(data) - start if size is None else size, stack_pointer,
            frame_pointer, None if self.machine.return_address is None
            else return_address)
        found = []
        while chain:
            number = self.functions.innermost[chain]
            image, address = self.functions.labels[number]
            chain = self.functions.callers[chain]
            found.append((address - ARENA) // 16)
        return end, found[::-1], kept


class SearchTest(unittest.TestCase):

    def on_all(self):
        return map(Stack, ("x86_64", "aarch64", "riscv64"))

    def test_one_area(self):
        for stack in self.on_all():
            link = stack.area(TOP - 0x200, 3, 2, 1)
            stack.evaluator(TOP - 0x400, link)
            for _ in range(2):      # the second time it is known
                self.assertEqual(stack.find(TOP - 0x800),
                                 (End.COMPLETE, [1, 2, 3], 0x410))
            # The evaluator itself runs.
            self.assertEqual(stack.find(TOP - 0x400),
                             (End.COMPLETE, [1, 2, 3], 0x10))

    def test_areas_that_are_linked(self):
        for stack in self.on_all():
            outer = stack.area(TOP - 0x200, 2, 1)
            stack.evaluator(TOP - 0x400, outer)
            inner = stack.area(TOP - 0x600, 4, 3, next=outer)
            stack.evaluator(TOP - 0x700, inner)
            self.assertEqual(stack.find(TOP - 0x800)[:2],
                             (End.COMPLETE, [1, 2, 3, 4]))
            # The same records after a return.
            self.assertEqual(stack.find(TOP - 0x500)[:2],
                             (End.COMPLETE, [1, 2]))

    def test_cut(self):
        for stack in self.on_all():
            outer = stack.area(TOP - 0x200, 2, 1)
            inner = stack.area(TOP - 0x600, 4, 3, next=outer)
            stack.evaluator(TOP - 0x700, inner)
            for size, found in ((0x800, [1, 2, 3, 4]), (0x610, [2, 3, 4]),
                                (0x608, [3, 4]), (0x410, [3, 4]),
                                (0x210, [4]), (0x200, []), (0x110, [])):
                end, numbers, _ = stack.find(TOP - 0x800, size=size)
                self.assertEqual(numbers[::-1], found[::-1])
            self.assertEqual(end, End.CUT)
            # Without the place itself nothing is known.
            self.assertEqual(stack.find(TOP - 0x800, size=0x108)[0],
                             End.NONE)

    def test_instructions_without_a_link(self):
        stack = Stack("x86_64")
        link = stack.area(TOP - 0x200, 2, 1)
        stack.put(TOP - 0x400, POINT)       # called, or about to return
        self.assertEqual(stack.find(TOP - 0x400, frame_pointer=link),
                         (End.COMPLETE, [1, 2], 8))
        for machine in "aarch64", "riscv64":
            stack = Stack(machine)
            link = stack.area(TOP - 0x200, 2, 1)
            self.assertEqual(stack.find(TOP - 0x400, link, POINT),
                             (End.COMPLETE, [1, 2], 0))
            # The register has the address for longer than that.
            stack.evaluator(TOP - 0x380, link)
            own = TOP - 0x380 - stack.machine.record
            self.assertEqual(stack.find(TOP - 0x400, own, POINT),
                             (End.COMPLETE, [1, 2], 0x90))

    def test_signed_return_addresses(self):
        stack = Stack("aarch64")
        link = stack.area(TOP - 0x200, 2, 1)
        signed = POINT | 0xB7 << 48
        stack.evaluator(TOP - 0x400, link, signed)
        self.assertEqual(stack.find(TOP - 0x800)[:2], (End.COMPLETE, [1, 2]))
        self.assertEqual(stack.find(TOP - 0x300, link, signed)[:2],
                         (End.COMPLETE, [1, 2]))

    def test_what_looks_like_an_evaluator(self):
        for stack in self.on_all():
            link = stack.area(TOP - 0x200, 2, 1)
            stack.evaluator(TOP - 0x400, link)
            # No link, a link downwards, records without labels, a circle.
            stack.put(TOP - 0x788, 0, POINT)
            stack.put(TOP - 0x748, TOP - 0x790, POINT)
            stack.put(TOP - 0x708, TOP - 0x500, POINT)
            stack.put(TOP - 0x6C8, TOP - 0x300 - stack.machine.record, POINT)
            stack.put(TOP - 0x300, TOP - 0x300 - stack.machine.record,
                      label(9))
            self.assertEqual(stack.find(TOP - 0x800),
                             (End.COMPLETE, [1, 2], 0x410))

    def test_place_between_words(self):
        stack = Stack("x86_64")
        link = stack.area(TOP - 0x200, 2, 1)
        stack.evaluator(TOP - 0x400, link)
        stack.put(TOP - 0x600, POINT << 32 & (1 << 64) - 1, POINT >> 32)
        self.assertEqual(stack.find(TOP - 0x800)[2], 0x410)

    def test_nothing(self):
        for stack in self.on_all():
            self.assertEqual(stack.find(TOP - 0x800),
                             (End.NONE, [], 0))

    def test_record_that_changed(self):
        # What is known of a chain is known by all of its contents.
        stack = Stack("x86_64")
        link = stack.area(TOP - 0x200, 3, 2, 1)
        stack.evaluator(TOP - 0x400, link)
        self.assertEqual(stack.find(TOP - 0x800)[1], [1, 2, 3])
        stack.area(TOP - 0x200, 3, 7, 1)
        self.assertEqual(stack.find(TOP - 0x800)[1], [1, 7, 3])


class FilesTest(unittest.TestCase):

    @requires_trampoline
    def test_return_points(self):
        library = sysconfig.get_config_var("LDLIBRARY")
        path = sys.executable
        if library.endswith(".so"):
            path = os.path.join(sysconfig.get_config_var("LIBDIR"), library)
        points = returnpoints.of_file(path)
        self.assertGreaterEqual(len(points), 4)
        with open(path, "rb") as file:
            data = file.read()
        if os.uname().machine == "x86_64":
            for point in points:
                self.assertEqual(data[point - 3:point], b"\x41\xff\xd1")

    def test_other_files(self):
        for path in (os.devnull, "/no/such/file", __file__, "/proc/self/mem",
                     os.path.dirname(__file__)):
            self.assertEqual(returnpoints.of_file(path), ())

    def test_names(self):
        pid = (1 << 30) + os.getpid()       # no process has this number
        path = f"/tmp/perf-{pid}.map"
        with open(path, "w") as file:
            file.write("1000 10 py::old:/a.py\n"
                       "no line\n1010 zz py::x:/a.py\n"
                       "1000 10 py::f g:/b c.py\n1010 10 py::h:/a.py\n")
        self.addCleanup(os.unlink, path)
        name_of = labels.names(Image(0, pid))
        self.assertEqual(
            [name_of(address) for address in (
                0x1000, 0x1008, 0x1010, 0x1018, 0x1020, 0x1021, 8)],
            [None, ("py::f g:/b c.py", 0), ("py::f g:/b c.py", 0),
             ("py::h:/a.py", 0), ("py::h:/a.py", 0), None, None])
        # A child that nobody told has its parent's.
        child = Image(1, 1 << 30, 0, Image(0, pid))
        self.assertEqual(labels.names(child)(0x1018), ("py::h:/a.py", 0))

    def test_names_and_lines(self):
        pid = (1 << 30) + os.getpid()
        path = f"/tmp/perf-{pid}.map"
        with open(path, "w") as file:
            file.write("1000 e py::f:/a.py\n"      # as large as with lines
                       "100e 4 py::f:/a.py:7\n"
                       "1012 e py::f:/a.py\n"      # code without line
                       "1020 2 py::f:/a.py:9\n"
                       "1030 e py::g:/a.py\n1022 e py::f:/a.py:12\n"
                       "103e 2 py::g:/a.py:x\n"
                       "1040 10 py::h:/a.py:5\n")  # the file's own name
        self.addCleanup(os.unlink, path)
        # What a child has named itself is another function in its parent.
        parent = Image(0, pid + 1)
        path = f"/tmp/perf-{pid + 1}.map"
        with open(path, "w") as file:
            file.write("1004 8 py::q:/a.py\n1100 10 py::p:/a.py\n")
        self.addCleanup(os.unlink, path)
        name_of = labels.names(Image(1, pid, 0, parent))
        self.assertEqual(name_of(0x1108), ("py::p:/a.py", 0))
        f, g = "py::f:/a.py", "py::g:/a.py"
        self.assertEqual(
            [name_of(address) for address in (
                0x1008, 0x100f, 0x1011, 0x1013, 0x1021, 0x1023, 0x1038, 0x103f,
                0x1048)],
            [(f, 0), (f, 7), (f, 7), (f, 0), (f, 9), (f, 12), (g, 0),
             ("py::g:/a.py:x", 0), ("py::h:/a.py:5", 0)])


class PlacesTest(unittest.TestCase):

    @requires_trampoline
    def test_life_of_a_process(self):
        offsets = returnpoints.of_file(sys.executable)
        if not offsets:
            self.skipTest("the interpreter is in a library")
        points = [0x10000 + offset for offset in offsets]
        events = [
            ("map", 5, 0, 0x10000, 1 << 30, 0, sys.executable),
            ("map", 5, 10, ARENA, 4096, 0, "//anon"),
            ("fork", 5, 5, 11),         # a thread
            ("fork", 6, 5, 20),
            ("map", 6, 25, 2 * ARENA, 4096, 0, "//anon"),
            ("map", 5, 26, 3 * ARENA, 4096, 0, "//anon"),
            ("execute", 6, 30),
            ("map", 6, 31, 0x20000, 1 << 30, 0, sys.executable),
            ("map", 6, 32, 4 * ARENA, 4096, 0, "//anon"),
        ]
        # Processors tell in any order, the kernel that in which they do.
        chance = random.Random(1)
        for _ in range(200):
            places = Places()
            for name, *arguments in events:
                getattr(places, name)(*arguments)
            known = {}
            for pid, time in (5, 12), (6, 27), (6, 33):
                image = places.image(pid, time)
                known[pid, time] = (image.points, [
                    number for number in range(1, 5)
                    if image.is_label(number * ARENA + 8)])
            self.assertEqual(known, {
                (5, 12): (points, [1, 3]), (6, 27): (points, [1, 2]),
                (6, 33): ([0x10000 + point for point in points], [4]),
            }, events)
            chance.shuffle(events)

    def test_other_memory(self):
        places = Places()
        places.map(7, 1, 0x1000, 4096, 0, "[vdso]")
        places.map(7, 1, 0x1000, 4096, 0, "/no/such/library.so")
        self.assertIsNone(places.image(7, 2))
        places.map(7, 1, 0x1000, 4096, 0, "/tmp/jit-7.dump")
        self.assertEqual(places.image(7, 2).jitdump, "/tmp/jit-7.dump")
        self.assertFalse(places.image(7, 2).is_label(0x1008))


class LayoutTest(unittest.TestCase):

    def layout(self, sample_type, mask):
        attributes = bytearray(128)
        struct.pack_into("<Q", attributes, 24, sample_type)
        struct.pack_into("<Q", attributes, 80, mask)
        return perfstream.Layout(attributes)

    def test_parts_of_a_sample(self):
        # IP, TID, TIME, CALLCHAIN, CPU, RAW, REGS_USER, STACK_USER
        layout = self.layout(1 | 2 | 4 | 32 | 128 | 1024 | 4096 | 8192,
                             0b1100_0001)
        self.assertTrue(layout.is_known)
        self.assertEqual([layout.register(number) for number in (0, 6, 7)],
                         [0, 8, 16])
        record = struct.pack(
            "<IHHQIIQQ 3Q I4s 4Q Q16sQ8s", 9, 2, 0, 0x1234, 11, 12, 99, 1,
            2, 0xA, 0xB, 4, b"raw!", 1, 70, 76, 77, 16, b"0123456789abcdef",
            8, b"the tail")
        sample = layout.find(b"xx" + record, 2)
        self.assertEqual((sample.pid, sample.tid, sample.time), (11, 12, 99))
        self.assertEqual(record[sample.stack - 2:][:sample.copied],
                         b"01234567")
        self.assertEqual(record[sample.end_of_stack - 2:], b"the tail")
        self.assertEqual(sample.after_callchain - sample.callchain, 24)
        self.assertEqual(
            struct.unpack_from("<Q", record, sample.registers - 2 + 16)[0],
            77)

    def test_other_samples(self):
        for sample_type in 1 | 2 | 32, 2 | 32 | 4096 | 8192 | 16:
            self.assertFalse(self.layout(sample_type, 1).is_known)


if __name__ == "__main__":
    unittest.main()
