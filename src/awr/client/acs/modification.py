"""MODIFY, applied: a text instead of the payload, or edits of places in it (specification, section 6.3).

What is edited is the payload as it was sent, so nothing that changed behind the request can slip through.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from awr.guardian.verdict import Modifications, is_composed

__all__ = ["COMPOSITION", "UNSUPPORTED", "Inapplicable", "modified"]

#: The reason code for a modification that contradicts itself. The standard names none.
COMPOSITION = "modify_composition"
#: The registered code for one that this client cannot apply (section 6.5).
UNSUPPORTED = "modify_unsupported"

_NATIVE = "steps/"
_CALL = "steps/toolCallRequest"
_BROKEN_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Inapplicable(Exception):
    """A modification that cannot be applied, for the reason that its code names."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def modified(method: str, payload: dict[str, Any], modifications: Any) -> dict[str, Any] | str:
    """Return the payload with a modification in it, or the text that replaces it. The payload given is edited.

    Raise Inapplicable.
    """
    try:
        found = msgspec.convert(modifications, Modifications)
    except msgspec.ValidationError:
        raise Inapplicable(COMPOSITION) from None
    if not is_composed(found):
        raise Inapplicable(COMPOSITION)
    if isinstance(found.modified_content, str):
        # A call has a name and arguments, and a text has neither.
        if method == _CALL or not method.startswith(_NATIVE):
            raise Inapplicable(UNSUPPORTED)
        return found.modified_content
    holder = _arguments(method, payload)
    if found.redactions:
        payload = _redacted(payload, [(redaction.path, redaction.replacement) for redaction in found.redactions])
    for name, value in (found.parameter_overrides or {}).items():
        if holder is None:
            raise Inapplicable(UNSUPPORTED)
        _override(holder, name, value, native=method == _CALL)
    return payload


def _arguments(method: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments that overrides name, or None for a hook that has none."""
    if method.startswith(_NATIVE):
        found = payload.get("arguments") if method == _CALL else None
    else:
        params = payload.get("params")
        found = params.get("arguments") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else None


def _override(arguments: dict[str, Any], name: str, value: Any, *, native: bool) -> None:
    if not native:
        arguments[name] = value
        return
    present = arguments.get(name, {})
    if not isinstance(present, dict):
        raise Inapplicable(UNSUPPORTED)
    arguments[name] = {**present, "value": value}


def _redacted(payload: dict[str, Any], redactions: list[tuple[str, Any]]) -> dict[str, Any]:
    """Overwrite places. Those inside others go first, so that the order in which they are listed changes nothing."""
    places: dict[tuple[str, ...], Any] = {}
    for path, replacement in redactions:
        tokens = _tokens(path)
        if places.setdefault(tokens, replacement) != replacement:
            raise Inapplicable(COMPOSITION)
    for tokens in sorted(places, key=len, reverse=True):
        _replace(payload, tokens, places[tokens])
    return payload


def _tokens(path: str) -> tuple[str, ...]:
    """Return the steps of a JSON Pointer (RFC 6901). The whole payload is none that could be overwritten."""
    if not path.startswith("/"):
        raise Inapplicable(UNSUPPORTED)
    tokens = path[1:].split("/")
    if _BROKEN_ESCAPE.search(path):
        raise Inapplicable(UNSUPPORTED)
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def _replace(payload: dict[str, Any], tokens: tuple[str, ...], replacement: Any) -> None:
    holder: Any = payload
    for token in tokens[:-1]:
        holder = holder[_key(holder, token)]
    holder[_key(holder, tokens[-1])] = replacement


def _key(holder: Any, token: str) -> Any:
    """Return the key under which a place stands. Raise Inapplicable when it does not: there is nothing to hide."""
    if isinstance(holder, dict) and token in holder:
        return token
    if isinstance(holder, list) and _INDEX.fullmatch(token) and int(token) < len(holder):
        return int(token)
    raise Inapplicable(UNSUPPORTED)
