"""Calls of small functions: 60 %, 30 % and 10 % of the work."""

import known


def step(number):
    return number + 1


def heavy(count):
    for number in range(count):
        step(number)


def medium(count):
    for number in range(count):
        step(number)


def light(count):
    for number in range(count):
        step(number)


def work():
    for _ in range(600):
        known.timed(heavy, 60_000)
        known.timed(medium, 30_000)
        known.timed(light, 10_000)


known.run(work)
