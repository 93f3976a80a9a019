"""The one link rule of every chain here, and its two encoders.

A link is SHA-256 over the entry's canonical bytes followed by the previous link's raw 32 bytes; the first entry
has no previous link. Journal events use compact JSON with sorted keys and exact integers. Entries of the Agent
Control Standard use RFC 8785, as that standard demands.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

__all__ = ["acs_bytes", "digest", "journal_bytes", "link"]

_journal_encoder = msgspec.json.Encoder(order="sorted")


def link(canonical: bytes, *, previous: bytes | None) -> bytes:
    """Return the raw 32-byte link of one entry to the one before it."""
    return hashlib.sha256(canonical + (previous or b"")).digest()


def digest(data: bytes) -> str:
    """Return the lowercase hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def journal_bytes(value: object) -> bytes:
    """Encode for the journal: compact UTF-8 JSON, keys sorted, integers exact (RFC 8785 refuses 2**63-1)."""
    return _journal_encoder.encode(value)


def acs_bytes(value: object) -> bytes:
    """Encode for an ACS chain or signature: RFC 8785. Raise ValueError for what that format cannot carry.

    Both encoders spell alike whatever has no fraction, no integer near 2^53 and no character beyond the first plane;
    ours is forty times as fast, and everything else goes to the library.
    """
    try:
        encoded = _journal_encoder.encode(value)
    except OverflowError:
        encoded = b""
    if encoded and not _spelled_otherwise(encoded):
        return encoded
    import rfc8785  # few values need it, and every command would pay its import

    return rfc8785.dumps(value)  # type: ignore[arg-type]


def _spelled_otherwise(encoded: bytes) -> bool:
    """Tell whether the two encoders may differ. A text that looks like such a number only costs time."""
    if (
        encoded[:1] not in b'{["'
        or b"null" in encoded
        or (not encoded.isascii() and _BEYOND_FIRST_PLANE.search(encoded))
    ):
        return True
    # A colon between a member and its value stands behind a quotation mark; one in a time of day does not.
    found = _OTHER_NUMBER.finditer(encoded)
    return any(match[0][:1] != b":" or encoded[match.start() - 1 : match.start()] == b'"' for match in found)


#: Where a value may stand, a number with a fraction or an exponent, or one of sixteen digits. The fast encoder writes
#: a number that is none as null.
_OTHER_NUMBER = re.compile(rb"[:,\[]-?(?:\d+[.eE]|\d{16})")
#: UTF-8 of a character that UTF-16 writes in two units, by which RFC 8785 sorts.
_BEYOND_FIRST_PLANE = re.compile(rb"[\xf0-\xff]")
