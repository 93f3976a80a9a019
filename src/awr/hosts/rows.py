"""Decode one row of a transcript, and take from it nothing but facts that can be facts."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, TypeVar, get_args

import msgspec

__all__ = ["UNDECODABLE", "clean_text", "count", "lenient_row", "parse_time", "salvage", "salvaged_row"]

#: How a strict decoder refuses a line.
UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: What the journal accepts as a token count; a larger number in a row is no count.
_MAX_COUNT = 1_000_000_000
_MAX_TEXT_BYTES = 256
_BOM = b"\xef\xbb\xbf"

Struct = TypeVar("Struct", bound=msgspec.Struct)


def lenient_row(line: bytes) -> dict[str, Any] | None:
    """Decode one line as a JSON object in spite of bad UTF-8, a BOM, control characters or NaN; None otherwise."""
    try:
        value = json.loads(line.removeprefix(_BOM).decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def salvaged_row(kind: type[Struct], line: bytes) -> Struct | None:
    """Build what a damaged line still tells; None when it is no JSON object at all."""
    mapping = lenient_row(line)
    return None if mapping is None else salvage(kind, mapping)


def salvage(kind: type[Struct], mapping: dict[str, Any]) -> Struct:
    """Build `kind` from those of its fields that have the right type; the others keep their default."""
    good: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        value = mapping.get(field.encode_name)
        try:
            good[field.name] = msgspec.convert(value, type=field.type)
        except msgspec.ValidationError:
            for part in get_args(field.type):
                if isinstance(value, dict) and isinstance(part, type) and issubclass(part, msgspec.Struct):
                    good[field.name] = salvage(part, value)
    return kind(**good)


def parse_time(text: str | None) -> int | None:
    """Return Unix milliseconds of an ISO time that names its zone; None for anything else."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    millis = round(moment.timestamp() * 1000)
    return millis if millis > 0 else None


def count(value: int | None) -> int | None:
    """Return the value if it can be a count; a negative or absurd one is no fact."""
    return value if value is not None and 0 <= value <= _MAX_COUNT else None


def clean_text(value: str | None) -> str | None:
    """Return an id or a name if it is short and printable, so that nothing else can travel in its place."""
    if not value or len(value) > _MAX_TEXT_BYTES or not value.isprintable() or value.isspace():
        return None
    return value if len(value.encode("utf-8", "replace")) <= _MAX_TEXT_BYTES else None
