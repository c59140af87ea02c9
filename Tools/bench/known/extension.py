"""Most of the time is in C: zlib and json, and some in Python."""

import json
import random
import zlib

import known

DATA = bytes(random.Random(1).choices(b"profiler", k=200_000))
RECORDS = [{"number": number, "text": str(number)} for number in range(4000)]


def pack():
    zlib.compress(DATA, 9)


def encode():
    json.dumps(RECORDS)


def count():
    number = 0
    for record in RECORDS:
        number += record["number"]


def work():
    for _ in range(60):
        known.timed(pack)
        known.timed(encode)
        for _ in range(10):
            known.timed(count)


known.run(work)
