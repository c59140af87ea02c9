"""Texts of a number of columns of a terminal.

Chinese, Japanese and Korean characters take two each, marks that combine with
the character before them none.

Called by all that prints tables.
"""

import unicodedata

_MARKS = frozenset(("Mn", "Me"))


def _columns_of(char):
    if unicodedata.category(char) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def count(text):
    """Return how many columns the text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def pad(text, columns):
    """Return the text with spaces after it, so that it takes so many."""
    return text + " " * (columns - count(text))


def start(text, columns):
    """Return as much of the text's beginning as has room."""
    while count(text) > columns:
        text = text[:columns if len(text) > columns else -1]
    return text


def end(text, columns):
    """Return the text, or its end after an ellipsis."""
    if count(text) <= columns:
        return text
    text = text[-columns:]
    while text and count(text) > columns - 1:
        text = text[1:]
    return "…" + text
