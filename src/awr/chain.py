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

    Our encoder is forty times as fast as the library and spells nearly everything alike. Where the bytes show a
    number or a character that it might not, the value itself is looked at; only what does differ goes to the library.
    """
    try:
        encoded = _journal_encoder.encode(value)
    except OverflowError:
        encoded = b""
    if encoded and not _looks_different(encoded):
        return encoded
    differences = _differences(value)
    if encoded and differences <= {_SMALL}:
        return _TOKEN.sub(_without_exponent, encoded) if differences else encoded
    import rfc8785  # few values need it, and every command would pay its import

    return rfc8785.dumps(value)  # type: ignore[arg-type]


def _looks_different(encoded: bytes) -> bool:
    """Tell whether the two encoders may differ. A text that looks like such a number only costs time."""
    if encoded[:1] not in b'{["' or b"null" in encoded or not encoded.isascii():
        return True
    # A colon between a member and its value stands behind a quotation mark; one in a time of day does not.
    found = _OTHER_NUMBER.finditer(encoded)
    return any(match[0][:1] != b":" or encoded[match.start() - 1 : match.start()] == b'"' for match in found)


def _differences(value: object) -> set[str]:
    """Return what in a value the two encoders do not spell alike: nothing, small fractions, or anything else."""
    found: set[str] = set()
    rest = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            # RFC 8785 sorts by UTF-16, which puts a character beyond the first plane elsewhere than UTF-8 does.
            if not all(isinstance(name, str) and (name.isascii() or max(name) <= "\uffff") for name in part):
                return {_OTHER}
            rest.extend(part.values())
        elif isinstance(part, list | tuple):
            rest.extend(part)
        elif isinstance(part, float):
            if not abs(part) <= _MAX_INTEGER or part.is_integer():
                return {_OTHER}
            if 9e-7 < abs(part) < 1.1e-5:
                found.add(_SMALL)
        elif isinstance(part, int):
            if abs(part) > _MAX_INTEGER:
                return {_OTHER}
        elif not isinstance(part, str | None):
            return {_OTHER}
    return found


def _without_exponent(token: re.Match[bytes]) -> bytes:
    text = token[0]
    if not text.endswith(b"e-6"):
        return text
    digits = text[:-3].replace(b".", b"")
    sign, digits = (b"-", digits[1:]) if digits[:1] == b"-" else (b"", digits)
    return sign + b"0.00000" + digits


_SMALL, _OTHER = "small fractions", "anything else"
_MAX_INTEGER = 2**53 - 1
#: Where a value may stand, a number with a fraction or an exponent, or one of sixteen digits.
_OTHER_NUMBER = re.compile(rb"[:,\[]-?(?:\d+[.eE]|\d{16})")
#: A text, which is left as it is, or a number that our encoder writes with an exponent and RFC 8785 without.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|-?\d(?:\.\d+)?e-6(?!\d)', re.DOTALL)
