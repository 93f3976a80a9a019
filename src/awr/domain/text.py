"""Rules for short texts that callers name things with."""

from __future__ import annotations

import unicodedata

from awr.errors import InvalidInput

__all__ = ["bounded_text", "not_blank"]


def bounded_text(name: str, value: str, *, limit: int) -> str:
    """Return `value` if it is not blank, holds no control character and fits `limit` UTF-8 bytes.

    Raise InvalidInput, which names the field and the size and never the text.
    """
    size = len(value.encode("utf-8", "surrogatepass"))
    problem = _problem(value, size=size, limit=limit)
    if problem is None:
        return value
    raise InvalidInput(
        f"{name} must be nonempty bounded text",
        got=problem,
        expected=f"1 to {limit} UTF-8 bytes, not blank, without control characters",
        next_step=f"send a {name} that keeps to these bounds",
    )


def not_blank(name: str, value: str) -> str:
    """Return `value` unless it is blank. Raise InvalidInput."""
    if value.strip():
        return value
    raise InvalidInput(
        f"{name} must not be blank",
        got="blank text",
        expected="some text",
        next_step=f"say what {name} is, or leave the entry out",
    )


def _problem(value: str, *, size: int, limit: int) -> str | None:
    if not value.strip():
        return "blank text"
    if size > limit:
        return f"{size} bytes"
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in value):
        return f"{size} bytes with a control character"
    return None
