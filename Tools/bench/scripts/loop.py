"""An empty loop: no calls at all."""


def loop(n):
    for _ in range(n):
        pass


loop(40_000_000)
