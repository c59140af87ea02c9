"""gevent and greenlet: many small tasks that call each other through C."""
import functools

import gevent
import greenlet


def work(count):
    return sum(number * number for number in range(count))


def task(number):
    total = 0
    for _ in range(40):
        total += sum(map(work, (200, 300)))
        gevent.sleep(0)
    return total


def pong(other, number):
    while number:
        functools.reduce(lambda total, value: total + value, range(50))
        number = other.switch(number - 1)


def ping(count):
    main = greenlet.getcurrent()
    other = greenlet.greenlet(lambda number: pong(main, number))
    while count:
        work(30)
        count = other.switch(count)


for _ in range(30):
    gevent.joinall([gevent.spawn(task, number) for number in range(100)])
ping(100_000)
