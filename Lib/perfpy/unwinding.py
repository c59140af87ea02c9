"""How perf finds the callers of a function: the choice, and its options.

By frame pointers, wherever the interpreter has them: any perf can, and
recordings are small.  Else by unwind information (DWARF), for which perf copies
a piece of the stack with each sample, and merges a jitdump into the recording.

Called by run.py and doctor.py.
"""

import typing

FREQUENCY = {"fp": 999, "dwarf": 199}
STACK_SIZE = 32768      # bytes of each stack that perf copies, at most 65528


class Unwinding(typing.NamedTuple):
    method: str         # "fp" or "dwarf"
    reason: str         # one line for the user

    @property
    def backend(self):
        """The name of -X option and of the trampoline's back end."""
        return "perf_jit" if self.method == "dwarf" else "perf"

    def record_options(self, event, frequency):
        how = f"dwarf,{STACK_SIZE}" if self.method == "dwarf" else "fp"
        # The clock of the jitdump; its times are easy to read, too.
        return ["-k", "CLOCK_MONOTONIC", "-e", event, "-F", str(frequency),
                "--call-graph", how]


def choose(forced, has_frame_pointers, perf):
    """Return the best Unwinding; forced is "fp", "dwarf" or None."""
    too_old = (f"perf {perf.version_text} cannot follow unwind information "
               "into Python functions, 6.8 can")
    if forced == "dwarf":
        return Unwinding("dwarf", "unwind information, as asked" if
                         perf.can_unwind_jitted else
                         f"unwind information, as asked, but {too_old}: "
                         "stacks may lack callers")
    if forced == "fp":
        return Unwinding("fp", "frame pointers, as asked" if
                         has_frame_pointers else
                         "frame pointers, as asked, but the interpreter was "
                         "built without them: stacks may lack callers")
    if has_frame_pointers:
        return Unwinding("fp", "frame pointers, which the interpreter has")
    if perf.can_unwind_jitted:
        return Unwinding("dwarf", "unwind information, as the interpreter "
                         "was built without frame pointers")
    return Unwinding("fp", "frame pointers, though the interpreter was built "
                     f"without them, as {too_old}: stacks may lack callers")
