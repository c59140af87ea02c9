"""profile.html as a file: what is in it, and its colours."""

import array
import base64
import hashlib
import html.parser
import itertools
import json
import math
import re
import struct
import sys
import unittest
import unittest.mock
import zlib

from perfpy import html as page
from perfpy.classify import WAITS, Origin
from perfpy.profile import Profile
from test.support import perfpy_samples as samples
from test.support.perfpy_page import written


class Elements(html.parser.HTMLParser):
    """The elements of a page: (tag, attributes, text)."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.is_inside = False      # of the last of them
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        self.is_inside = True

    def handle_endtag(self, tag):
        self.is_inside = False

    def handle_data(self, data):
        if self.is_inside:
            self.found[-1][2] += data

    def named(self, tag):
        return [element for element in self.found if element[0] == tag]

    def scripts(self):
        return [text for _, attributes, text in self.named("script")
                if "type" not in attributes]

    def data(self):
        text, = [text for _, attributes, text in self.named("script")
                 if "type" in attributes]
        return text


class Data:
    """A page's profile, unpacked as data.js describes it."""

    def __init__(self, text):
        packed = base64.b85decode(text.replace(",", "<"))
        self.data = zlib.decompress(packed)
        size, = struct.unpack_from("<I", self.data)
        self.place = 4 + size
        self.json = json.loads(self.data[4:self.place])
        self.views = {name: self.stacks_of(self.json["views"][name])
                      for name in ("folded", "unfolded")}

    def column(self, count, size=4):
        planes = [self.data[self.place + number * count:][:count]
                  for number in range(size)]
        self.place += size * count
        return [int.from_bytes(number, "little") for number in zip(*planes)]

    def stacks_of(self, view):
        """Return for each thread its time in each stack of frames."""
        lengths = self.column(view["chains"])
        callers = self.column(view["chains"])
        frames = self.column(view["stacks"])
        stacks = [()]
        for length, caller in zip(lengths, callers):
            for _ in range(length):
                stacks.append((*stacks[caller], frames[len(stacks) - 1]))
                caller = len(stacks) - 1
        result = []
        for count in view["weights"]:
            nodes = itertools.accumulate(self.column(count))
            result.append({stacks[node]: time for node, time
                           in zip(nodes, self.column(count, 8))})
        return result


class FileTests(unittest.TestCase):

    def test_nothing_is_loaded(self):
        elements = Elements(written(samples.example()).decode("utf-8"))
        for tag, attributes, _ in elements.found:
            self.assertNotIn("src", attributes, tag)
            self.assertIn(attributes.get("href"), (None, "data:,"), tag)

    def test_policy_allows_just_the_script(self):
        elements = Elements(written(samples.hostile()).decode("utf-8"))
        policy, = [attributes["content"]
                   for _, attributes, _ in elements.named("meta")
                   if "http-equiv" in attributes]
        self.assertIn("default-src 'none'", policy)
        allowed = re.search("script-src ([^;]*)", policy)[1].split()
        script, = elements.scripts()
        digest = hashlib.sha256(script.encode()).digest()
        self.assertEqual(
            allowed, ["'sha256-%s'" % base64.b64encode(digest).decode()])

    def test_names_are_data(self):
        """Hostile names leave the page's elements as they are."""
        plain = Elements(written(samples.example()).decode("utf-8"))
        hostile = Elements(written(samples.hostile()).decode("utf-8"))
        self.assertEqual([tag for tag, *_ in hostile.found],
                         [tag for tag, *_ in plain.found])
        self.assertTrue(hostile.data().isascii())
        self.assertNotIn("<", hostile.data())
        names = Data(hostile.data()).json["names"]
        self.assertLessEqual(set(samples.HOSTILE_NAMES), set(names))

    def check_stacks(self, profile, scale=1e6):
        """Both views have the stacks, with the time of the samples."""
        data = Data(Elements(written(profile).decode("utf-8")).data())
        frames = [(name, data.json["files"][file]) for name, file
                  in zip(data.json["names"], data.json["fileOf"])]
        for name, view in (("folded", profile.folded()),
                           ("unfolded", profile)):
            for thread, stacks in zip(view.threads, data.views[name]):
                expected = {}
                for stack, weight in zip(thread.stacks, thread.weights):
                    key = tuple((view.frames[frame].name,
                                 view.frames[frame].file)
                                for frame in view.frames_of(stack))
                    expected[key] = expected.get(key, 0) + weight * scale
                self.assertEqual(
                    {tuple(frames[frame] for frame in stack): time
                     for stack, time in stacks.items()},
                    {key: round(time) for key, time in expected.items()})

    def test_stacks(self):
        self.check_stacks(samples.example())
        self.check_stacks(samples.large(3000, 1000))

    def test_stacks_without_frames(self):
        profile = samples.example()
        samples.add(profile, profile.threads[0], [], 3)
        self.check_stacks(profile)

    def test_origins(self):
        data = Data(Elements(written(samples.mixed()).decode("utf-8")).data())
        names = data.json["names"]
        origins = {name: data.json["origins"][data.json["originOf"][number]]
                   for number, name in enumerate(names)}
        self.assertEqual(origins, {
            "<module>": "own", "get": "packages", "loads": "library",
            "(import)": "mark", "_find_and_load": "library",
            "scan": "native", "read": "kernel", "main": "interpreter"})
        self.assertEqual(set(page.LABELS), set(Origin))

    def test_marks_of_folding(self):
        self.check_stacks(samples.mixed())

    def test_hours_in_one_stack(self):
        profile = samples.example()
        profile.threads[0].weights[0] = 5e5
        self.check_stacks(profile)

    def test_numbers_of_an_event(self):
        profile = samples.example()
        profile.meta["unit"] = "page-faults"
        for thread in profile.threads:
            for index in range(len(thread.weights)):
                thread.weights[index] = 7
        self.check_stacks(profile, scale=1)

    def test_no_samples(self):
        self.check_stacks(Profile())

    def test_pieces(self):
        """However the packed data comes, its text is the same."""
        data = bytes(range(256)) * 9
        for size in 1, 2, 3, 4, 5, 250:
            pieces = [data[place:place + size]
                      for place in range(0, len(data) - 1, size)]
            text = "".join(page._as_text(pieces, least=8))
            self.assertEqual(base64.b85decode(text.replace(",", "<")),
                             b"".join(pieces))

    def test_numbers_of_four_bytes(self):
        """They are the same on machines with another order of bytes."""
        numbers = array.array("I", [0x01020304, 5])
        self.assertEqual(list(page._planes(numbers)),
                         [b"\4\5", b"\3\0", b"\2\0", b"\1\0"])
        foreign = array.array("I", [0x04030201, 0x05000000])
        other = "big" if sys.byteorder == "little" else "little"
        with unittest.mock.patch.object(sys, "byteorder", other):
            self.assertEqual(
                list(page._planes(foreign)),
                [b"\4\5", b"\3\0", b"\2\0", b"\1\0"])


# What people see who lack one kind of cones: linear RGB to linear RGB.
# Machado, Oliveira and Fernandes, 2009, at full severity.
VISION = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868],
               [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968],
                 [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    """Return linear red, green and blue of "#rrggbb"."""
    parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055)**2.4
            for part in parts]


def times(matrix, vector):
    return [sum(factor * value for factor, value in zip(row, vector))
            for row in matrix]


def contrast(*colours):
    """Return the contrast of two colours as WCAG defines it."""
    dark, light = sorted(times([[0.2126, 0.7152, 0.0722]], linear(colour))[0]
                         for colour in colours)
    return (light + 0.05) / (dark + 0.05)


def difference(a, b, vision):
    """Return how different two colours look: the distance in CIELAB."""
    labs = []
    for colour in a, b:
        x, y, z = times([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722],
                         [0.0177, 0.1095, 0.8728]],
                        times(VISION[vision], linear(colour)))
        x, y, z = (max(part, 0.009)**(1 / 3) for part in (x, y, z))
        labs.append((116 * y - 16, 500 * (x - y), 200 * (y - z)))
    return math.dist(*labs)


class ColourTests(unittest.TestCase):

    SHADES = 2

    def palettes(self):
        css = (page.VIEWER / "page.css").read_text(encoding="utf-8")
        light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
        dark, _, _ = rest.partition("@media")
        light, dark = [dict(re.findall(r"--([\w-]+): (#\w{6});", text))
                       for text in (light, dark)]
        return [light, light | dark]

    def shades(self, palette):
        return {origin: [palette[f"{origin.value}-{number}"]
                         for number in range(self.SHADES)]
                for origin in Origin}

    def test_text_can_be_read(self):
        for palette in self.palettes():
            inks = palette["dark-ink"], palette["light-ink"]
            for shades in self.shades(palette).values():
                for shade in shades:
                    self.assertGreater(
                        max(contrast(ink, shade) for ink in inks), 4.5, shade)
            for text in "text", "quiet", "accent":
                self.assertGreater(contrast(palette[text], palette["page"]),
                                   4.5, text)

    def test_origins_can_be_told_apart(self):
        # Waits have stripes, by which they differ from code.
        code = [origin for origin in Origin if origin not in WAITS]
        for palette, origins in itertools.product(self.palettes(),
                                                  (code, WAITS)):
            shades = self.shades(palette)
            for a, b in itertools.combinations(
                    [shades[origin] for origin in origins], 2):
                for pair in itertools.product(a, b):
                    for vision in VISION:
                        self.assertGreater(difference(*pair, vision), 18,
                                           (vision, *pair))


if __name__ == "__main__":
    unittest.main()
