"""The request envelope: what every message has, checked before anybody is believed, and the wrapping of an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from awr.guardian.refusals import Code, Refusal

__all__ = [
    "ACS_VERSION",
    "METHODS",
    "ChainHash",
    "Envelope",
    "Identifier",
    "Metadata",
    "Params",
    "Timestamp",
    "Uuid",
    "answer",
    "milliseconds",
    "read_envelope",
    "refused",
    "rfc3339",
]

#: The one version of the wire that is spoken here; others of the same major are understood.
ACS_VERSION = "0.1.0"

#: The namespaces of the standard's request envelope.
METHODS = r"^(steps/|protocols/|agbom/|trace/|system/|handshake/|wrapped:).+"

#: The end of a text. A dollar alone lets one line break follow.
_END = r"$(?!\n)"
_UUID = rf"^[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{_END}"
_RFC3339 = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
    rf"(\.[0-9]{{1,9}})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9]){_END}"
)

Uuid = Annotated[str, msgspec.Meta(pattern=_UUID, extra_json_schema={"format": "uuid"})]
Timestamp = Annotated[str, msgspec.Meta(pattern=_RFC3339, extra_json_schema={"format": "date-time"})]
Version = Annotated[str, msgspec.Meta(pattern=rf"^[0-9]{{1,9}}(\.[0-9]{{1,9}}){{2}}{_END}")]
ChainHash = Annotated[str, msgspec.Meta(pattern=rf"^[0-9a-f]{{64}}{_END}")]
Method = Annotated[str, msgspec.Meta(pattern=METHODS)]
#: JSON-RPC's own id. It is echoed, so its length has a bound.
Identifier = Annotated[str, msgspec.Meta(max_length=256)] | int | float


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """What the client believes of the session."""

    chain_hash: ChainHash | msgspec.UnsetType = msgspec.UNSET


class UserContext(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the agent works for, as the client says. Nothing of it is kept."""

    user_id: str | msgspec.UnsetType = msgspec.UNSET
    roles: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    authentication_method: str | msgspec.UnsetType = msgspec.UNSET


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Whose step it is."""

    agent_id: str
    session_id: Uuid
    agent_name: str | msgspec.UnsetType = msgspec.UNSET
    turn_id: str | msgspec.UnsetType = msgspec.UNSET
    parent_turn_id: str | msgspec.UnsetType = msgspec.UNSET
    session_state: SessionState | msgspec.UnsetType = msgspec.UNSET
    environment: Literal["development", "staging", "production"] | msgspec.UnsetType = msgspec.UNSET
    platform: str | msgspec.UnsetType = msgspec.UNSET
    platform_version: str | msgspec.UnsetType = msgspec.UNSET
    user_context: UserContext | msgspec.UnsetType = msgspec.UNSET


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """The members of `params`; further ones are allowed and signed. A signature is looked at by its own rules."""

    acs_version: Version
    request_id: Uuid
    timestamp: Timestamp
    metadata: Metadata
    payload: dict[str, Any]
    nonce: Annotated[str, msgspec.Meta(min_length=16, max_length=64)] | msgspec.UnsetType = msgspec.UNSET
    tenant_id: str | msgspec.UnsetType = msgspec.UNSET
    signature: Any = msgspec.UNSET


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request. Nothing else may stand at the top."""

    jsonrpc: Literal["2.0"]
    method: Method
    id: Identifier
    params: Params

    @property
    def session_id(self) -> str:
        """The session, exactly as the client writes it."""
        return self.params.metadata.session_id


def read_envelope(value: Any) -> Envelope:
    """Return the request in a value. Raise Refusal INVALID_REQUEST naming the place, never the content."""
    try:
        return msgspec.convert(value, Envelope)
    except msgspec.ValidationError as error:
        raise Refusal(
            Code.INVALID_REQUEST,
            reason="invalid_envelope",
            message=f"the request is not an ACS envelope: {place_of(error)}",
        ) from None


def place_of(error: msgspec.ValidationError) -> str:
    """Return what a type check found and where, without a word of what was sent."""
    for pattern, instead in _QUOTING:
        text, found = pattern.subn(instead, str(error))
        if found:
            return text
    return str(error)


#: The messages of msgspec that quote what was sent. The place behind the quotation is the last one named.
_QUOTING = (
    (re.compile(r"Invalid enum value .*(?= - at )|Invalid enum value .*", re.DOTALL), "Another value than listed"),
    (re.compile(r"unknown field .*(?= - at )|unknown field .*", re.DOTALL), "a member that is not allowed here"),
)


def id_of(value: Any) -> object:
    """Return the id that an answer to a broken request carries, or None when it has none."""
    found = value.get("id") if isinstance(value, Mapping) else None
    try:
        return msgspec.convert(found, Identifier)
    except msgspec.ValidationError:
        return None


def answer(request_id: object, result: dict[str, object]) -> dict[str, object]:
    """Wrap a result."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def refused(request_id: object, refusal: Refusal) -> dict[str, object]:
    """Wrap a refusal."""
    return {"jsonrpc": "2.0", "id": request_id, "error": refusal.error()}


def milliseconds(timestamp: str) -> int | None:
    """Return an RFC 3339 time in Unix milliseconds, or None for a day that no calendar has."""
    text = timestamp.upper().replace("Z", "+00:00")
    leap = text[17:19] == "60"
    try:
        found = datetime.fromisoformat(text[:17] + "59" + text[19:] if leap else text)
        moment = found + timedelta(seconds=leap)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def rfc3339(at: int) -> str:
    """Return Unix milliseconds as the wire writes time."""
    moment = datetime.fromtimestamp(at / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
