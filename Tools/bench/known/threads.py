"""Threads that compute, one twice as much as the other, and one that waits."""

import threading
import time

import known


def large():
    sum(number * number for number in range(60_000))


def small():
    sum(number * number for number in range(30_000))


def mostly_waits():
    sum(number * number for number in range(3_000))
    time.sleep(0.005)


def repeat(function, count):
    for _ in range(count):
        known.timed(function)


def work():
    threads = [threading.Thread(target=repeat, args=args) for args in
               [(large, 500), (small, 500), (mostly_waits, 500)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


known.run(work, has_threads=True)
