"""How large a complete restart would be, and whether that is less than what the session holds now.

A restart is four parts: fixed instructions and tools, which only the host can measure, and the required context and
the recovery material, which are counted here. An unknown part makes the whole unknown; no part is ever guessed, and
nothing is said about cost.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.context.compile import ContextReport
from awr.context.tokens import TOKENIZER, TokenCounter
from awr.domain.compaction import Observation
from awr.domain.session import Checkpoint
from awr.errors import InvalidInput

__all__ = ["Footprint", "HostBasis", "Part", "RestartEstimate", "estimate", "footprint_of", "host_part"]

HostBasis = Literal["host_reported", "measured"]
Basis = HostBasis | Literal["o200k_base_estimate", "unknown"]
COUNT_NOTE = (
    f"counted with {TOKENIZER}: exact for models that use it, an estimate for others; "
    "the host's parts are as the host states them"
)


class Part(msgspec.Struct, frozen=True):
    """One part of a restart. `tokens` is null, and `reason` says why, where its size is not known."""

    tokens: int | None
    basis: Basis
    reason: str | None = None


class Footprint(msgspec.Struct, frozen=True):
    """What the session held after its last compaction, as its host reported. Null where that says nothing usable."""

    tokens: int | None
    basis: Literal["host_reported", "unknown"]
    observation_event_id: str | None
    reason: str | None = None


class RestartEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Four parts and their sum, beside the last footprint. `smaller` is null while anything is unknown."""

    fixed_instructions: Part
    tools: Part
    required_context: Part
    recovery_material: Part
    total: int | None
    last_footprint: Footprint
    smaller: bool | None
    tokenizer: str = TOKENIZER
    count_note: str = COUNT_NOTE
    cost: None = None


def host_part(name: str, tokens: int | None, basis: HostBasis | None) -> Part:
    """Return a part that only the host knows. Raise InvalidInput for a number without its basis, or the reverse."""
    if (tokens is None) != (basis is None):
        raise InvalidInput(
            f"the size of the {name} and where it comes from belong together",
            got="a size without a basis" if basis is None else "a basis without a size",
            expected="both, or neither",
            next_step="say whether the host reported it or you measured it, or leave both out",
        )
    if tokens is None or basis is None:
        return Part(None, "unknown", "the host has not said")
    return Part(tokens, basis)


def estimate(
    report: ContextReport,
    checkpoint: Checkpoint | None,
    *,
    fixed_instructions: Part,
    tools: Part,
    footprint: Footprint,
    counter: TokenCounter,
) -> RestartEstimate:
    """Add up a restart from a compiled context and the checkpoint it names."""
    recovery = _recovery(checkpoint, counter)
    parts = (fixed_instructions, tools, _required(report), recovery)
    known = [part.tokens for part in parts if part.tokens is not None]
    total = sum(known) if len(known) == len(parts) else None
    return RestartEstimate(
        fixed_instructions=fixed_instructions,
        tools=tools,
        required_context=parts[2],
        recovery_material=recovery,
        total=total,
        last_footprint=footprint,
        smaller=None if total is None or footprint.tokens is None else total < footprint.tokens,
    )


def footprint_of(observation: Observation | None, event_id: str | None) -> Footprint:
    """Return what the last recorded observation says the session holds, if it says that of a whole request."""
    reason = None
    if observation is None:
        reason = "no compaction was observed in this session"
    elif observation.measurement_scope != "full_request":
        reason = "the last observation does not cover a whole request"
    elif observation.measurement_basis != "host_reported":
        reason = "the last observation was not reported by the host"
    elif observation.after_tokens is None:
        reason = "the last observation does not say what was left"
    if observation is None or reason is not None:
        return Footprint(None, "unknown", event_id, reason)
    return Footprint(observation.after_tokens, "host_reported", event_id)


def _required(report: ContextReport) -> Part:
    if report.work_context is None or not report.completeness.complete:
        return Part(None, "unknown", "required context is incomplete, so its size is not known")
    return Part(report.work_context.required_tokens, "o200k_base_estimate")


def _recovery(checkpoint: Checkpoint | None, counter: TokenCounter) -> Part:
    if checkpoint is None:
        return Part(None, "unknown", "no checkpoint is saved that a restart could begin from")
    return Part(counter.count(checkpoint.digest), "o200k_base_estimate")
