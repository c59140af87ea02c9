"""Recursive calls of one small function."""


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


for _ in range(2):
    fib(30)
