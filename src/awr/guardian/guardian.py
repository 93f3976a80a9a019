"""The Guardian: one request in, one answer out, signed for whoever proved who it is.

What is checked here is the request alone: that it is an envelope, and whose. `decision` goes on with its session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from awr.errors import AwrError
from awr.guardian.decision import HANDSHAKE, Decision
from awr.guardian.envelope import ACS_VERSION, Envelope, answer, id_of, read_envelope, refused, rfc3339
from awr.guardian.handshake import Posture, Transport
from awr.guardian.hooks import ALL_WRAPPED, HOOKS, Hook, hook_of, read_payload
from awr.guardian.payloads import Ping
from awr.guardian.reading import MAX_ITEMS, read_json, too_many
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import Keys, require_signature, sign, verifies
from awr.guardian.store import Store
from awr.guardian.verdict import Observe, Policy, Verdict, denied
from awr.ids import Clock, NewId, new_id, system_clock

__all__ = ["Guardian", "Notice"]

PING = "system/ping"


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
        self._clock = clock
        self._notice = notice
        self._decision = Decision(
            store,
            transports=transports,
            policy=policy or Observe(),
            posture=posture,
            clock=clock,
            make_id=make_id,
        )

    def answer(self, body: bytes) -> bytes:
        """Return the answer to one body: an object, or an array for a batch, whose items are answered in order."""
        return self.answer_together([body])[0]

    def answer_together(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Answer bodies that are there at the same time, in order, with one commit for all of them.

        If that commit fails, nothing of any of them is kept and each gets a turn of its own; a store that another
        process holds is waited for once.
        """
        answers = self.answer_unless_held(bodies, waited=True)
        assert answers is not None, "who has waited is answered"
        return answers

    def answer_unless_held(self, bodies: Sequence[bytes], *, waited: bool) -> list[bytes] | None:
        """Answer as `answer_together` does, or return None when another process holds the store.

        `waited` says that they have waited long enough: they are then denied.
        """
        asked = [_read(body) for body in bodies]
        if len(asked) == 1 and waited and not isinstance(asked[0], list):
            return [self._reply(asked[0])]
        tell = self._notice
        told: list[Notice] = []
        try:
            self._notice = told.append
            with self.store.group():
                answers = [self._reply(value) for value in asked]
        except AwrError as error:
            if error.details.get("cause") == "locked" and not waited:
                return None
        else:
            if tell is not None:
                for notice in told:
                    tell(notice)
            return answers
        finally:
            self._notice = tell
        with self.store.impatient():
            return [self._reply(value) for value in asked]

    def refuse(self, refusal: Refusal) -> bytes:
        """Return the answer to a body that could not be read."""
        self._tell(None, *_told(refusal), None, None, time.perf_counter())
        return msgspec.json.encode(refused(None, refusal))

    def _reply(self, value: Any) -> bytes:
        if isinstance(value, Refusal):
            return self.refuse(value)
        if isinstance(value, list) and value:
            return msgspec.json.encode([self._answer(item) for item in value])
        return msgspec.json.encode(self._answer(value))

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
            outcome, head = self._decision.of(envelope, value["params"], key_id=key_id)
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


def _read(body: bytes) -> Any:
    """Return the value of a body, or the refusal of one that cannot be read or holds too much."""
    try:
        value = read_json(body)
    except Refusal as refusal:
        return refusal
    return too_many() if isinstance(value, list) and len(value) > MAX_ITEMS else value


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
