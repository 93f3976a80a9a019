"""What one completed native compaction did: its record, its rules and its assessment.

The host measures, AWR records and assesses. A missing number stays null; nothing here fills a gap.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = [
    "DEFAULT_POLICY",
    "Assessment",
    "Observation",
    "Policy",
    "State",
    "Usage",
    "assess",
    "usable_percent",
    "validate_observation",
    "validate_policy",
]

MAX_TOKENS = 1_000_000_000
MAX_SEQUENCE = 2**63 - 1

Trigger = Literal["automatic", "manual"]
Scope = Literal["full_request", "history_only", "unknown"]
Basis = Literal["host_reported", "estimated", "unknown"]
State = Literal["deferred", "manual_observation", "handoff_candidate", "continue", "measurement_missing"]


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the host says the compaction itself used. Cached input is part of the input, not beside it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cost_usd: float | None = None


class Observation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One completed native compaction as the host reports it.

    `compaction_id` is the host's own stable id, `observed_at` is in Unix milliseconds, token counts are whole
    requests, `context_window_tokens` is the capacity the host compacts by, not the model's advertised size.
    """

    compaction_id: str
    sequence: int
    observed_at: int
    trigger: Trigger
    model: str
    source: str
    measurement_scope: Scope
    measurement_basis: Basis
    before_tokens: int | None = None
    after_tokens: int | None = None
    context_window_tokens: int | None = None
    duration_ms: int | None = None
    usage: Usage | None = None


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The host's choice of when an automatic compaction makes a handoff worth preparing: 1 to 100 percent."""

    post_compaction_threshold_percent: int


#: A starting heuristic, not a measured break-even point.
DEFAULT_POLICY = Policy(post_compaction_threshold_percent=50)


class Assessment(msgspec.Struct, frozen=True):
    """What the latest observation means. Percentages are exact quotients, never rounded."""

    state: State
    post_compaction_percent: float | None
    previous_delta_percentage_points: float | None
    policy: Policy


def validate_observation(observation: Observation, *, now: int) -> None:
    """Check every bound in the contract's order. `now` is Unix milliseconds. Raise InvalidInput."""
    bounded_text("compaction_id", observation.compaction_id, limit=256)
    bounded_text("model", observation.model, limit=128)
    bounded_text("source", observation.source, limit=512)
    _validate_position(observation, now=now)
    _validate_tokens(observation)
    if observation.usage is not None:
        _validate_usage(observation.usage)


def validate_policy(policy: Policy) -> None:
    """Check that the threshold is 1 to 100. Raise InvalidInput."""
    if not 1 <= policy.post_compaction_threshold_percent <= 100:
        raise InvalidInput(
            "the compaction policy's threshold is out of range",
            got=policy.post_compaction_threshold_percent,
            expected="post_compaction_threshold_percent from 1 to 100",
            next_step="send a threshold in range, or leave the whole policy out to use 50",
        )


def usable_percent(observation: Observation) -> float | None:
    """Return the occupancy after the compaction in percent, or None unless the host measured both numbers."""
    if observation.measurement_scope != "full_request" or observation.measurement_basis != "host_reported":
        return None
    if observation.after_tokens is None or observation.context_window_tokens is None:
        return None
    return observation.after_tokens * 100 / observation.context_window_tokens


def assess(
    latest: Observation | None,
    *,
    previous: Observation | None,
    policy: Policy,
    deferred: bool,
) -> Assessment:
    """Decide the state of the newest observation. `deferred` tells whether this very one was postponed."""
    percent = None if latest is None else usable_percent(latest)
    return Assessment(
        state=_state(latest, percent=percent, policy=policy, deferred=deferred),
        post_compaction_percent=percent,
        previous_delta_percentage_points=_comparable_delta(latest, previous=previous),
        policy=policy,
    )


def _state(latest: Observation | None, *, percent: float | None, policy: Policy, deferred: bool) -> State:
    if latest is None:
        return "measurement_missing"
    if deferred:
        return "deferred"
    if latest.trigger == "manual":
        return "manual_observation"
    if percent is None:
        return "measurement_missing"
    return "handoff_candidate" if percent >= policy.post_compaction_threshold_percent else "continue"


def _comparable_delta(latest: Observation | None, *, previous: Observation | None) -> float | None:
    if latest is None or previous is None:
        return None
    same = (
        latest.model == previous.model
        and latest.context_window_tokens == previous.context_window_tokens
        and latest.trigger == previous.trigger
    )
    now, before = usable_percent(latest), usable_percent(previous)
    if not same or now is None or before is None:
        return None
    return now - before


def _validate_position(observation: Observation, *, now: int) -> None:
    if 1 <= observation.sequence <= MAX_SEQUENCE and 0 < observation.observed_at <= now:
        return
    raise InvalidInput(
        "the observation's sequence or time is out of range",
        got=f"sequence {observation.sequence}, observed_at {observation.observed_at}",
        expected=f"sequence from 1 to {MAX_SEQUENCE}, observed_at from 1 to {now} (now, Unix milliseconds)",
        next_step="send the host's own sequence and the time at which the compaction ended",
    )


def _validate_tokens(observation: Observation) -> None:
    window = observation.context_window_tokens
    counts = (observation.before_tokens, observation.after_tokens, window)
    in_range = all(count is None or 0 <= count <= MAX_TOKENS for count in counts)
    if in_range and window != 0 and (observation.duration_ms is None or 0 <= observation.duration_ms < 2**64):
        return
    raise InvalidInput(
        "a token count of the observation is out of range",
        got=f"before {counts[0]}, after {counts[1]}, window {window}, duration {observation.duration_ms} ms",
        expected=f"token counts from 0 to {MAX_TOKENS}, a window of at least 1, a duration of at least 0",
        next_step="send the host's numbers, and leave out those it does not know",
    )


def _validate_usage(usage: Usage) -> None:
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
    counted = all(count is None or 0 <= count < 2**64 for count in counts)
    paid = usage.cost_usd is None or (math.isfinite(usage.cost_usd) and usage.cost_usd >= 0)
    inside = (
        usage.cached_input_tokens is None
        or usage.input_tokens is None
        or usage.cached_input_tokens <= usage.input_tokens
    )
    if counted and paid and inside:
        return
    raise InvalidInput(
        "the observation's usage contradicts itself",
        got=f"input {counts[0]}, output {counts[1]}, cached input {counts[2]}, cost {usage.cost_usd}",
        expected="counts of at least 0, cached input not above input, a finite cost of at least 0",
        next_step="send the host's usage unchanged, or leave it out",
    )
