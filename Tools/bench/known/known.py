"""What the programs here share: they know what their functions take.

The file that is the program's argument gets {"functions": {name: seconds of
CPU time}, "busy": seconds, "cpu": seconds}, without start and end.  Busy is
the main thread's time but for that in which others had the processor, so that
a profiler that stops the program counts, and a busy machine does not; where
other threads do the work, it is the CPU time.
"""

import collections
import json
import sys
import threading
import time

seconds = collections.Counter()
lock = threading.Lock()


def timed(function, *args):
    start = time.thread_time()
    function(*args)
    taken = time.thread_time() - start
    with lock:
        seconds[function.__name__] += taken


def queued():
    """Return for how long this thread has waited for a processor."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


def run(work, has_threads=False):
    start, cpu, waited = time.perf_counter(), time.process_time(), queued()
    work()
    waited = queued() - waited
    elapsed = time.perf_counter() - start
    cpu = time.process_time() - cpu
    with open(sys.argv[1], "w") as file:
        json.dump({"functions": seconds, "cpu": cpu,
                   "busy": cpu if has_threads else elapsed - waited}, file)
