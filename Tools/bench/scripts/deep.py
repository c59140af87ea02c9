"""Recursion 900 deep, in a loop."""


def descend(n):
    if n:
        return descend(n - 1) + 1
    return 0


for _ in range(4000):
    descend(900)
