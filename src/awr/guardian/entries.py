"""Context entries: what a chain commits to, and how one is linked to the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from awr.chain import acs_bytes, digest, link

__all__ = ["canonical_entry", "entry_hash", "entry_of", "request_hash", "step_bytes", "step_named", "step_text"]

_UNCOVERED = frozenset({"entry_hash", "previous_hash"})


def entry_of(
    *,
    entry_id: str,
    step_id: str,
    step_type: str,
    params: Mapping[str, Any],
    turn_id: str | None,
    provenance_summary: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a ContextEntry without its two hashes. What is not there is left out, never null."""
    entry: dict[str, Any] = {
        "entry_id": entry_id,
        "step_id": step_id,
        "step_type": step_type,
        "request_hash": request_hash(params),
        "timestamp": params["timestamp"],
    }
    if turn_id is not None:
        entry["turn_id"] = turn_id
    if provenance_summary:
        entry["provenance_summary"] = dict(provenance_summary)
    return entry


def request_hash(params: Mapping[str, Any]) -> str:
    """Return the hash of a request's params as received, signature included (specification, section 8.1)."""
    return digest(acs_bytes(params))


def canonical_entry(entry: Mapping[str, Any]) -> bytes:
    """Return the bytes that an entry's hash covers (specification, section 8.2)."""
    return acs_bytes({name: value for name, value in entry.items() if name not in _UNCOVERED})


def entry_hash(entry: Mapping[str, Any], *, previous_hash: str | None) -> str:
    """Return the hash of an entry behind another; None for the first of a session."""
    previous = bytes.fromhex(previous_hash) if previous_hash is not None else None
    return link(canonical_entry(entry), previous=previous).hex()


def step_bytes(step_id: str) -> bytes:
    """Return the 16 bytes of a step id, in which two spellings of one UUID are the same."""
    return bytes.fromhex(step_id.replace("-", ""))


def step_named(text: str) -> bytes | None:
    """Return the bytes of a step that a payload names, or None for a text that is no step id in its usual form."""
    try:
        found = step_bytes(text)
    except ValueError:
        return None
    return found if len(found) == 16 and step_text(found) == text.lower() else None


def step_text(step_id: bytes) -> str:
    """Return a step id in its lowercase form."""
    text = step_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
