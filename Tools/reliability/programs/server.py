"""uvicorn, FastAPI, pydantic and sqlite3, under load from three threads."""
import http.client
import sqlite3
import threading
import time

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

REQUESTS = 1500

app = FastAPI()
local = threading.local()


class Item(BaseModel):
    id: int
    name: str
    tags: list[str]


def database():
    if not hasattr(local, "connection"):
        local.connection = sqlite3.connect(":memory:")
        local.connection.execute(
            "create table item (id integer primary key, name text)")
        local.connection.executemany(
            "insert into item values (?, ?)",
            [(number, f"n{number}") for number in range(500)])
    return local.connection


@app.get("/items")
def items(count: int = 50) -> list[Item]:
    rows = database().execute(
        "select id, name from item where name like '%1%' "
        "order by name desc limit ?", (count,)).fetchall()
    return [Item(id=number, name=name, tags=["a", "b"])
            for number, name in rows]


@app.get("/plain")
async def plain():
    return {"x": [1, 2, 3]}


server = uvicorn.Server(uvicorn.Config(
    app, host="127.0.0.1", port=0, log_level="error", loop="asyncio"))


def client(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(REQUESTS):
        connection.request("GET", "/items" if number % 3 else "/plain")
        connection.getresponse().read()


def load():
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    threads = [threading.Thread(target=client, args=(port,))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.should_exit = True


threading.Thread(target=load).start()
server.run()
