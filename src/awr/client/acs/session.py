"""One session as its agent keeps it: requests are built and answers are judged here, and nothing is sent.

What sends takes a Request from it, gives back what came, and does what the Outcome says after it has recorded what
stands beside it.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from awr.chain import acs_bytes
from awr.client.acs.answers import Agreement, Decision, Unusable, decision_of, hello_of, is_pong, result_of
from awr.client.acs.audit import AuditRecord, Event
from awr.client.acs.exchange import Reply, Request, Settled, Silence
from awr.client.acs.modification import UNSUPPORTED, Inapplicable, modified
from awr.client.acs.outcome import Approval, Deferral, FailureClass, Outcome, Started
from awr.client.acs.settings import LONGEST_WAIT_MS, Settings
from awr.errors import InvalidInput, InvalidTransition
from awr.guardian.envelope import ACS_VERSION, rfc3339
from awr.guardian.handshake import Transport
from awr.guardian.hooks import agreed_on
from awr.guardian.reading import read_json
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import DEFAULT_KEY_ID, Keys, sign
from awr.ids import Clock, system_clock

__all__ = ["ALWAYS_BLOCK", "GuardianSession"]

HANDSHAKE = "handshake/hello"
PING = "system/ping"
POST_COMPACT = "steps/postCompact"

#: The refusals that section 4.1 calls a decision about the session.
SESSION_REFUSALS = frozenset({Code.SESSION_REFUSED, Code.UNSUPPORTED_VERSION, Code.PROVENANCE_REQUIRED})

#: Refusals that no posture softens. The Guardian is there and will not look at the request; whoever could bring that
#: about by the size or the age of a request would have an allow. The published adapters hold it so.
ALWAYS_BLOCK = frozenset(
    {
        Code.SESSION_REFUSED,
        Code.SIGNATURE_INVALID,
        Code.REPLAY_DETECTED,
        Code.TIMESTAMP_OUT_OF_WINDOW,
        Code.INVALID_REQUEST,
        Code.PARSE_ERROR,
    }
)
#: The same of answers, and of requests that cannot be sent: somebody wrote them so.
_ALWAYS_BLOCK_CLASSES = frozenset({"signature", "binding", "unsendable"})

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class GuardianSession:
    """The state of one session. It is new, then guarded, unguarded or refused, and never anything again."""

    def __init__(
        self,
        settings: Settings,
        *,
        secret: bytes,
        transports: tuple[Transport, ...],
        key_id: str = DEFAULT_KEY_ID,
        session_id: str | None = None,
        clock: Clock = system_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if session_id is not None and not _UUID.fullmatch(session_id):
            raise InvalidInput(
                "the session id is not a UUID",
                got=f"{len(session_id)} characters",
                expected="a UUID in its hyphenated form",
                next_step="derive one from your own id, for example with uuid.uuid5",
            )
        self.settings = settings
        self.session_id = session_id or str(uuid.uuid4())
        self.chain_hash: str | None = None
        self._keys = Keys({key_id: secret})
        self._key_id = key_id
        self._transports = transports
        self._clock = clock
        self._monotonic = monotonic
        self._state: Literal["new", "greeting", "guarded", "unguarded", "refused"] = "new"
        self._agreement: Agreement | None = None

    def hello(self) -> Request:
        """Return the handshake. Raise InvalidTransition for a second one, and InvalidInput when it cannot be sent."""
        if self._state != "new":
            raise InvalidTransition(
                "the session has had its handshake",
                got=self._state,
                expected="one handshake for each session",
                next_step="make another client for another session",
            )
        payload = self.settings.hello(self._transports)
        try:
            request = self._request(HANDSHAKE, payload, timeout_ms=self.settings.handshake_timeout_ms)
        except _Unsendable:
            raise InvalidInput(
                "the settings cannot be sent",
                expected="texts that UTF-8 can carry, in less than a mebibyte",
                next_step="correct the settings",
            ) from None
        self._state = "greeting"
        return request

    def welcomed(self, request: Request, came: Reply | Silence) -> tuple[Started, tuple[AuditRecord, ...]]:
        """Return how the session began, and what has to be recorded of it."""
        try:
            agreement = hello_of(self._result(request, came), request_id=request.request_id, offered=self._transports)
        except Unusable as unusable:
            return self._not_welcomed(request, unusable, came)
        self._agreement, self._state = agreement, "guarded"
        started = Started(
            state="guarded",
            session_id=self.session_id,
            methods_evaluated=tuple(name for name in agreement.methods_evaluated if name in self.settings.methods),
            profiles_accepted=agreement.profiles_accepted,
            on_decision_failure=agreement.posture,
        )
        return started, ()

    def ask(
        self,
        method: str,
        payload: Mapping[str, Any],
        *,
        turn_id: str | None = None,
        parent_turn_id: str | None = None,
    ) -> Request | Settled:
        """Return what is to be sent about a step, or what holds because nothing is.

        Raise InvalidTransition before the handshake, and InvalidInput for a method that the settings do not name.
        """
        if self._state in {"new", "greeting"}:
            raise InvalidTransition(
                "no step can be asked about before the handshake",
                got="a session that has not begun",
                expected="start() first",
                next_step="call start() and look at its state",
            )
        if not agreed_on(method, self.settings.methods):
            raise InvalidInput(
                "the settings do not name this method",
                expected="one of the methods that the client offered in its handshake",
                next_step="add it to the methods of the settings",
            )
        if self._agreement is None:
            return self._without_guardian(method)
        if not agreed_on(method, self._agreement.methods_evaluated):
            return self._not_sent("method_not_evaluated", method, decided_by="not_evaluated")
        extra = {"turn_id": turn_id, "parent_turn_id": parent_turn_id}
        metadata: dict[str, Any] = {name: value for name, value in extra.items() if value is not None}
        if self.settings.sequential and self.chain_hash is not None:
            metadata["session_state"] = {"chain_hash": self.chain_hash}
        timeout_ms = min(self._agreement.timeout_ms(method), LONGEST_WAIT_MS)
        try:
            request = self._request(method, payload, timeout_ms=timeout_ms, metadata=metadata)
        except _Unsendable:
            return self._undecided(
                Request(
                    request_id=str(uuid.uuid4()),
                    method=method,
                    body=b"",
                    began=self._monotonic(),
                    timeout_ms=timeout_ms,
                ),
                Unusable("unsendable"),
                None,
            )
        # Until it is answered, nobody here knows whether the chain has moved.
        self.chain_hash = None
        return request

    def settle(self, request: Request, came: Reply | Silence) -> Settled:
        """Return what holds for a step, by what came of its request."""
        try:
            result = self._result(request, came)
            decision = decision_of(result, request_id=request.request_id)
        except Unusable as unusable:
            return self._undecided(request, unusable, came)
        # An answer without a head wrote no entry.
        published = decision.chain_hash
        self.chain_hash = published if isinstance(published, str) else request.head
        return self._applied(request, decision, result)

    def ping(self) -> Request:
        """Return a question that asks for nothing but an answer."""
        waits = self.settings.handshake_timeout_ms
        if self._agreement is not None:
            waits = min(self._agreement.timeout_ms(PING), LONGEST_WAIT_MS)
        return self._request(PING, {}, timeout_ms=waits)

    def ponged(self, request: Request, came: Reply | Silence) -> bool:
        """Tell whether the Guardian is there. It is no sign that it would decide."""
        return isinstance(came, Reply) and is_pong(came.body, request_id=request.request_id)

    def _request(
        self, method: str, payload: Mapping[str, Any], *, timeout_ms: int, metadata: dict[str, Any] | None = None
    ) -> Request:
        request_id = str(uuid.uuid4())
        params: dict[str, Any] = {
            "acs_version": ACS_VERSION,
            "request_id": request_id,
            "timestamp": rfc3339(self._clock()),
            "metadata": {**self.settings.metadata(self.session_id), **(metadata or {})},
            "payload": dict(payload),
        }
        if self.settings.nonce:
            params["nonce"] = os.urandom(16).hex()
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "id": request_id, "params": params}
        began = self._monotonic()
        try:
            sign(message, place="params", keys=self._keys, key_id=self._key_id, session_id=self.session_id)
            body = acs_bytes(message)
            # What a Guardian could read in two ways, or could not read, is not sent: too long, too deep, a number
            # that a double does not hold. Otherwise an agent that is led astray could choose to be misread.
            read_json(body)
        except (Refusal, ValueError, TypeError, RecursionError, OverflowError):
            raise _Unsendable from None
        return Request(
            request_id=request_id,
            method=method,
            body=body,
            began=began,
            timeout_ms=timeout_ms,
            head=self.chain_hash,
        )

    def _result(self, request: Request, came: Reply | Silence) -> dict[str, Any]:
        if isinstance(came, Silence):
            raise Unusable(came.failure)
        return result_of(
            came.body,
            status=came.status,
            request_id=request.request_id,
            keys=self._keys,
            session_id=self.session_id,
        )

    def _not_welcomed(
        self, request: Request, unusable: Unusable, came: Reply | Silence
    ) -> tuple[Started, tuple[AuditRecord, ...]]:
        refused = unusable.error_code in SESSION_REFUSALS
        proceeds = not refused and self.settings.startup == "proceed"
        self._state = "unguarded" if proceeds else "refused"
        first = self._record(
            "handshake_refused" if refused else "handshake_failed",
            applied="proceed" if proceeds else "refuse",
            posture=None if refused else self.settings.startup,
            request=request,
            unusable=unusable,
            came=came,
        )
        records = (first, self._record("session_unguarded", applied="proceed")) if proceeds else (first,)
        started = Started(
            state="unguarded" if proceeds else "refused",
            session_id=self.session_id,
            failure=unusable.failure,
            error_code=unusable.error_code,
        )
        return started, records

    def _without_guardian(self, method: str) -> Settled:
        if self._state == "unguarded":
            return self._not_sent("step_unguarded", method, decided_by="unguarded")
        return self._not_sent("step_refused", method, decided_by="session_refused")

    def _not_sent(
        self,
        event: Event,
        method: str,
        *,
        decided_by: Literal["not_evaluated", "unguarded", "session_refused"],
    ) -> Settled:
        blocks = decided_by == "session_refused"
        outcome = Outcome(
            action="block" if blocks else "proceed",
            decided_by=decided_by,
            method=method,
            request_id=str(uuid.uuid4()),
        )
        record = self._record(
            event, applied="deny" if blocks else "proceed", method=method, request_id=outcome.request_id
        )
        return Settled(outcome, (record,))

    def _undecided(self, request: Request, unusable: Unusable, came: Reply | Silence | None) -> Settled:
        """Apply the posture to a step without a decision, or block where none may help."""
        assert self._agreement is not None, "only a session that has begun asks"
        always = unusable.failure in _ALWAYS_BLOCK_CLASSES or unusable.error_code in ALWAYS_BLOCK
        posture = self._agreement.posture
        blocks = always or posture == "deny"
        outcome = Outcome(
            action="block" if blocks else "proceed",
            decided_by="fail_closed" if always else "posture",
            method=request.method,
            request_id=request.request_id,
            failure=unusable.failure,
            error_code=unusable.error_code,
        )
        record = self._record(
            "decision_failure",
            applied="deny" if blocks else "proceed",
            posture=posture,
            request=request,
            unusable=unusable,
            came=came,
        )
        return Settled(outcome, (record,))

    def _applied(self, request: Request, decision: Decision, result: dict[str, Any]) -> Settled:
        outcome = Outcome(
            action="proceed" if decision.decision == "allow" else "block",
            decided_by="guardian",
            method=request.method,
            request_id=request.request_id,
            decision=decision.decision,
            reasoning=decision.reasoning if isinstance(decision.reasoning, str) else None,
            reason_codes=decision.reason_codes,
            chain_hash=self.chain_hash if isinstance(decision.chain_hash, str) else None,
            received=result,
        )
        if decision.decision == "modify":
            return self._modified(request, decision, outcome)
        if decision.decision == "ask":
            return self._asked(request, decision, outcome)
        if decision.decision == "defer":
            return Settled(msgspec.structs.replace(outcome, action="defer", deferral=self._deferral(decision)))
        return Settled(outcome)

    def _modified(self, request: Request, decision: Decision, outcome: Outcome) -> Settled:
        if not self.settings.modify_capable:
            return self._substituted(request, outcome, UNSUPPORTED)
        payload = msgspec.json.decode(request.body)["params"]["payload"]
        try:
            changed = modified(request.method, payload, decision.modifications)
        except Inapplicable as inapplicable:
            return self._substituted(request, outcome, inapplicable.code)
        if isinstance(changed, str):
            return Settled(msgspec.structs.replace(outcome, action="proceed_modified", content=changed))
        return Settled(msgspec.structs.replace(outcome, action="proceed_modified", payload=changed))

    def _asked(self, request: Request, decision: Decision, outcome: Outcome) -> Settled:
        if not self.settings.ask_capable:
            return self._substituted(request, outcome, "approver_unavailable")
        details = decision.ask_details
        assert not isinstance(details, msgspec.UnsetType), "an ask without details is malformed"
        seconds = details.timeout_seconds
        approval = Approval(
            question=details.question if isinstance(details.question, str) else None,
            approver=details.approver if isinstance(details.approver, dict) else {},
            until=self._clock() + seconds * 1000 if isinstance(seconds, int) else None,
            then="proceed" if details.timeout_disposition == "allow" else "block",
            details=(outcome.received or {})["ask_details"],
        )
        return Settled(msgspec.structs.replace(outcome, action="ask", approval=approval))

    def _deferral(self, decision: Decision) -> Deferral:
        details = decision.defer_details
        assert not isinstance(details, msgspec.UnsetType), "a deferral without details is malformed"
        asks = details.timeout_decision == "ask" and self.settings.ask_capable
        return Deferral(
            until=self._clock() + details.resolution_timeout_ms,
            then="ask" if asks else "block",
            reason=details.reason if isinstance(details.reason, str) else None,
            resolution_method=details.resolution_method if isinstance(details.resolution_method, str) else None,
            required_context=details.required_context,
        )

    def _substituted(self, request: Request, outcome: Outcome, code: str) -> Settled:
        """Put a denial in the place of a decision that cannot be applied; compaction that has happened stays."""
        kept = request.method == POST_COMPACT and outcome.decision == "modify"
        record = self._record(
            "substituted",
            applied="original_kept" if kept else "deny",
            method=request.method,
            request_id=request.request_id,
            received=outcome.decision,
            reason_codes=(code,),
        )
        codes = outcome.reason_codes if code in outcome.reason_codes else (*outcome.reason_codes, code)
        replaced = msgspec.structs.replace(
            outcome, action="proceed" if kept else "block", decided_by="substitution", reason_codes=codes
        )
        return Settled(replaced, (record,))

    def _record(
        self,
        event: Event,
        *,
        applied: Literal["proceed", "deny", "original_kept", "refuse"],
        request: Request | None = None,
        unusable: Unusable | None = None,
        came: Reply | Silence | None = None,
        posture: Literal["proceed", "deny", "refuse"] | None = None,
        method: str | None = None,
        request_id: str | None = None,
        received: Any = None,
        reason_codes: tuple[str, ...] = (),
    ) -> AuditRecord:
        failure: FailureClass | None = unusable.failure if unusable is not None else None
        return AuditRecord(
            time=rfc3339(self._clock()),
            session_id=self.session_id,
            event=event,
            applied=applied,
            request_id=request.request_id if request is not None else request_id,
            method=request.method if request is not None else method,
            failure=failure,
            posture=posture,
            received=received,
            reason_codes=reason_codes,
            error_code=unusable.error_code if unusable is not None else None,
            http_status=came.status if isinstance(came, Reply) else None,
            timeout_ms=request.timeout_ms if request is not None else None,
            elapsed_ms=int((self._monotonic() - request.began) * 1000) if request is not None else None,
        )


class _Unsendable(Exception):
    """A request that has no one form on the wire."""
