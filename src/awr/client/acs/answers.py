"""Reading a Guardian's answer: is it the Guardian's, is it to this request, and does it say something.

In that order. What fails is no decision, whatever it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from awr.client.acs.outcome import FailureClass
from awr.guardian.envelope import ChainHash, Identifier, Version
from awr.guardian.handshake import Posture, TimeoutConfig, Transport, same_major
from awr.guardian.hooks import Disposition
from awr.guardian.reading import MAX_BODY_BYTES, read_json
from awr.guardian.refusals import Refusal
from awr.guardian.signature import Keys, verifies
from awr.guardian.verdict import PolicyReference

__all__ = ["MAX_ANSWER_BYTES", "Agreement", "Decision", "Unusable", "decision_of", "hello_of", "is_pong", "result_of"]

#: No answer may be longer: the cap that the reference implementations have for a request.
MAX_ANSWER_BYTES = MAX_BODY_BYTES

Unset = msgspec.UnsetType


class Unusable(Exception):
    """An answer without a decision. `error_code` is the Guardian's when it refused."""

    def __init__(self, failure: FailureClass, *, error_code: int | None = None) -> None:
        super().__init__(failure)
        self.failure: FailureClass = failure
        self.error_code = error_code


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    message: str


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer. Exactly one of the last two is there."""

    jsonrpc: Literal["2.0"]
    id: Identifier | None
    result: dict[str, Any] | Unset = msgspec.UNSET
    error: _Error | Unset = msgspec.UNSET


class AskDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What an approver is to be asked. Further members are the Guardian's."""

    approver: dict[str, Any] | Unset = msgspec.UNSET
    question: str | Unset = msgspec.UNSET
    timeout_seconds: Annotated[int, msgspec.Meta(ge=0)] | Unset = msgspec.UNSET
    timeout_disposition: Literal["allow", "deny"] = "deny"


class DeferDetails(msgspec.Struct, frozen=True, kw_only=True):
    """When there will be a verdict, and what is one when none comes."""

    resolution_timeout_ms: Annotated[int, msgspec.Meta(ge=0)]
    timeout_decision: Literal["deny", "ask"] = "deny"
    reason: str | Unset = msgspec.UNSET
    resolution_method: str | Unset = msgspec.UNSET
    required_context: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A result, in the form of the response envelope. Members that are not named are the future's.

    What a modification says is looked at when it is applied: one that contradicts itself is a denial, and no
    malformed answer.
    """

    type: Literal["final"]
    acs_version: Version
    decision: Disposition
    reasoning: str | Unset = msgspec.UNSET
    reason_codes: tuple[str, ...] = ()
    policy_references: tuple[PolicyReference, ...] = ()
    cited_provenance_ids: tuple[str, ...] = ()
    modifications: Any = msgspec.UNSET
    ask_details: AskDetails | Unset = msgspec.UNSET
    defer_details: DeferDetails | Unset = msgspec.UNSET
    chain_hash: ChainHash | Unset = msgspec.UNSET

    def __post_init__(self) -> None:
        if not same_major(self.acs_version):
            raise ValueError("acs_version has another major")
        if self.decision != "allow" and self.reasoning is msgspec.UNSET:
            raise ValueError("a decision other than allow needs reasoning")
        needed = _DETAILS.get(self.decision)
        if needed is not None and getattr(self, needed) is msgspec.UNSET:
            raise ValueError("a decision lacks its details")


_DETAILS = {"modify": "modifications", "ask": "ask_details", "defer": "defer_details"}


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """What the client uses of a ServerHello. `on_timeout` is what older drafts called the posture."""

    negotiated_version: Version
    methods_evaluated: tuple[str, ...]
    selected_transport: Transport
    timeout_config: TimeoutConfig
    on_decision_failure: Posture | Unset = msgspec.UNSET
    on_timeout: Posture | Unset = msgspec.UNSET
    profiles_accepted: tuple[str, ...] = ()

    @property
    def posture(self) -> Posture:
        """What holds when there is no decision. The standard's default is to proceed."""
        for found in (self.on_decision_failure, self.on_timeout):
            if isinstance(found, str):
                return found
        return "proceed"

    def timeout_ms(self, method: str) -> int:
        """Return how long an answer may take."""
        named = self.timeout_config.per_method_ms
        return (named or {}).get(method, self.timeout_config.default_ms)


def result_of(body: bytes, *, status: int | None, request_id: str, keys: Keys, session_id: str) -> dict[str, Any]:
    """Return the result in an answer that the Guardian signed and that answers this request. Raise Unusable.

    A status of HTTP decides nothing: what is signed is the Guardian's under any of them, and a gateway's own page is
    a failure of the transport.
    """
    try:
        message, place = _message(body)
    except Unusable:
        raise Unusable(_unreadable(status)) from None
    signed = "signature" in message[place] or place == "result"
    # A refusal may have been made by a Guardian that could not tell whose request it was. It is then not signed, and
    # taken for what it says: whoever could forge it could as well keep silent.
    if signed and not verifies(message, place=place, keys=keys, session_id=session_id):
        raise Unusable("signature")
    if message.get("id") != request_id and not (place == "error" and message.get("id") is None):
        raise Unusable("binding")
    try:
        envelope = msgspec.convert(message, _Envelope)
    except msgspec.ValidationError:
        raise Unusable(_unreadable(status)) from None
    if isinstance(envelope.error, _Error):
        raise Unusable("error", error_code=envelope.error.code)
    result: dict[str, Any] = message["result"]
    return result


def decision_of(result: Mapping[str, Any], *, request_id: str) -> Decision:
    """Return the decision in a result. Raise Unusable."""
    if result.get("request_id") != request_id:
        raise Unusable("binding")
    try:
        return msgspec.convert(result, Decision)
    except msgspec.ValidationError:
        raise Unusable("malformed") from None


def hello_of(result: Mapping[str, Any], *, request_id: str, offered: tuple[Transport, ...]) -> Agreement:
    """Return what was agreed: a ServerHello in the result itself or, as older Guardians send it, in its payload.

    Raise Unusable.
    """
    found: Any = result
    if not {"negotiated_version", "methods_evaluated"} <= set(result):
        if result.get("request_id") != request_id:
            raise Unusable("binding")
        found = result.get("payload")
    try:
        agreement = msgspec.convert(found, Agreement)
    except msgspec.ValidationError:
        raise Unusable("malformed") from None
    if not same_major(agreement.negotiated_version) or agreement.selected_transport not in offered:
        raise Unusable("malformed")
    return agreement


def is_pong(body: bytes, *, request_id: str) -> bool:
    """Tell whether an answer says that somebody is there. It needs no signature, and proves nothing else."""
    try:
        message, place = _message(body)
        if place == "error" or message.get("id") != request_id:
            return False
        return decision_of(message[place], request_id=request_id).decision == "allow"
    except Unusable:
        return False


def _message(body: bytes) -> tuple[dict[str, Any], str]:
    """Return an answer and which member it has."""
    try:
        message = read_json(body)
    except Refusal:
        raise Unusable("malformed") from None
    places = [place for place in ("result", "error") if isinstance(message, dict) and place in message]
    if len(places) != 1 or not isinstance(message[places[0]], dict):
        raise Unusable("malformed")
    return message, places[0]


def _unreadable(status: int | None) -> FailureClass:
    return "malformed" if status is None or 200 <= status < 300 else "transport"
