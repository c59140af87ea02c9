"""orjson, sqlite3 with functions in Python, zlib, and ssl of the system."""
import os
import sqlite3
import ssl
import zlib

import orjson


class Other:
    pass


def json():
    value = {str(number): [number, number / 3, {"a": "b" * 20}, Other()]
             for number in range(400)}
    for _ in range(900):
        orjson.loads(orjson.dumps(value, default=lambda other: "other"))


def database():
    connection = sqlite3.connect(":memory:")
    connection.create_function("half", 1, lambda number: number / 2)
    connection.create_collation("length", lambda a, b: len(a) - len(b))
    connection.execute("create table t (n integer, s text)")
    connection.executemany("insert into t values (?, ?)", (
        (number, "x" * (number % 50)) for number in range(20_000)))
    for _ in range(240):
        connection.execute("select sum(half(n)) from t").fetchall()
        connection.execute(
            "select s from t order by s collate length limit 10").fetchall()


def pack():
    data = os.urandom(100_000) + bytes(200_000)
    for _ in range(240):
        zlib.decompress(zlib.compress(data, 9))


def certificates():
    for _ in range(240):
        ssl.create_default_context().get_ca_certs()


json()
database()
pack()
certificates()
