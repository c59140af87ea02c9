"""A Flask application, and so many seconds of requests to it, or five.

Profiled by Tools/deb/check/packages.sh and Tools/deb/check-container.sh.
"""

import sys
import time

from flask import Flask, request

application = Flask(__name__)


@application.post("/words")
def count_words():
    words = {}
    for word in request.get_data(as_text=True).split():
        words[word] = words.get(word, 0) + 1
    return words


def main(seconds):
    text = " ".join(f"word-{number % 100}" for number in range(2000))
    client = application.test_client()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = client.post("/words", data=text)
        assert answer.json["word-7"] == 20


# A function by whose name a profile tells which environment it ran in.
namespace = {"main": main}
exec(compile("def f(s): main(s)", f"prefix_is_{sys.prefix}", "exec"),
     namespace)
namespace["f"](float((sys.argv[1:] or [5])[0]))
