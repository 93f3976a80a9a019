"""The action card: one condition, its basis, the one next action and what makes it worth asking again.

Texts are fixed and local; only measured numbers are put into them, so a card never outgrows its limit.
"""

from __future__ import annotations

import msgspec

from awr.domain.compaction import Assessment
from awr.errors import InvalidInput

__all__ = ["MAX_CARD_BYTES", "Card", "card_bytes", "compaction_card", "inactive_session_card"]

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


def compaction_card(assessment: Assessment) -> Card:
    """Turn the assessment of the latest compaction into the one next action."""
    return _CARDS[assessment.state](assessment)


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
            "Query executions whose outcome is unknown first. At a safe boundary save a checkpoint and estimate a "
            "complete restart: fixed instructions, tools, required context, recovery material. Only if that is "
            "smaller and work remains, show the user both and ask before opening a new session."
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
        f"is {threshold}%, a heuristic and not a measured break-even point."
    )


_CARDS = {
    "deferred": _deferred,
    "manual_observation": _manual,
    "handoff_candidate": _candidate,
    "continue": _continue,
    "measurement_missing": _missing,
}
