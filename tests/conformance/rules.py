"""Which members of the corpus are measured here, and why the others are not.

A rule looks at a member's family and at the shape of its payload. It never sees its id or what it expects, so nothing
can be left out for failing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tests.conformance import agent_measures, measures
from tests.conformance.corpus import Member
from tests.conformance.measures import Measure

__all__ = ["RULES", "Result", "Role", "Rule", "result_of", "rules_for"]

Role = Literal["guardian", "agent", "reader"]
Status = Literal["exercised", "not_established", "not_claimed"]
#: Why something is not exercised, in the words of the standard's claim template.
Reason = Literal[
    "not-implemented",
    "not-offered",
    "governed-elsewhere",
    "out-of-scope",
    "no-test",
    "no-sink",
    "not-negotiated",
    "not-observed",
]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one member. `reason` and `why` are empty for one that is exercised."""

    id: str
    family: str
    requirements: tuple[str, ...]
    proposal: bool
    role: Role
    status: Status
    compared: str = ""
    reason: str = ""
    why: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of payload, and either how it is measured or why it is not.

    `needs` are members of the payload that have to be there; `only` is whether no other may be. With `on_the_wire`
    the code of a refusal is compared as well; without, nothing that the member is about has a place for a code.
    """

    family: str
    needs: frozenset[str]
    role: Role
    status: Status
    only: bool = True
    also: Callable[[Mapping[str, Any]], bool] | None = None
    measure: Measure | None = None
    on_the_wire: bool = False
    reason: Reason | None = None
    why: str = ""

    def fits(self, family: str, payload: Mapping[str, Any]) -> bool:
        """Tell whether a member has this shape."""
        names = set(payload)
        shaped = names == self.needs if self.only else names >= self.needs
        return family == self.family and shaped and (self.also is None or self.also(payload))


def measured(
    number: int, *needs: str, by: Measure, role: Role = "guardian", on_the_wire: bool = False, **more: Any
) -> Rule:
    """Return the rule of a shape that is measured."""
    return Rule(
        family=f"acs-f-{number}",
        needs=frozenset(needs),
        role=role,
        status="exercised",
        measure=by,
        on_the_wire=on_the_wire,
        **more,
    )


def unmeasured(number: int, *needs: str, role: Role, reason: Reason, why: str, **more: Any) -> Rule:
    """Return the rule of a shape that is not measured."""
    unknown = reason in {"no-test", "no-sink", "not-negotiated", "not-observed"}
    return Rule(
        family=f"acs-f-{number}",
        needs=frozenset(needs),
        role=role,
        status="not_established" if unknown else "not_claimed",
        reason=reason,
        why=why,
        **more,
    )


INTENT_POLICY = "it needs a policy that keeps a strict scope by the session's Intent; `observe` allows and records"
BUDGET_POLICY = "it needs a policy that counts the calls of a turn; `observe` allows and records"
NO_APPROVER = "no approver is offered: `approver_types_supported` is empty, so an approval has nowhere to come from"
NO_REVOCATION = "the standard has no way to tell a Guardian that a mandate was withdrawn, and the corpus says so"
FRAMEWORK = "it is about what a framework's hooks see, before anybody asks a Guardian or a client"
NO_CRYPTO = "it needs the signatures of acs-crypto, which is not claimed"
NO_TRACE = "it is about the Trace pillar, and no event of it is exported here"
NO_READER = "it is about a program that reads traces, and there is none here"
AUTHOR_UNSEEN = "nothing on the wire tells whether code or a model wrote a Provenance object"
NO_TRUST = "trust is worked out from the record; a `trust` that a client states is not read, so nothing refuses it"
SIGNER_UNKNOWN = "under the baseline both parties hold the key, so nobody can tell who signed, and the corpus says so"
NO_THIRD_PARTY = "nothing here presents a head to a third party as proof, so no such claim is there to be refused"
LABELS = "a deployment chooses the labels of its secrets; nothing here makes one out of a secret"


def _profile(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda payload: payload["profile"] == name


def _in_record(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda payload: set(names) <= set(payload["record"])


_CRYPTO = _profile("ACS-Crypto")
_CORE = _profile("ACS-Core")
_SEALED = ("context_entry", "profile", "response_signature", "witnessed_heads")
_SIGNED = ("context_entry", "guardian_response", "key_id_resolves_to", "profile", "signed_by", "signed_with")
_UNGUARDED = (
    "connection_timeout_ms",
    "deployment_audit_log",
    "handshake_answer",
    "request",
    "server_hello",
    "session_started",
    "startup_posture",
)
_APPLIED = ("applied", "deployment_audit_log", "observed_agent", "request", "response")

RULES: tuple[Rule, ...] = (
    measured(1, "request", "signature_state", by=measures.requests, on_the_wire=True),
    measured(1, "request", "signature_state", "signed_fields_omitted", by=measures.requests, on_the_wire=True),
    unmeasured(1, "intent", only=False, role="guardian", reason="not-implemented", why=INTENT_POLICY),
    measured(2, "steps", by=measures.requests, on_the_wire=True),
    measured(3, "guardian_clock", "request", "skew_window_ms", by=measures.requests, on_the_wire=True),
    unmeasured(3, "mandate_state", only=False, role="guardian", reason="not-observed", why=NO_REVOCATION),
    unmeasured(4, "approval", "request", role="guardian", reason="not-offered", why=NO_APPROVER),
    unmeasured(4, "approver_response", "request", role="guardian", reason="not-offered", why=NO_APPROVER),
    measured(5, "guardian_response", "request", by=agent_measures.page_of_a_gateway, role="agent"),
    measured(
        5,
        *("audit_events", "guardian_response", "on_decision_failure", "request"),
        by=agent_measures.undecided_step,
        role="agent",
    ),
    unmeasured(5, "hooks_fired", only=False, role="agent", reason="out-of-scope", why=FRAMEWORK),
    unmeasured(6, "hooks_fired", only=False, role="agent", reason="out-of-scope", why=FRAMEWORK),
    measured(6, "context_entry", "profile", by=measures.audited_entry),
    measured(6, *_SEALED, by=measures.seal, also=_CORE),
    unmeasured(6, *_SEALED, also=_CRYPTO, role="guardian", reason="not-implemented", why=NO_CRYPTO),
    unmeasured(6, "trace_sink", only=False, role="guardian", reason="not-implemented", why=NO_TRACE),
    unmeasured(7, "policy", "steps", role="guardian", reason="not-implemented", why=BUDGET_POLICY),
    unmeasured(8, "intent", only=False, role="guardian", reason="not-implemented", why=INTENT_POLICY),
    measured(8, "context_entry", "guardian_response", "signature_covers", by=measures.coverage),
    unmeasured(8, "provenance_producer", "record", role="guardian", reason="not-observed", why=AUTHOR_UNSEEN),
    unmeasured(8, "record", role="guardian", reason="not-implemented", why=NO_TRUST),
    measured(9, "guardian_versions_supported", "request", by=measures.requests, on_the_wire=True),
    measured(9, "guardian_versions_supported", "steps", by=measures.requests, on_the_wire=True),
    measured(
        9,
        *("approver_capability", "policy_verdict_before_mapping", "request"),
        by=measures.escalation,
        on_the_wire=True,
    ),
    unmeasured(10, *_SIGNED, also=_CRYPTO, role="guardian", reason="not-implemented", why=NO_CRYPTO),
    unmeasured(10, *_SIGNED, also=_CORE, role="guardian", reason="not-observed", why=SIGNER_UNKNOWN),
    measured(
        10,
        *(*_SIGNED, "presented_as"),
        by=measures.integrity,
        also=lambda payload: payload["presented_as"]["audience"] == "key_holder",
    ),
    unmeasured(
        10,
        *(*_SIGNED, "presented_as"),
        also=lambda payload: payload["presented_as"]["audience"] == "third_party",
        role="reader",
        reason="out-of-scope",
        why=NO_THIRD_PARTY,
    ),
    measured(11, *_UNGUARDED, by=agent_measures.unguarded_start, role="agent", on_the_wire=True),
    measured(12, *_APPLIED, only=False, by=agent_measures.substitution, role="agent"),
    unmeasured(12, "reader_report", "record", role="reader", reason="out-of-scope", why=NO_READER),
    unmeasured(12, "question", "record", role="reader", reason="out-of-scope", why=NO_READER),
    measured(13, "request", "verifier", only=False, by=measures.envelope, on_the_wire=True),
    measured(13, "observed_agent", "request", "response", only=False, by=measures.label),
    unmeasured(13, "record", role="guardian", reason="governed-elsewhere", why=LABELS),
    measured(
        14,
        *("guardian_audit_record", "guardian_decision", "guardian_session_records", "request"),
        by=measures.reference,
    ),
    unmeasured(15, "guardian_trace_events", only=False, role="guardian", reason="not-implemented", why=NO_TRACE),
    unmeasured(15, "reader_report", "record", role="reader", reason="out-of-scope", why=NO_READER),
    measured(15, "record", also=_in_record("decision_failure"), by=agent_measures.logged_failure, role="agent"),
    unmeasured(15, "record", also=_in_record("event"), role="guardian", reason="not-implemented", why=NO_TRACE),
    measured(
        16,
        *("record", "response"),
        also=_in_record("observed_agent_validation"),
        by=agent_measures.validation,
        role="agent",
    ),
    unmeasured(
        16,
        *("record", "response"),
        also=_in_record("otel_span"),
        role="guardian",
        reason="not-implemented",
        why=NO_TRACE,
    ),
    unmeasured(16, "record", "request", role="guardian", reason="not-implemented", why=NO_TRACE),
    unmeasured(17, "record", role="guardian", reason="not-implemented", why=NO_TRACE),
    unmeasured(18, "record", role="guardian", reason="not-implemented", why=NO_TRACE),
    unmeasured(19, "record", role="agent", reason="not-implemented", why=NO_TRACE),
    unmeasured(19, "reader_report", "record", role="reader", reason="out-of-scope", why=NO_READER),
)


def rules_for(family: str, payload: Mapping[str, Any]) -> list[Rule]:
    """Return the rules that a member's shape fits: exactly one, or the table has a hole."""
    return [rule for rule in RULES if rule.fits(family, payload)]


def result_of(member: Member) -> Result:
    """Return what is said of a member, provided that its measurement passes."""
    [rule] = rules_for(member.family, member.payload)
    compared = ""
    if rule.measure is not None:
        compared = "verdict and code" if rule.on_the_wire else "verdict"
    return Result(
        id=member.id,
        family=member.family,
        requirements=member.requirements,
        proposal=member.is_proposal,
        role=rule.role,
        status=rule.status,
        compared=compared,
        reason=rule.reason or "",
        why=rule.why,
    )
