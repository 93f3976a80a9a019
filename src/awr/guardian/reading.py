"""Reading what comes over the wire: JSON inside the domain of RFC 8785, which no two readers see differently.

Whatever passes can be canonicalized, so that a signature covers all of what is acted on: no name twice in an object,
no number that a double cannot hold exactly, no half of a surrogate pair, no depth that recursion does not survive.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from awr.guardian.refusals import Code, Refusal

__all__ = ["MAX_BODY_BYTES", "MAX_DEPTH", "MAX_ITEMS", "read_json", "too_large", "too_many"]

#: The cap of the reference implementations.
MAX_BODY_BYTES = 1_048_576
#: How many arrays and objects may stand inside one another.
MAX_DEPTH = 64
#: How many requests one batch may hold: each is answered, so a body of nothing else would be answered at length.
MAX_ITEMS = 100
#: Beyond it, a double leaves out integers (RFC 8785, section 3.2.2.3, and I-JSON).
MAX_INTEGER = 2**53 - 1

# A text that nobody ends is one token too: else every quote in it would be looked behind to the end of the body.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHER_BYTES = bytes(set(range(256)) - set(_STEPS))


def read_json(data: bytes) -> Any:
    """Return the value of a body. Raise Refusal: PARSE_ERROR for what is not JSON, INVALID_REQUEST for what has no
    canonical form."""
    if len(data) > MAX_BODY_BYTES:
        raise too_large()
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _require_depth(data)
    try:
        value = _decoder.decode(data.decode())
    except Refusal:
        raise
    except (ValueError, RecursionError):
        raise Refusal(
            Code.PARSE_ERROR,
            reason="invalid_json",
            message="the body is not JSON in UTF-8; send one JSON-RPC object, or an array of them",
        ) from None
    if b"\\u" in data:
        _require_whole_characters(value)
    return value


def too_large() -> Refusal:
    """Return the refusal of a body over the cap, which its reader need not have read whole."""
    return Refusal(
        Code.INVALID_REQUEST,
        reason="payload_too_large",
        message=f"the body has more than {MAX_BODY_BYTES} bytes; send less in one request",
        max_payload_size_bytes=MAX_BODY_BYTES,
    )


def too_many() -> Refusal:
    """Return the refusal of a batch over the cap; none of its items is looked at."""
    return Refusal(
        Code.INVALID_REQUEST,
        reason="batch_too_large",
        message=f"the batch has more than {MAX_ITEMS} requests; send less in one array",
        max_batch_items=MAX_ITEMS,
    )


def _require_depth(data: bytes) -> None:
    brackets = _TEXT.sub(b"", data).translate(None, _OTHER_BYTES)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise Refusal(
            Code.PARSE_ERROR,
            reason="too_deep",
            message=f"more than {MAX_DEPTH} arrays and objects stand inside one another",
        )


def _require_whole_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _not_canonical("a string holds half of a surrogate pair") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _not_canonical("an object has one name twice")
    return found


def _integer(text: str) -> int:
    # A longer text cannot be in range, and converting it would take time.
    number = int(text) if len(text) <= 17 else MAX_INTEGER + 1
    if abs(number) > MAX_INTEGER:
        raise _not_canonical("an integer is beyond 2^53 - 1")
    return number


def _float(text: str) -> int | float:
    number = float(text)
    # A double beyond 2^53 is always an integer, and infinity is beyond every one.
    if abs(number) > MAX_INTEGER:
        raise _not_canonical("a number is beyond what a double holds exactly")
    # 1.0 and 1 have one canonical form, so they are one value to everything behind this line.
    return int(number) if number.is_integer() else number


def _constant(_: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")


def _not_canonical(what: str) -> Refusal:
    return Refusal(
        Code.INVALID_REQUEST,
        reason="not_canonicalizable",
        message=f"{what}, so the request has no one canonical form (RFC 8785)",
    )


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
