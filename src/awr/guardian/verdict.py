"""A decision: what a policy says, and what is answered where the hook or the client cannot take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec

from awr.guardian.hooks import Disposition, Hook
from awr.guardian.payloads import Part

if TYPE_CHECKING:  # a client shares the words of this room, and needs no database
    from awr.domain.lineage import Datum
    from awr.guardian.store import Session

__all__ = [
    "DEFERRALS",
    "AskDetails",
    "DeferDetails",
    "Modifications",
    "Observe",
    "Policy",
    "Step",
    "Verdict",
    "denied",
    "instead",
    "is_composed",
    "settle",
]

#: How many deferrals one session may have; the standard demands a bound and names none.
DEFERRALS = 16

NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
Unset = msgspec.UnsetType


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy is asked about. `payload` has passed its schema; nothing of it may be kept.

    `known` is the provenance that the payload states, and `tool` the name in a wrapped message, if it has one.
    """

    session: Session
    known: tuple[Datum, ...]
    tool: str | None
    session_id: str
    agent_id: str
    step_id: str
    method: str
    payload: Part
    turn_id: str | None


class PolicyReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that decided. No member may be empty: a reader could not tell it from one that is absent."""

    policy_id: NonEmpty | Unset = msgspec.UNSET
    policy_version: NonEmpty | Unset = msgspec.UNSET
    policy_name: NonEmpty | Unset = msgspec.UNSET
    rule_id: NonEmpty | Unset = msgspec.UNSET

    def __post_init__(self) -> None:
        if "" in (self.policy_id, self.policy_version, self.policy_name, self.rule_id):
            raise ValueError("a member of a policy reference is empty")


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the payload that is overwritten."""

    path: str
    replacement: Any = "[REDACTED]"


class Modifications(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be changed: the whole payload, or places in it that do not touch (specification, section 6.3)."""

    modified_content: str | Unset = msgspec.UNSET
    redactions: tuple[Redaction, ...] | Unset = msgspec.UNSET
    parameter_overrides: dict[str, Any] | Unset = msgspec.UNSET


class Approver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is to be asked."""

    type: Literal["human", "agent", "service"]
    id: str
    endpoint: str | Unset = msgspec.UNSET
    auth: Any = msgspec.UNSET


class AskDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an approver is asked."""

    approver: Approver
    question: str
    timeout_seconds: int
    timeout_disposition: Literal["allow", "deny"] = "deny"
    context: Any = msgspec.UNSET
    options: Any = msgspec.UNSET
    intent_extension: Any = msgspec.UNSET


class DeferDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no verdict yet, and what is one when none comes."""

    reason: Literal["insufficient_context", "conflicting_policies", "low_confidence", "pending_dependency"]
    resolution_method: Literal["additional_context", "human_approval", "timeout"]
    resolution_timeout_ms: Annotated[int, msgspec.Meta(ge=0)]
    timeout_decision: Literal["deny", "ask"] = "deny"
    required_context: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is decided, in the words of the wire (specification, section 6.1)."""

    decision: Disposition
    reasoning: str | Unset = msgspec.UNSET
    reason_codes: tuple[str, ...] = ()
    policy_references: tuple[PolicyReference, ...] = ()
    policy_data: dict[str, Any] = {}
    cited_provenance_ids: tuple[str, ...] = ()
    modifications: Modifications | Unset = msgspec.UNSET
    ask_details: AskDetails | Unset = msgspec.UNSET
    defer_details: DeferDetails | Unset = msgspec.UNSET

    def with_code(self, code: str) -> Verdict:
        """Return the same verdict with one more reason code."""
        if code in self.reason_codes:
            return self
        return msgspec.structs.replace(self, reason_codes=(*self.reason_codes, code))


class Policy(Protocol):
    """What decides. It is given facts and returns a verdict; whatever it raises is a denial."""

    #: The policy's id, as `policy_references` names it.
    name: str
    requires_provenance: bool

    def decide(self, step: Step) -> Verdict:
        """Return the verdict on a step."""


class Observe:
    """Allow and record: a deployment that wants to see before it governs."""

    name = "observe"
    requires_provenance = False

    def decide(self, step: Step) -> Verdict:
        """Allow."""
        return Verdict(decision="allow", policy_references=(PolicyReference(policy_id=self.name),))


def denied(code: str, reasoning: str) -> Verdict:
    """Return a denial of the Guardian's own."""
    return Verdict(decision="deny", reasoning=reasoning, reason_codes=(code,))


def settle(hook: Hook, verdict: Verdict, *, deferrals: int) -> Verdict:
    """Return what is answered: the policy's verdict, or what stands in for one that may not be sent.

    `deferrals` is how many this session has had. No approver is known to this Guardian, so nobody could be asked.
    """
    if verdict.decision == "ask" and "ask" in hook.permits:
        return denied("approver_unavailable", "the policy asks for an approval, and no approver is known here")
    if verdict.decision == "defer" and "defer" in hook.permits and deferrals >= DEFERRALS:
        return denied("deferral_bound_exceeded", f"the session has been deferred {DEFERRALS} times")
    if (
        verdict.decision == "defer"
        and "defer" in hook.permits
        and not isinstance(verdict.defer_details, DeferDetails)
    ):
        return instead(hook, "evaluation_failed", "the policy defers and does not say how it is resolved")
    if verdict.decision == "modify" and "modify" in hook.permits and not is_composed(verdict.modifications):
        return instead(hook, "evaluation_failed", "the policy's modification contradicts itself")
    if verdict.decision not in hook.permits:
        return instead(
            hook, "disposition_not_permitted", f"the policy said {verdict.decision}, which this hook has not"
        )
    if verdict.decision != "allow" and not verdict.reasoning:
        return msgspec.structs.replace(verdict, reasoning="the policy gives no reason")
    return verdict


def instead(hook: Hook, code: str, reasoning: str) -> Verdict:
    """Deny, or where a denial is no answer of the hook's, allow and say why it is no approval."""
    if "deny" in hook.permits:
        return denied(code, reasoning)
    return Verdict(decision="allow", reasoning=reasoning, reason_codes=(code,))


def is_composed(modifications: Modifications | Unset) -> bool:
    """Tell whether a modification says one thing (section 6.3): a whole, or parts that do not touch."""
    if not isinstance(modifications, Modifications):
        return False
    whole = modifications.modified_content is not msgspec.UNSET
    redactions = modifications.redactions or ()
    overrides = modifications.parameter_overrides or {}
    if whole:
        return modifications.redactions is msgspec.UNSET and modifications.parameter_overrides is msgspec.UNSET
    targets = [
        _pointer(f"{root}/{_escaped(name)}") for name in overrides for root in ("/arguments", "/params/arguments")
    ]
    edited = [_pointer(redaction.path) for redaction in redactions]
    touching = any(_touch(one, other) for one in edited for other in targets)
    return bool(redactions or overrides) and not touching


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _pointer(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def _touch(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
