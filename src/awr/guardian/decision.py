"""A decision on one request of a session: every check in one order, and what is decided with what is kept.

The order is the reference implementation's: method, session, replay, binding of key and agent, closed, negotiated,
time, payload. An id is used up on first sight, whatever the request is refused for. Then the entry is chained and the
policy decides: both are committed before anybody is answered, a denied step like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from awr.domain.lineage import Datum
from awr.guardian.entries import step_bytes
from awr.guardian.envelope import Envelope, milliseconds
from awr.guardian.facts import identifier, provenance_of, wrapped_tool
from awr.guardian.handshake import (
    SKEW_WINDOW_MS,
    Posture,
    Transport,
    agree,
    read_hello,
    same_major,
    unsupported_version,
)
from awr.guardian.hooks import Hook, agreed_on, hook_of, is_defined, read_payload
from awr.guardian.journaling import journal_fold
from awr.guardian.payloads import Part
from awr.guardian.record import appended
from awr.guardian.refusals import Code, Refusal
from awr.guardian.store import Session, Store
from awr.guardian.verdict import Policy, Step, Verdict, denied, instead, settle
from awr.ids import Clock, NewId

__all__ = ["HANDSHAKE", "Decision"]

HANDSHAKE = "handshake/hello"


class Decision:
    """Decides on authenticated requests, each in one transaction of the store."""

    def __init__(
        self,
        store: Store,
        *,
        transports: tuple[Transport, ...],
        policy: Policy,
        posture: Posture,
        clock: Clock,
        make_id: NewId,
    ) -> None:
        self._store = store
        self._transports = transports
        self._policy = policy
        self._posture = posture
        self._clock = clock
        self._make_id = make_id

    def of(
        self, envelope: Envelope, params: Mapping[str, Any], *, key_id: str
    ) -> tuple[Verdict | dict[str, object], bytes | None]:
        """Return a verdict and the new head of the chain, or a ServerHello and no head.

        `params` are those of the request as it came, signature included. Raise Refusal, and AwrError when the store
        cannot keep what happened; nothing is kept then.
        """
        if not same_major(envelope.params.acs_version):
            raise unsupported_version("the request has another major version than this Guardian speaks")
        hook = hook_of(envelope.method)
        if hook is None and envelope.method != HANDSHAKE and not is_defined(envelope.method):
            raise Refusal(
                Code.METHOD_NOT_FOUND, reason="method_not_found", message="the standard defines no such method"
            )
        if envelope.method == HANDSHAKE:
            return self._handshake(envelope, key_id), None
        return self._step(envelope, params, key_id, hook)

    def _handshake(self, envelope: Envelope, key_id: str) -> dict[str, object]:
        now = self._clock()
        outcome: dict[str, object] | Refusal
        with self._store.turn():
            self._require_first_sight(envelope)
            try:
                outcome = self._agreed(envelope, key_id, now)
            except Refusal as refusal:
                # The id stays used up: the transaction ends well.
                outcome = refusal
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def _agreed(self, envelope: Envelope, key_id: str, now: int) -> dict[str, object]:
        if self._store.session(envelope.session_id) is not None:
            raise Refusal(
                Code.SESSION_REFUSED,
                reason="renegotiation_not_supported",
                message="the session has begun; what was agreed then holds until it ends",
            )
        self._require_time(envelope, now)
        hello = read_hello(envelope.params.payload)
        agreed = agree(
            hello,
            transports=self._transports,
            posture=self._posture,
            requires_provenance=self._policy.requires_provenance,
        )
        result: dict[str, object] = msgspec.to_builtins(agreed)
        self._store.add_session(
            envelope.session_id,
            agent_id=identifier(envelope.params.metadata.agent_id),
            key_id=key_id,
            provenance_producer=hello.provenance_producer,
            server_hello=result,
            now=now,
        )
        # What is stored is what was agreed, without the signature that the answer gets.
        return dict(result)

    def _step(
        self, envelope: Envelope, params: Mapping[str, Any], key_id: str, hook: Hook | None
    ) -> tuple[Verdict, bytes | None]:
        """Return the verdict on a step and the chain's new head; no head where no entry was written."""
        now = self._clock()
        outcome: tuple[Verdict, bytes | None] | Refusal
        with self._store.turn():
            session = self._store.session(envelope.session_id)
            if session is None:
                raise _not_negotiated(envelope, "no_session", "no handshake has begun this session")
            self._require_first_sight(envelope)
            try:
                outcome = self._judged(envelope, params, key_id, hook, session, now)
            except Refusal as refusal:
                outcome = refusal
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def _judged(
        self,
        envelope: Envelope,
        params: Mapping[str, Any],
        key_id: str,
        hook: Hook | None,
        session: Session,
        now: int,
    ) -> tuple[Verdict, bytes | None]:
        if key_id != session.key_id:
            return _own(hook, "key_not_bound", "the session began under another key"), None
        if identifier(envelope.params.metadata.agent_id) != session.agent_id:
            return _own(hook, "agent_id_not_bound", "the session began for another agent"), None
        if session.sealed_at is not None:
            return _own(hook, "session_closed", "the session has ended and its chain is sealed"), None
        if hook is None or not agreed_on(envelope.method, session.methods):
            raise _not_negotiated(envelope, "not_negotiated", "the handshake did not agree on this method")
        self._require_time(envelope, now)
        payload = read_payload(hook, envelope.params.payload)
        known = provenance_of(envelope.params.payload)
        verdict = self._verdict(envelope, hook, payload, known, session)
        added, verdict = appended(
            envelope, params, payload, known, verdict, store=self._store, session=session, entry_id=self._make_id(now)
        )
        head = self._store.append(session, added, now=now)
        journal_fold(self._store, session, added, verdict, head=head, now=now, make_id=self._make_id)
        return verdict, head

    def _verdict(
        self, envelope: Envelope, hook: Hook, payload: Part, known: tuple[Datum, ...], session: Session
    ) -> Verdict:
        state = envelope.params.metadata.session_state
        believed = state.chain_hash if state is not msgspec.UNSET else msgspec.UNSET
        mismatch = believed is not msgspec.UNSET and believed != (session.head or b"").hex()
        if mismatch and "deny" in hook.permits:
            return denied("chain_mismatch", "the client's chain_hash is not the head of this session's chain")
        turn_id = envelope.params.metadata.turn_id
        step = Step(
            session=session,
            known=known,
            tool=wrapped_tool(envelope.params.payload),
            session_id=envelope.session_id,
            agent_id=envelope.params.metadata.agent_id,
            step_id=envelope.params.request_id,
            method=envelope.method,
            payload=payload,
            turn_id=turn_id if isinstance(turn_id, str) else None,
        )
        try:
            verdict = settle(hook, self._policy.decide(step), deferrals=session.deferrals)
        except Exception:
            verdict = instead(hook, "evaluation_failed", "the policy failed, so it approves of nothing")
        return verdict.with_code("chain_mismatch") if mismatch else verdict

    def _require_first_sight(self, envelope: Envelope) -> None:
        params = envelope.params
        nonce = params.nonce if isinstance(params.nonce, str) else None
        if not self._store.first_sight(envelope.session_id, request_id=step_bytes(params.request_id), nonce=nonce):
            raise Refusal(
                Code.REPLAY_DETECTED,
                reason="replay_detected",
                message="the session has seen this request_id or nonce; send the step again under new ones",
            )

    def _require_time(self, envelope: Envelope, now: int) -> None:
        at = milliseconds(envelope.params.timestamp)
        if at is None or abs(now - at) > SKEW_WINDOW_MS:
            raise Refusal(
                Code.TIMESTAMP_OUT_OF_WINDOW,
                reason="timestamp_out_of_window",
                message="the request's time is too far from this Guardian's; correct the clock and send it again",
                skew_window_ms=SKEW_WINDOW_MS,
            )


def _not_negotiated(envelope: Envelope, reason: str, message: str) -> Refusal:
    return Refusal(Code.CAPABILITY_NOT_NEGOTIATED, reason=reason, message=message, method=envelope.method)


def _own(hook: Hook | None, code: str, reasoning: str) -> Verdict:
    """Deny for a reason of the session's own, or refuse where a denial is no answer of the hook's."""
    if hook is None or "deny" not in hook.permits:
        raise Refusal(Code.SESSION_REFUSED, reason=code, message=reasoning)
    return denied(code, reasoning)
