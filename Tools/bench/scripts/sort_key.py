"""Sort with a key function: C calls Python for each element."""

import random


def key(pair):
    return pair[1]


rng = random.Random(1)
pairs = [(i, rng.random()) for i in range(200_000)]
for _ in range(8):
    sorted(pairs, key=key)
