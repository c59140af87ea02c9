"""The trampoline's assembly in programs that check where calls and returns go:
AArch64's branch target identification (BTI) and pointer authentication (PAC).

A small program without a C library is built around Python/asm_trampoline_*.S.
All of its code must be marked, or the linker would not mark the program, and
the processor, or the emulator, not check.
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import unittest
from test.support.perf_helper import EMULATOR, requires_trampoline

SOURCE = (pathlib.Path(sysconfig.get_config_var("srcdir")) / "Python"
          / f"asm_trampoline_{os.uname().machine}.S")
PROTECT = "-mbranch-protection=standard"

PROGRAM = r"""
typedef unsigned long word;
typedef struct record { struct record *next; word label; } record;
typedef word evaluator(word tstate, word frame, int throwflag, record *lowest);
typedef word enter(word tstate, word frame, record *next, word label,
                   word free_bytes_and_flags, evaluator *);
typedef word share(word tstate, word frame, int throwflag, record *lowest,
                   record *newest, evaluator *);
extern enter _PyPerf_EnterArea, _PyPerf_EnterAreaWithUnwindInfo;
extern share _PyPerf_ShareArea, _PyPerf_ShareAreaWithUnwindInfo;
extern word _PyPerf_EnterWithoutArea(word tstate, word frame, int throwflag);
extern word _PyPerf_EnterLinesWithoutArea(word tstate, word frame,
                                          int throwflag);

#define LABEL 0x1234
#define FREE 512

static record *caller;

/* Return what was passed if all is as it should be, else a small number. */
static __attribute__((noinline)) word
look(word tstate, word frame, int throwflag, record *lowest)
{
    record *own = __builtin_frame_address(0);
    record *first = own->next;
    if (first->label != LABEL || (word)first - (word)lowest != FREE) {
        return 1;
    }
    if (first->next->next != caller) {
        return 2;
    }
    return throwflag == 3 ? tstate + frame : 3;
}

/* What is entered without an area. */
word
_PyEval_EvalFrameDefault_labelled(word tstate, word frame, int throwflag,
                                  record *lowest)
{
    record *own = __builtin_frame_address(0);
    return own->next == lowest && throwflag == 3 ? tstate + frame : 4;
}

word
_PyEval_EvalFrameDefault_lines(word tstate, word frame, int throwflag,
                               record *lowest)
{
    record *own = __builtin_frame_address(0);
    return own->next == lowest && throwflag == 3 ? tstate - frame : 5;
}

void
_start(void)
{
    enter *volatile enters[] = {_PyPerf_EnterArea,
                                _PyPerf_EnterAreaWithUnwindInfo};
    share *volatile shares[] = {_PyPerf_ShareArea,
                                _PyPerf_ShareAreaWithUnwindInfo};
    word status = 0;
    caller = __builtin_frame_address(0);
    record outer = {caller, LABEL}, records[FREE / 16 + 1];
    record *newest = records + FREE / 16;
    *newest = (record){&outer, LABEL};
    for (int i = 0; i < 2; i++) {
        if (enters[i](100, 200, 0, LABEL, FREE | 3, look) != 300
            || enters[i](100, 200, &outer, LABEL, FREE | 3, look) != 300
            || shares[i](100, 200, 3, records, newest, look) != 300) {
            status = i + 1;
        }
    }
    if (_PyPerf_EnterWithoutArea(100, 200, 3) != 300
        || _PyPerf_EnterLinesWithoutArea(200, 100, 3) != 100) {
        status = 3;
    }
    register word number __asm__("x8") = 93;        /* exit() */
    register word argument __asm__("x0") = status;
    __asm__ volatile("svc #0" : : "r"(number), "r"(argument));
}
"""


@requires_trampoline
class BranchProtectionTest(unittest.TestCase):

    def setUp(self):
        if not SOURCE.exists():
            self.skipTest(f"{SOURCE} is only in the source tree")
        self.compiler = shlex.split(sysconfig.get_config_var("CC"))
        if shutil.which(self.compiler[0]) is None:
            self.skipTest(f"{self.compiler[0]} is not installed")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "program.c").write_text(PROGRAM)
        if self.compile(PROTECT, "-c", "-x", "c", os.devnull,
                        "-o", self.directory / "nothing.o").returncode != 0:
            self.skipTest(f"{self.compiler[0]} has no {PROTECT}")

    def compile(self, *arguments):
        return subprocess.run(
            [*self.compiler, "-O2", "-fno-omit-frame-pointer", *arguments],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)

    def build(self, name, protection_of_assembly, *link):
        """Return the path of the program."""
        paths = [self.directory / f"{name}.{part}" for part in ("c.o", "S.o")]
        for source, path, protection in (
                (self.directory / "program.c", paths[0], PROTECT),
                (SOURCE, paths[1], protection_of_assembly)):
            result = self.compile(protection, "-c", source, "-o", path)
            self.assertEqual(result.returncode, 0, result.stdout)
        program = self.directory / name
        result = self.compile("-nostdlib", "-static", *link, *paths,
                              "-o", program)
        self.assertEqual(result.returncode, 0, result.stdout)
        return program

    def run_program(self, program):
        return subprocess.run([*EMULATOR, program], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=60).returncode

    def test_protected(self):
        program = self.build("protected", PROTECT)
        notes = subprocess.run(["readelf", "--notes", program], text=True,
                               stdout=subprocess.PIPE, check=True).stdout
        self.assertTrue(re.search(r"Properties: .*\bBTI\b.*\bPAC\b", notes),
                        notes)
        self.assertEqual(self.run_program(program), 0)

    def test_unprotected(self):
        self.assertEqual(
            self.run_program(self.build("unprotected",
                                        "-mbranch-protection=none")), 0)

    def test_check_is_real(self):
        # The linker is told to take unmarked assembly for marked.
        program = self.build("wrong", "-mbranch-protection=none",
                             "-Wl,-z,force-bti")
        status = self.run_program(program)
        if status == 0 and not EMULATOR:
            self.skipTest("this processor or kernel does not check targets")
        self.assertEqual(status, -signal.SIGILL)


if __name__ == "__main__":
    unittest.main()
