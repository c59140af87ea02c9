"""How perf finds the callers of a function: the choice, and its options.

By frame pointers, wherever the interpreter has them: any perf can, and
recordings are small.  Else by unwind information (DWARF), for which perf
copies a piece of the stack with each sample, and merges a jitdump into the
recording.

Called by run.py and doctor.py.
"""

import typing

FREQUENCY = {"fp": 999, "dwarf": 199}
NAMES = {"fp": "frame pointers", "dwarf": "unwind information"}
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
    """Return the best Unwinding; forced is "fp", "dwarf" or None.

    has_frame_pointers is None if nobody knows.
    """
    too_old = (f"perf {perf.version_text} cannot follow unwind information "
               "into Python functions, 6.8 can")
    incomplete = "stacks may lack callers"
    if forced:
        reason = f"{NAMES[forced]}, as asked"
        if forced == "dwarf" and not perf.can_unwind_jitted:
            reason += f", but {too_old}: {incomplete}"
        elif forced == "fp" and has_frame_pointers is False:
            reason += (", but the interpreter was built without them: "
                       + incomplete)
        return Unwinding(forced, reason)
    if has_frame_pointers is None:
        return Unwinding("fp", "frame pointers; if the interpreter was built "
                         f"without them, {incomplete}")
    if has_frame_pointers:
        return Unwinding("fp", "frame pointers, which the interpreter has")
    if perf.can_unwind_jitted:
        return Unwinding("dwarf", "unwind information, as the interpreter "
                         "was built without frame pointers")
    return Unwinding("fp", "frame pointers, though the interpreter was built "
                     f"without them, as {too_old}: {incomplete}")
