"""The one link rule of every chain here, and its two encoders.

A link is SHA-256 over the entry's canonical bytes followed by the previous link's raw 32 bytes; the first entry
has no previous link. Journal events use compact JSON with sorted keys and exact integers. Entries of the Agent
Control Standard use RFC 8785, as that standard demands.
"""

from __future__ import annotations

import hashlib

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
    """Encode for an ACS chain: RFC 8785. Raise ValueError for what that format cannot carry."""
    import rfc8785  # only a Guardian needs it, and every command would pay its import

    return rfc8785.dumps(value)  # type: ignore[arg-type]
