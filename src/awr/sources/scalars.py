"""Writing one text as YAML so that reading gives it back, in the manner of the text it replaces."""

from __future__ import annotations

import re

__all__ = ["NULLS", "double_quoted", "flow_listing", "scalar"]

#: What a plain scalar may say to mean nothing.
NULLS = frozenset({"", "~", "null", "Null", "NULL"})

_RESERVED = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_UNSAFE = re.compile(r":(?:\s|\Z)|\s#|[\[\]{},\"'`|>%@&*!?]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
#: Spaces that other scripts use; YAML takes them as they are.
_SPACES = frozenset("\u00a0\u3000")


def scalar(text: str | None, *, like: str = "", flow: bool = False, indent: int = 0, newline: str = "\n") -> str:
    """Return a text as a YAML value; None is null.

    `like` is the style of the value it replaces: a quote or block mark, or nothing. A text of several lines becomes a
    block whose lines stand at `indent`, where that gives the text back and brackets do not forbid it.
    """
    if text is None:
        return "null"
    if "\n" in text and not flow and _fits_block(text):
        lines = (" " * indent + line if line else "" for line in text.split("\n"))
        return newline.join(("|-", *lines))
    one_line = all(map(_as_it_is, text))
    if like == "'" and one_line:
        return "'" + text.replace("'", "''") + "'"
    # Between brackets libyaml takes any colon for the end of a key, also one without a space behind it.
    if like != '"' and one_line and _fits_plain(text) and not (flow and ":" in text):
        return text
    return double_quoted(text)


def double_quoted(text: str) -> str:
    """Return a text in double quotes, on one line."""
    return '"' + "".join(map(_escaped, text)) + '"'


def flow_listing(texts: tuple[str, ...]) -> str:
    """Return texts as a list in brackets."""
    return "[" + ", ".join(scalar(text, flow=True) for text in texts) + "]"


def _fits_plain(text: str) -> bool:
    return (
        text[:1].isalpha() and text == text.strip() and text.lower() not in _RESERVED and _UNSAFE.search(text) is None
    )


def _fits_block(text: str) -> bool:
    lines = text.split("\n")
    return (
        bool(lines[0].strip())
        and bool(lines[-1].strip())
        and lines[0][0] not in " \t"
        and all(line == line.rstrip() and all(map(_as_it_is, line)) for line in lines)
    )


def _as_it_is(character: str) -> bool:
    return character.isprintable() or character in _SPACES


def _escaped(character: str) -> str:
    if (known := _ESCAPES.get(character)) is not None:
        return known
    if _as_it_is(character):
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
