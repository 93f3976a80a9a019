"""Ids and time, made in one place so that everything else can be given others.

An id is 26 Crockford base-32 characters: 48 bits of Unix milliseconds, then 80 random bits, so ids sort by time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["Clock", "NewId", "following_id", "new_id", "system_clock"]

Clock = Callable[[], int]
NewId = Callable[[int], str]

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
#: Two characters for each ten bits, so that an id takes thirteen look-ups.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_SHIFTS = range(120, -1, -10)


def system_clock() -> int:
    """Return the time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def new_id(at: int) -> str:
    """Return a fresh id for the time `at` in Unix milliseconds."""
    return _encode((at << 80) | int.from_bytes(os.urandom(10)))


def following_id(previous: str) -> str:
    """Return the next id in order, for records that are made in the same millisecond and must sort as made."""
    number = 0
    for character in previous:
        number = number << 5 | _ALPHABET.index(character)
    return _encode(number + 1)


def _encode(number: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
