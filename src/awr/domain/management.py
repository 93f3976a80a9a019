"""How closely a piece of work has to be managed, from what a host observed and what is on record.

The rules are the contract's. Nothing is promoted or admitted by this: it classifies, and says what that asks for.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.work import WorkItem
from awr.errors import InvalidInput

__all__ = [
    "Decision",
    "Facts",
    "ManagementObservation",
    "Mode",
    "Reason",
    "admission_gaps",
    "contract_fingerprint",
    "decide",
    "validate_management_observation",
]

Mode = Literal["undetermined", "lightweight", "continuous"]

_THIRTY_MINUTES_MS = 1_800_000
_REWORK_CYCLES = 3
#: Each observed boolean, with the reason that its false value gives.
_ASSERTIONS = {
    "single_outcome": "multiple_outcomes",
    "bounded_scope": "scope_requires_planning",
    "single_executor": "handoff_or_collaboration",
    "no_deferred_wait": "deferred_wait",
    "plan_valid": "plan_invalidated",
    "outcome_known": "query_outcome_before_retry",
}
_ALWAYS = (
    "preserve_identity_intent_scope_and_current_state",
    "consume_required_context_and_hard_rules",
    "retain_completion_basis_and_actual_outcome",
    "check_source_versions_permissions_claims_and_request_identity",
)
_CONTINUOUS = (
    "maintain_dependencies_and_ownership",
    "checkpoint_at_wait_handoff_interruption_and_phase_change",
    "maintain_next_action_wait_conditions_and_open_loops",
    "query_unknown_results_before_any_retry",
)


class ManagementObservation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a host knows about a piece of work. What it does not know stays null."""

    observed_at: int
    note: str
    single_outcome: bool | None = None
    bounded_scope: bool | None = None
    single_executor: bool | None = None
    no_deferred_wait: bool | None = None
    independently_schedulable_units: int | None = None
    plan_valid: bool | None = None
    outcome_known: bool | None = None
    active_elapsed_ms: int | None = None
    completed_rework_cycles: int | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What AWR itself has on record about the work."""

    unresolved_dependencies: bool
    contract_changed: bool
    persistent_wait: bool
    handed_over: bool
    resumed_across_sessions: bool
    uncertain_execution: bool
    previously_continuous: bool


class Reason(msgspec.Struct, frozen=True):
    """One reason for continuous management, and what kind of fact it rests on."""

    code: str
    basis: Literal["host_assertion", "source_projection", "runtime_history", "runtime_recorded_state"]
    reference: str | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The class, why, and what it asks for. It admits no execution and changes no completion rule."""

    version: Literal[1] = 1
    mode: Mode
    reasons: tuple[Reason, ...]
    unknown_observations: tuple[str, ...]
    reevaluation_signals: tuple[str, ...]
    required_actions: tuple[str, ...]
    optional_maintenance: tuple[str, ...]
    completion_policy: Literal["unchanged_source_policy"] = "unchanged_source_policy"
    execution_admission: Literal["not_granted_by_management_classification"] = (
        "not_granted_by_management_classification"
    )


def validate_management_observation(observation: ManagementObservation, *, now: int) -> None:
    """Check an observation's bounds. `now` is Unix milliseconds. Raise InvalidInput."""
    size = len(observation.note.encode("utf-8", "surrogatepass"))
    counts = (observation.active_elapsed_ms, observation.completed_rework_cycles)
    units = observation.independently_schedulable_units
    if (
        observation.note.strip()
        and size <= 4096
        and 0 <= observation.observed_at <= now
        and all(count is None or 0 <= count < 2**63 for count in counts)
        and (units is None or 1 <= units < 2**63)
    ):
        return
    raise InvalidInput(
        "the management observation breaks its bounds",
        got=f"a note of {size} bytes, observed_at {observation.observed_at}, units {units}",
        expected=f"a note of 1 to 4096 bytes, a time from 0 to {now}, at least 1 unit, counts of at least 0",
        next_step="send what the host knows, and leave out what it does not",
    )


def contract_fingerprint(item: WorkItem, *, work_id: str) -> str:
    """Return a fingerprint of what the work is, which its status, next action and evidence do not change."""
    contract = {
        "work_id": work_id,
        "title": item.title,
        "summary": item.summary,
        "kind": item.kind,
        "acceptance": item.acceptance,
        "paths": item.paths,
        "tags": item.tags,
        "goals": item.goals,
        "depends_on": item.depends_on,
        "ordinary_work_policy": item.ordinary_completion,
    }
    return "sha256:" + digest(journal_bytes(contract))


def admission_gaps(item: WorkItem) -> tuple[str, ...]:
    """Return what the source does not say and an admission would need."""
    missing_acceptance = not item.acceptance or any(not criterion.strip() for criterion in item.acceptance)
    gaps = (
        ("source_acceptance_missing_or_ambiguous", missing_acceptance),
        ("goal_context_missing", not item.goals),
    )
    return tuple(code for code, missing in gaps if missing)


def decide(observation: ManagementObservation | None, *, facts: Facts) -> Decision:
    """Classify. Any reason, or a continuous record before, makes it continuous; it never falls back by itself."""
    reasons = (*_asserted(observation), *_recorded(facts))
    unknown = _unknown(observation)
    mode: Mode = "continuous" if reasons else "undetermined" if unknown else "lightweight"
    signals = _signals(observation)
    actions = list(_ALWAYS)
    if mode == "continuous":
        actions += _CONTINUOUS
    if mode == "undetermined":
        actions.append("assess_unknown_management_facts")
    if signals:
        actions.append("reevaluate_scope_plan_and_recovery_without_automatic_upgrade")
    return Decision(
        mode=mode,
        reasons=reasons,
        unknown_observations=unknown,
        reevaluation_signals=signals,
        required_actions=tuple(actions),
        optional_maintenance=() if mode == "continuous" else ("record_a_checkpoint_when_it_helps",),
    )


def _asserted(observation: ManagementObservation | None) -> tuple[Reason, ...]:
    if observation is None:
        return ()
    found = [
        Reason(code, "host_assertion", field)
        for field, code in _ASSERTIONS.items()
        if getattr(observation, field) is False
    ]
    if (observation.independently_schedulable_units or 1) >= 2:
        found.append(Reason("independent_work_units", "host_assertion", "independently_schedulable_units"))
    return tuple(found)


def _recorded(facts: Facts) -> tuple[Reason, ...]:
    rows = (
        (facts.unresolved_dependencies, Reason("unresolved_dependencies", "source_projection")),
        (facts.contract_changed, Reason("work_contract_changed", "source_projection")),
        (facts.persistent_wait, Reason("persistent_wait", "runtime_history")),
        (facts.handed_over, Reason("work_handoff", "runtime_history")),
        (facts.resumed_across_sessions, Reason("cross_session_resume", "runtime_history")),
        (facts.uncertain_execution, Reason("execution_result_requires_query", "runtime_recorded_state")),
        (facts.previously_continuous, Reason("continuous_management_retained", "runtime_history")),
    )
    return tuple(reason for holds, reason in rows if holds)


def _unknown(observation: ManagementObservation | None) -> tuple[str, ...]:
    fields = (*_ASSERTIONS, "independently_schedulable_units")
    return tuple(field for field in fields if observation is None or getattr(observation, field) is None)


def _signals(observation: ManagementObservation | None) -> tuple[str, ...]:
    if observation is None:
        return ()
    rows = (
        ("active_elapsed_at_least_30_minutes", (observation.active_elapsed_ms or 0) >= _THIRTY_MINUTES_MS),
        ("at_least_3_completed_rework_cycles", (observation.completed_rework_cycles or 0) >= _REWORK_CYCLES),
    )
    return tuple(signal for signal, holds in rows if holds)
