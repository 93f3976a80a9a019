"""The compaction report: its shape, and the rule behind every flag.

Every number is one that a transcript proves. What it does not prove is null, and no flag is raised on a null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

__all__ = [
    "FLAG_RULES",
    "Compaction",
    "CompactionCounts",
    "Facts",
    "Flag",
    "Report",
    "Session",
    "SkippedFile",
    "Totals",
    "flags_of",
    "occupancy_percent",
]

Flag = Literal[
    "thrash",
    "low_yield",
    "high_floor",
    "premature",
    "estimate_only",
    "implausible_window",
    "failed_attempt",
]
ReportTrigger = Literal["automatic", "manual", "unknown"]
ReportHost = Literal["claude-code", "codex"]
WindowSource = Literal["row", "setting", "env", "user", "table"]

THRASH_REQUESTS = 3
LOW_YIELD_PERCENT = 80
HIGH_FLOOR_PERCENT = 50
PREMATURE_PERCENT = 50
SMALLEST_PLAUSIBLE_WINDOW = 10_000
LARGEST_PLAUSIBLE_RATIO = 2


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """One compaction. Times are Unix milliseconds, counts are tokens of whole requests, percent is not rounded.

    `host_before_tokens` and `host_after_tokens` are the host's own estimates, which are no measurements.
    """

    compaction_id: str | None
    sequence: int
    trigger: ReportTrigger
    observed_at: int | None
    before_tokens: int | None
    after_tokens: int | None
    context_window_tokens: int | None
    window_source: WindowSource | None
    occupancy_percent: float | None
    host_before_tokens: int | None
    host_after_tokens: int | None
    duration_ms: int | None
    requests_since_previous: int | None
    flags: tuple[Flag, ...]


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One native context: a session's own (`agent` is `main`) or a subagent's, by the subagent's id."""

    host: ReportHost
    session_id: str | None
    path: str
    agent: str
    model: str | None
    requests: int
    compactions: tuple[Compaction, ...]


class SkippedFile(msgspec.Struct, frozen=True):
    """A file that a folder scan left out, with the code and the sentence of its error."""

    path: str
    code: str
    reason: str


class CompactionCounts(msgspec.Struct, frozen=True):
    """How many compactions there are, by trigger."""

    automatic: int = 0
    manual: int = 0
    unknown: int = 0


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the sessions of the report.

    `measured` counts compactions with a measured before and after; `tokens_freed` sums their differences and is null
    when there are none. `failed_attempts` also counts those behind a session's last compaction. `copied_compactions`
    were written again by a fork, a branch or a resumption, and are listed where they were made.
    """

    files: int
    sessions: int
    subagents: int
    requests: int
    compactions: CompactionCounts
    measured: int
    tokens_freed: int | None
    flags: dict[str, int]
    failed_attempts: int
    copied_compactions: int
    rows: int
    damaged_rows: int
    oversized_rows: int
    skipped: tuple[SkippedFile, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The public JSON shape, version 1."""

    ok: bool = True
    version: int = 1
    sessions: tuple[Session, ...]
    totals: Totals


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the flag rules look at. `window_tokens` is None for a table value: no rule uses one."""

    trigger: ReportTrigger
    before_tokens: int | None
    after_tokens: int | None
    window_tokens: int | None
    requests_since_previous: int | None
    host_after_tokens: int | None
    failed_attempts: int


def occupancy_percent(after_tokens: int | None, *, window_tokens: int | None) -> float | None:
    """Return how much of the window the first request after the compaction fills, or None if either is unknown."""
    return None if after_tokens is None or not window_tokens else after_tokens * 100 / window_tokens


def flags_of(facts: Facts) -> tuple[Flag, ...]:
    """Return the flags whose rule holds, in the order of FLAG_RULES."""
    return tuple(flag for flag, (_, holds) in _RULES.items() if holds(facts))


def _thrash(facts: Facts) -> bool:
    since = facts.requests_since_previous
    return facts.trigger != "manual" and since is not None and since <= THRASH_REQUESTS


def _low_yield(facts: Facts) -> bool:
    before, after = facts.before_tokens, facts.after_tokens
    return before is not None and after is not None and after * 100 > before * LOW_YIELD_PERCENT


def _high_floor(facts: Facts) -> bool:
    percent = occupancy_percent(facts.after_tokens, window_tokens=facts.window_tokens)
    return percent is not None and percent >= HIGH_FLOOR_PERCENT


def _premature(facts: Facts) -> bool:
    before, window = facts.before_tokens, facts.window_tokens
    if facts.trigger != "automatic" or before is None or window is None:
        return False
    return before * 100 < window * PREMATURE_PERCENT


def _estimate_only(facts: Facts) -> bool:
    return facts.after_tokens is None and facts.host_after_tokens is not None


def _implausible_window(facts: Facts) -> bool:
    window = facts.window_tokens
    if window is None:
        return False
    largest = max(facts.before_tokens or 0, facts.after_tokens or 0)
    return window < SMALLEST_PLAUSIBLE_WINDOW or largest > window * LARGEST_PLAUSIBLE_RATIO


def _failed_attempt(facts: Facts) -> bool:
    return facts.failed_attempts > 0


_RULES: dict[Flag, tuple[str, Callable[[Facts], bool]]] = {
    "thrash": (
        f"not started by the user, and at most {THRASH_REQUESTS} requests after the previous compaction",
        _thrash,
    ),
    "low_yield": (
        f"the first request after it is still more than {LOW_YIELD_PERCENT} % of the last one before it",
        _low_yield,
    ),
    "high_floor": (
        f"the first request after it fills at least {HIGH_FLOOR_PERCENT} % of the window",
        _high_floor,
    ),
    "premature": (
        f"automatic, though the last request before it filled less than {PREMATURE_PERCENT} % of the window",
        _premature,
    ),
    "estimate_only": (
        "no request after it was measured, and only the host's own estimate is there",
        _estimate_only,
    ),
    "implausible_window": (
        f"the stated window is below {SMALLEST_PLAUSIBLE_WINDOW:,} tokens, or a measured request is larger than "
        f"{LARGEST_PLAUSIBLE_RATIO} windows",
        _implausible_window,
    ),
    "failed_attempt": (
        "at least one compaction failed or was refused since the previous one",
        _failed_attempt,
    ),
}

#: The rule of each flag in one sentence, for the report's legend and the documentation.
FLAG_RULES: dict[Flag, str] = {flag: sentence for flag, (sentence, _) in _RULES.items()}
