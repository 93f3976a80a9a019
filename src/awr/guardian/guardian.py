"""The Guardian: one request in, one answer out, every check in one order.

The order is the reference implementation's: envelope, signature, method, session, replay, binding of key and agent,
closed, negotiated, time, payload. An id is used up on first sight, whatever the request is refused for. Then the
entry is chained and the policy decides: both are committed before anybody is answered, a denied step like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from awr.errors import AwrError
from awr.guardian.entries import canonical_entry, entry_of, step_bytes, step_text
from awr.guardian.envelope import (
    ACS_VERSION,
    Envelope,
    answer,
    id_of,
    milliseconds,
    read_envelope,
    refused,
    rfc3339,
)
from awr.guardian.facts import facts_of, identifier, intent_facts, provenance_of, summary_of
from awr.guardian.handshake import (
    SKEW_WINDOW_MS,
    Posture,
    Transport,
    agree,
    read_hello,
    same_major,
    unsupported_version,
)
from awr.guardian.hooks import ALL_WRAPPED, HOOKS, Hook, agreed_on, hook_of, is_defined, read_payload
from awr.guardian.payloads import Part, Ping, SubagentStart
from awr.guardian.reading import MAX_ITEMS, read_json, too_many
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import Keys, require_signature, sign, verifies
from awr.guardian.store import Appended, Session, Store
from awr.guardian.verdict import Observe, Policy, Step, Verdict, denied, instead, settle
from awr.ids import Clock, NewId, new_id, system_clock

__all__ = ["Guardian", "Notice"]

HANDSHAKE = "handshake/hello"
PING = "system/ping"
SESSION_END = "steps/sessionEnd"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one request, for a log: no text of anybody's.

    `outcome` is a disposition, "hello", "pong" or the code of a refusal. `session_id` is None until the request is
    authenticated. `fault` is the type of an exception that was ours.
    """

    method: str | None
    outcome: str
    reasons: tuple[str, ...]
    session_id: str | None
    seconds: float
    fault: str | None = None


class Guardian:
    """Answers the requests of one door. It is used by one thread at a time, the one that opened its store."""

    def __init__(
        self,
        store: Store,
        *,
        keys: Keys,
        transports: tuple[Transport, ...],
        policy: Policy | None = None,
        posture: Posture = "proceed",
        clock: Clock = system_clock,
        make_id: NewId = new_id,
        notice: Callable[[Notice], None] | None = None,
    ) -> None:
        self.store = store
        self._keys = keys
        self._transports = transports
        self._policy = policy or Observe()
        self._posture = posture
        self._clock = clock
        self._make_id = make_id
        self._notice = notice

    def answer(self, body: bytes, *, arrived: float | None = None) -> bytes:
        """Return the answer to one body: an object, or an array for a batch, whose items are answered in order.

        `arrived` is when the body was there, in seconds of `time.monotonic`; now if left out. What it waited since
        counts when the store is not free: nobody is kept longer for having stood behind others.
        """
        self.store.patient_since(time.monotonic() if arrived is None else arrived)
        try:
            value = read_json(body)
        except Refusal as refusal:
            return self.refuse(refusal)
        if isinstance(value, list) and value:
            if len(value) > MAX_ITEMS:
                return self.refuse(too_many())
            return msgspec.json.encode([self._answer(item) for item in value])
        return msgspec.json.encode(self._answer(value))

    def answer_together(self, bodies: Sequence[tuple[bytes, float]]) -> list[bytes]:
        """Answer bodies that are there at the same time, in order, with one commit for all of them.

        Each comes with its arrival, as `answer` has it. If that commit fails, each gets a turn of its own.
        """
        if len(bodies) > 1:
            tell = self._notice
            told: list[Notice] = []
            self.store.patient_since(min(arrived for _, arrived in bodies))
            try:
                self._notice = told.append
                with self.store.group():
                    answers = [self.answer(body, arrived=arrived) for body, arrived in bodies]
            except AwrError:
                pass
            else:
                if tell is not None:
                    for notice in told:
                        tell(notice)
                return answers
            finally:
                self._notice = tell
        return [self.answer(body, arrived=arrived) for body, arrived in bodies]

    def refuse(self, refusal: Refusal) -> bytes:
        """Return the answer to a body that could not be read."""
        self._tell(None, *_told(refusal), None, None, time.perf_counter())
        return msgspec.json.encode(refused(None, refusal))

    def _answer(self, value: Any) -> dict[str, object]:
        began = time.perf_counter()
        try:
            envelope = read_envelope(value)
        except Refusal as refusal:
            self._tell(None, *_told(refusal), None, None, began)
            return refused(id_of(value), refusal)
        if envelope.method == PING:
            return self._ping(envelope, value, began)
        try:
            key_id = require_signature(envelope, value, keys=self._keys)
        except Refusal as refusal:
            self._tell(_known(envelope.method), *_told(refusal), None, None, began)
            return refused(envelope.id, refusal)
        outcome: Verdict | dict[str, object] | Refusal
        head: bytes | None = None
        fault: str | None = None
        try:
            outcome, head = self._decided(envelope, value, key_id)
        except Refusal as refusal:
            outcome = refusal
        except Exception as error:
            if isinstance(error, AwrError) and self.store.grouped:
                raise
            # What is not recorded is not allowed.
            outcome = _failed_closed(hook_of(envelope.method), error)
            fault = None if isinstance(error, AwrError) else type(error).__name__
        seconds = time.perf_counter() - began
        message, place = self._message(envelope, outcome, head, seconds)
        self._tell(_known(envelope.method), *_told(outcome), fault, envelope.session_id, began)
        return sign(message, place=place, keys=self._keys, key_id=key_id, session_id=envelope.session_id)

    def _decided(
        self, envelope: Envelope, value: Any, key_id: str
    ) -> tuple[Verdict | dict[str, object], bytes | None]:
        """Return a verdict and the new head of the chain, or a ServerHello. Raise Refusal."""
        if not same_major(envelope.params.acs_version):
            raise unsupported_version("the request has another major version than this Guardian speaks")
        hook = hook_of(envelope.method)
        if hook is None and envelope.method != HANDSHAKE and not is_defined(envelope.method):
            raise Refusal(
                Code.METHOD_NOT_FOUND, reason="method_not_found", message="the standard defines no such method"
            )
        if envelope.method == HANDSHAKE:
            return self._handshake(envelope, key_id), None
        return self._step(envelope, value, key_id, hook)

    def _handshake(self, envelope: Envelope, key_id: str) -> dict[str, object]:
        now = self._clock()
        outcome: dict[str, object] | Refusal
        with self.store.turn():
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
        if self.store.session(envelope.session_id) is not None:
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
        self.store.add_session(
            envelope.session_id,
            agent_id=identifier(envelope.params.metadata.agent_id),
            key_id=key_id,
            provenance_producer=hello.provenance_producer,
            server_hello=result,
            now=now,
        )
        # What is stored is what was agreed, without the signature that the answer gets.
        return dict(result)

    def _step(self, envelope: Envelope, value: Any, key_id: str, hook: Hook | None) -> tuple[Verdict, bytes | None]:
        """Return the verdict on a step and the chain's new head; no head where no entry was written."""
        now = self._clock()
        outcome: tuple[Verdict, bytes | None] | Refusal
        with self.store.turn():
            session = self.store.session(envelope.session_id)
            if session is None:
                raise _not_negotiated(envelope, "no_session", "no handshake has begun this session")
            self._require_first_sight(envelope)
            try:
                outcome = self._judged(envelope, value, key_id, hook, session, now)
            except Refusal as refusal:
                outcome = refusal
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def _judged(
        self, envelope: Envelope, value: Any, key_id: str, hook: Hook | None, session: Session, now: int
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
        return self._chained(envelope, value, hook, payload, session, now)

    def _chained(
        self, envelope: Envelope, value: Any, hook: Hook, payload: Part, session: Session, now: int
    ) -> tuple[Verdict, bytes]:
        params = envelope.params
        step_id = step_bytes(params.request_id)
        known = provenance_of(params.payload)
        depths = self.store.depths(session, known)
        summary = summary_of(known, step_id=step_text(step_id), depths=depths)
        turn_id = params.metadata.turn_id
        entry = entry_of(
            entry_id=self._make_id(now),
            step_id=step_text(step_id),
            step_type=envelope.method,
            params=value["params"],
            turn_id=identifier(turn_id) if isinstance(turn_id, str) else None,
            provenance_summary=summary,
        )
        verdict = self._verdict(envelope, hook, payload, session)
        intent, findings = self._findings(envelope, payload, session)
        added = Appended(
            step_id=step_id,
            step_type=envelope.method,
            entry=canonical_entry(entry),
            facts=facts_of(envelope.method, params.payload),
            provenance=known,
            depths=depths,
            summary=summary,
            intent=intent,
            decision=verdict.decision,
            reason_codes=verdict.reason_codes,
            findings=findings,
            seals=envelope.method == SESSION_END,
            subagent=(payload.subagent_session_id, payload.intent_derivation)
            if isinstance(payload, SubagentStart)
            else None,
        )
        return verdict, self.store.append(session, added, now=now)

    def _verdict(self, envelope: Envelope, hook: Hook, payload: Part, session: Session) -> Verdict:
        state = envelope.params.metadata.session_state
        believed = state.chain_hash if state is not msgspec.UNSET else msgspec.UNSET
        mismatch = believed is not msgspec.UNSET and believed != (session.head or b"").hex()
        if mismatch and "deny" in hook.permits:
            return denied("chain_mismatch", "the client's chain_hash is not the head of this session's chain")
        turn_id = envelope.params.metadata.turn_id
        step = Step(
            session_id=envelope.session_id,
            agent_id=envelope.params.metadata.agent_id,
            step_id=envelope.params.request_id,
            method=envelope.method,
            payload=payload,
            turn_id=turn_id if isinstance(turn_id, str) else None,
            entries_before=session.entries,
        )
        try:
            verdict = settle(hook, self._policy.decide(step), deferrals=session.deferrals)
        except Exception:
            verdict = instead(hook, "evaluation_failed", "the policy failed, so it approves of nothing")
        return verdict.with_code("chain_mismatch") if mismatch else verdict

    def _findings(
        self, envelope: Envelope, payload: Part, session: Session
    ) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
        """Return the session's Intent when this step fixes it, and what is odd about it and changes no decision."""
        found = []
        raw = envelope.params.payload
        intent = None
        stated = raw.get("intent")
        if envelope.method in {"steps/sessionStart", "steps/agentTrigger"} and isinstance(stated, dict):
            intent = intent_facts(stated)
            if session.intent is not None and intent != session.intent:
                found.append("intent_change_ignored")
        reference = raw.get("request_id_ref")
        if (
            isinstance(reference, str)
            and envelope.method == "steps/toolCallResult"
            and self.store.step_type(session, step_bytes(reference)) != "steps/toolCallRequest"
        ):
            found.append("request_id_ref_unresolved")
        if isinstance(payload, SubagentStart) and payload.parent_session_id.lower() != envelope.session_id.lower():
            found.append("parent_session_differs")
        final = raw.get("final_chain_hash")
        if isinstance(final, str):
            head = session.head
            if envelope.method == "steps/subagentStop":
                child = self.store.session(raw["subagent_session_id"])
                head = child.head if child is not None else None
            if head is not None and final != head.hex():
                found.append("final_chain_hash_differs")
        return intent, tuple(found)

    def _message(
        self, envelope: Envelope, outcome: Verdict | dict[str, object] | Refusal, head: bytes | None, seconds: float
    ) -> tuple[dict[str, object], str]:
        """Return the answer without its signature, and the member that the signature belongs into."""
        if isinstance(outcome, Refusal):
            return refused(envelope.id, outcome), "error"
        if isinstance(outcome, dict):
            return answer(envelope.id, outcome), "result"
        result: dict[str, object] = {
            "type": "final",
            "acs_version": ACS_VERSION,
            "request_id": envelope.params.request_id,
            **msgspec.to_builtins(outcome),
            "metadata": {"evaluator": "deterministic", "evaluation_duration_ms": int(seconds * 1000)},
        }
        if head is not None:
            result["chain_hash"] = head.hex()
        return answer(envelope.id, result), "result"

    def _ping(self, envelope: Envelope, value: Any, began: float) -> dict[str, object]:
        """Answer whether we are here. No signature is needed; one that holds is answered by one."""
        try:
            ping = read_payload(Hook(Ping, frozenset({"allow"})), envelope.params.payload)
            assert isinstance(ping, Ping)
        except Refusal as refusal:
            self._tell(PING, *_told(refusal), None, None, began)
            return refused(envelope.id, refusal)
        status = {"status": "ok", "server_timestamp": rfc3339(self._clock())}
        if isinstance(ping.echo, str):
            status["echo"] = ping.echo
        result: dict[str, object] = {
            "type": "final",
            "acs_version": ACS_VERSION,
            "request_id": envelope.params.request_id,
            "decision": "allow",
            "payload": status,
        }
        message = answer(envelope.id, result)
        self._tell(PING, "pong", (), None, None, began)
        if not verifies(value, place="params", keys=self._keys, session_id=envelope.session_id):
            return message
        key_id: str = value["params"]["signature"]["key_id"]
        return sign(message, place="result", keys=self._keys, key_id=key_id, session_id=envelope.session_id)

    def _require_first_sight(self, envelope: Envelope) -> None:
        params = envelope.params
        nonce = params.nonce if isinstance(params.nonce, str) else None
        if not self.store.first_sight(envelope.session_id, request_id=step_bytes(params.request_id), nonce=nonce):
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

    def _tell(
        self,
        method: str | None,
        outcome: str,
        reasons: tuple[str, ...],
        fault: str | None,
        session_id: str | None,
        began: float,
    ) -> None:
        if self._notice is not None:
            self._notice(
                Notice(
                    method=method,
                    outcome=outcome,
                    reasons=reasons,
                    fault=fault,
                    session_id=session_id,
                    seconds=time.perf_counter() - began,
                )
            )


def _told(outcome: Verdict | dict[str, object] | Refusal) -> tuple[str, tuple[str, ...]]:
    """Return what a log says of an outcome: its name and its reasons."""
    if isinstance(outcome, Refusal):
        return str(int(outcome.code)), (outcome.reason,)
    if isinstance(outcome, Verdict):
        return outcome.decision, outcome.reason_codes
    return "hello", ()


def _known(method: str) -> str:
    """Return a method as a log may show it: one that the standard does not list could be any text."""
    if method in HOOKS or method in {HANDSHAKE, PING}:
        return method
    return ALL_WRAPPED if hook_of(method) is not None else "other"


def _not_negotiated(envelope: Envelope, reason: str, message: str) -> Refusal:
    return Refusal(Code.CAPABILITY_NOT_NEGOTIATED, reason=reason, message=message, method=envelope.method)


def _own(hook: Hook | None, code: str, reasoning: str) -> Verdict:
    """Deny for a reason of the session's own, or refuse where a denial is no answer of the hook's."""
    if hook is None or "deny" not in hook.permits:
        raise Refusal(Code.SESSION_REFUSED, reason=code, message=reasoning)
    return denied(code, reasoning)


def _failed_closed(hook: Hook | None, error: Exception) -> Verdict | Refusal:
    """Return a denial, or a refusal where the hook has none."""
    if isinstance(error, AwrError):
        reason = "store_full" if error.details.get("cause") == "full" else "store_unavailable"
        message = "the record of this step cannot be kept, so nothing is allowed"
    else:
        reason, message = "evaluation_failed", "the Guardian has a fault, so nothing is allowed"
    if hook is None or "deny" not in hook.permits:
        return Refusal(Code.INTERNAL_ERROR, reason=reason, message=message)
    return denied(reason, message)
