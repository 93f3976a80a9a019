"""What the program is told: how a session began, and what to do about one step."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from awr.guardian.hooks import Disposition

__all__ = ["Action", "Approval", "DecidedBy", "Deferral", "FailureClass", "Outcome", "Started"]

Action = Literal["proceed", "proceed_modified", "block", "ask", "defer"]
#: `substitution`: a decision came and could not be applied. `fail_closed`: none came, and no posture may help.
DecidedBy = Literal[
    "guardian", "substitution", "posture", "fail_closed", "not_evaluated", "unguarded", "session_refused"
]
FailureClass = Literal["timeout", "transport", "error", "malformed", "signature", "binding", "unsendable"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ask, and what holds when nobody answers. `until` is Unix milliseconds; None when no time is named.

    `details` is `ask_details` as received.
    """

    question: str | None
    approver: dict[str, Any]
    until: int | None
    then: Literal["proceed", "block"]
    details: dict[str, Any]


class Deferral(msgspec.Struct, frozen=True, kw_only=True):
    """Until when there may yet be a verdict, in Unix milliseconds, and what holds when there is none by then."""

    until: int
    then: Literal["block", "ask"]
    reason: str | None
    resolution_method: str | None
    required_context: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one step, and who said so.

    With `proceed_modified`, either `payload` is to be used instead of the one that was asked about, or `content`, a
    text that takes the place of all of it. `reason_codes` are the Guardian's and, behind a substitution, the
    client's. `received` is the whole result that the Guardian signed, for a program that shows or records more.
    """

    action: Action
    decided_by: DecidedBy
    method: str
    request_id: str
    decision: Disposition | None = None
    reasoning: str | None = None
    reason_codes: tuple[str, ...] = ()
    payload: dict[str, Any] | None = None
    content: str | None = None
    approval: Approval | None = None
    deferral: Deferral | None = None
    chain_hash: str | None = None
    failure: FailureClass | None = None
    error_code: int | None = None
    received: dict[str, Any] | None = None

    @property
    def proceeds(self) -> bool:
        """Whether the action may happen now, changed or not."""
        return self.action in {"proceed", "proceed_modified"}


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """How a session began.

    `unguarded`: nobody answered, and the start-up posture lets the program work. `refused`: the Guardian refused the
    session, or nobody answered and the posture is to refuse; every step of it is blocked.
    """

    state: Literal["guarded", "unguarded", "refused"]
    session_id: str
    methods_evaluated: tuple[str, ...] = ()
    profiles_accepted: tuple[str, ...] = ()
    on_decision_failure: Literal["proceed", "deny"] | None = None
    failure: FailureClass | None = None
    error_code: int | None = None
