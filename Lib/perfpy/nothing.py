"""Why a recording has no samples, as far as that can be told.

Called by run.py.
"""

from perfpy import units

SHORT = 0.1         # seconds that may pass without a sample
IDLE = 0.02         # the clock of /proc ticks every 0.01 s


def reason(event, seconds, cpu_seconds=None):
    """Return a line for the user.

    seconds        how long was recorded
    cpu_seconds    how long the processes ran meanwhile, or None if unknown
    """
    if not units.is_time(event):
        cause = f"{event} did not happen, or perf cannot count it here"
    elif cpu_seconds is not None and cpu_seconds < IDLE:
        cause = ("the processes were waiting all the time, and only running "
                 "is recorded; give them something to do, or record for "
                 "longer")
    elif seconds < SHORT and cpu_seconds is not None:
        cause = f"it took {seconds:.3f} s; a longer --duration may help"
    elif seconds < SHORT:
        cause = (f"the script took {seconds:.3f} s; a higher --frequency may "
                 "help")
    else:
        cause = "perfpy doctor looks for what may be wrong with perf"
    return f"nothing was recorded: {cause}"
