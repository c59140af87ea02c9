"""pandas and numpy: files, functions for each row, joins, tables, BLAS."""
import io
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy
import pandas

ROWS, ROUNDS = 60_000, 10


def make():
    random = numpy.random.default_rng(1)
    return pandas.DataFrame({
        "k": random.integers(0, 500, ROWS),
        "g": random.choice(list("abcdef"), ROWS),
        "x": random.normal(size=ROWS),
        "y": random.normal(size=ROWS)})


def through_file(frame):
    return pandas.read_csv(io.StringIO(frame.to_csv(index=False)))


def rows(frame):
    return frame["x"].apply(lambda value: value * 2 if value > 0 else -value)


def join(frame):
    means = frame.groupby("k").agg({"x": "mean"}).reset_index()
    return frame.merge(means, on="k")


def matrices(frame):
    part = frame[["x", "y"]].to_numpy()[:600]
    for _ in range(10):
        product = part @ part.T
        product @ product


def main():
    frame = make()
    for _ in range(ROUNDS):
        frame = through_file(frame)
        rows(frame)
        join(frame)
        frame.pivot_table(index="k", columns="g", values="x", aggfunc="sum")
        matrices(frame)
        frame.groupby("g").apply(lambda group: group.x.sum())


main()
