"""The action card: one condition, its basis, the one next action and what makes it worth asking again.

Texts are fixed and local; only measured numbers are put into them, so a card never outgrows its limit.
"""

from __future__ import annotations

import msgspec

from awr.domain.compaction import Assessment
from awr.errors import InvalidInput

__all__ = [
    "MAX_CARD_BYTES",
    "Card",
    "card_bytes",
    "compaction_card",
    "inactive_session_card",
    "management_card",
    "not_ready_card",
    "ordinary_card",
    "required_gaps_card",
    "uncertain_execution_card",
    "waiting_card",
]

MAX_CARD_BYTES = 1024


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Four texts for an agent to act on."""

    when: str
    basis: str
    next_action: str
    recheck: str


def card_bytes(card: Card) -> bytes:
    """Serialize a card. Raise InvalidInput above 1,024 bytes; a card is never cut."""
    data = msgspec.json.encode(card)
    if len(data) > MAX_CARD_BYTES:
        raise InvalidInput(
            "the action card is too large",
            got=f"{len(data)} bytes",
            expected=f"at most {MAX_CARD_BYTES} bytes",
            next_step="report this as a fault of AWR",
        )
    return data


def inactive_session_card(status: str) -> Card:
    """Tell an agent that its session is over. `status` is the session's own state."""
    return Card(
        when=f"This AWR session is {status}, not active.",
        basis="The session's own record. No new observation, deferral or claim can be written under it.",
        next_action=(
            "Look at its checkpoint and its successor with awr session show, then continue in the successor or "
            "resume the work in a new session."
        ),
        recheck="Once the work is resumed and freshly compiled required context has been read.",
    )


def uncertain_execution_card(count: int) -> Card:
    """Stop a retry while something may still be running. `count` is how many outcomes are unknown."""
    return Card(
        when=f"The outcome of {_counted(count, 'execution')} of this work is not known.",
        basis="It began or was reported, and no report says that it succeeded or failed.",
        next_action="Query execution status at its host and record the report before any retry or handoff.",
        recheck="When a final result, or a decision to recover, is on record.",
    )


def waiting_card() -> Card:
    """Keep an agent from asking again what the user has been asked."""
    return Card(
        when="This work waits for the user's reply.",
        basis="An open wait of this session or of one it continues, with the checkpoint saved before it.",
        next_action="Wait for the reply and keep the checkpoint. Do not repeat the request.",
        recheck="When the wait is resolved with the user's own reply.",
    )


def required_gaps_card(count: int) -> Card:
    """Send an agent to what it must know and does not. `count` is how many issues the completeness lists."""
    return Card(
        when=f"Required context of this work is incomplete: {_counted(count, 'issue')}.",
        basis="The completeness of the compiled context, which lists each one with its code and reference.",
        next_action="Resolve the listed required gaps for this work, then prepare it again.",
        recheck="When the sources or records behind those issues have changed.",
    )


def not_ready_card(count: int) -> Card:
    """Send an agent to what keeps this work from being taken up. `count` is how many diagnostics there are."""
    return Card(
        when=f"This work cannot be taken up now: {_counted(count, 'diagnostic')}.",
        basis="Its status, blocker and dependencies as the sources state them, and the claims on record.",
        next_action=(
            "Resolve this work's own blockers or the conflicting claim. Leave unrelated entries of the ledger alone."
        ),
        recheck="When one of them has changed.",
    )


def management_card() -> Card:
    """Ask for the one management record that is missing."""
    return Card(
        when="How closely this work has to be managed is not on record as it stands.",
        basis="No record yet, or its mode or the work's contract has changed since.",
        next_action=(
            "Consume the required context, then record known observations once with awr work manage. Invent none."
        ),
        recheck="When the record is written; then prepare once more.",
    )


def ordinary_card() -> Card:
    """Let an agent work."""
    return Card(
        when="The work is ready or under way, and everything required is known.",
        basis="The compiled context, the claims on record and the management record.",
        next_action="Consume the rendered context, then do the work's next action under the session's own claim.",
        recheck="At a change of scope, a wait, an unknown result, a completed compaction or a handoff.",
    )


def compaction_card(assessment: Assessment) -> Card:
    """Turn the assessment of the latest compaction into the one next action."""
    return _CARDS[assessment.state](assessment)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _deferred(_: Assessment) -> Card:
    return Card(
        when="The advice about the latest compaction was postponed.",
        basis="A deferral of exactly this observation is on record. Native compaction stays on.",
        next_action="Go on with the current task. Do not raise this suggestion again.",
        recheck="At the next completed compaction, or when the model or the window changes.",
    )


def _manual(_: Assessment) -> Card:
    return Card(
        when="The latest compaction was asked for by hand.",
        basis="Manual compactions are recorded, and are not measured against the automatic threshold.",
        next_action="Go on with the current task and leave native compaction on.",
        recheck="At the next automatic compaction.",
    )


def _candidate(assessment: Assessment) -> Card:
    return Card(
        when=_measured_when(assessment, "left the context at or above the threshold."),
        basis=_measured_basis(assessment),
        next_action=(
            "Query executions whose outcome is unknown first. At a safe boundary save a checkpoint and run awr "
            "session restart-estimate. Only if the restart is smaller and work remains, show the user both and ask "
            "before opening a new session."
        ),
        recheck="When the user has decided, at the next completed compaction, or when model or window change.",
    )


def _continue(assessment: Assessment) -> Card:
    return Card(
        when=_measured_when(assessment, "left the context below the threshold."),
        basis=_measured_basis(assessment),
        next_action="Go on with the current task in this window.",
        recheck="At the next completed compaction, or when the model or the window changes.",
    )


def _missing(_: Assessment) -> Card:
    return Card(
        when="The occupancy after the latest compaction is not known.",
        basis=(
            "The host has not reported both a whole request's tokens and the effective window. The length of a "
            "summary or a running bill cannot stand in for them."
        ),
        next_action="Go on with the current task. Let the host report its own numbers; do not guess any.",
        recheck="At the next completed compaction that the host has measured.",
    )


def _measured_when(assessment: Assessment, outcome: str) -> str:
    # Only a comparable earlier observation proves that model and window stayed the same.
    if assessment.previous_delta_percentage_points is None:
        return f"An automatic compaction {outcome}"
    return f"An automatic compaction, same model and window as the one before, {outcome}"


def _measured_basis(assessment: Assessment) -> str:
    percent, threshold = (
        assessment.post_compaction_percent,
        assessment.policy.post_compaction_threshold_percent,
    )
    change = ""
    if assessment.previous_delta_percentage_points is not None:
        change = f" ({assessment.previous_delta_percentage_points:+.1f} points since the one before)"
    return (
        f"The host reports {percent:.1f}% of its effective window in use after compacting{change}; the threshold "
        f"is {threshold}%, a heuristic, not a measured break-even point."
    )


_CARDS = {
    "deferred": _deferred,
    "manual_observation": _manual,
    "handoff_candidate": _candidate,
    "continue": _continue,
    "measurement_missing": _missing,
}
