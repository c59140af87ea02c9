"""Something to profile: foo() calls bar(), which calls baz(), which works."""


def baz(rounds):
    total = 0
    for number in range(rounds):
        total += number * number % 7
    return total


def bar(rounds):
    return baz(rounds)


def foo(rounds):
    return bar(rounds)


if __name__ == "__main__":
    foo(15_000_000)
