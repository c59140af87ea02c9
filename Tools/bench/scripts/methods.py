"""Small methods of objects with slots."""


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def scaled(self, factor):
        return Point(self.x * factor, self.y * factor)

    def plus(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def norm1(self):
        return abs(self.x) + abs(self.y)


def walk(steps):
    position = Point(0, 0)
    step = Point(1, 2)
    length = 0
    for i in range(steps):
        position = position.plus(step.scaled(i & 3))
        length += step.norm1()
    return position.norm1() + length


walk(600_000)
