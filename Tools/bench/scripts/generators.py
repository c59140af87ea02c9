"""Three generators, one inside the other."""


def numbers(n):
    for i in range(n):
        yield i


def even(source):
    for i in source:
        if not i & 1:
            yield i


def squares(source):
    for i in source:
        yield i * i


for _ in range(6):
    sum(squares(even(numbers(700_000))))
