"""What the ledger says about work, and when a work item may be taken up.

The files are the authority. Nothing here guesses a status, a dependency or a completion.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Literal

import msgspec

__all__ = [
    "STATUSES",
    "Dependency",
    "Diagnostic",
    "DiagnosticCode",
    "Edge",
    "EvidenceReference",
    "Freshness",
    "Goal",
    "Plan",
    "Status",
    "WorkItem",
    "claim_readiness",
    "readiness",
]

Status = Literal[
    "draft",
    "planned",
    "ready",
    "claimed",
    "in_progress",
    "blocked",
    "completed",
    "cancelled",
    "unknown",
]
Freshness = Literal["fresh", "stale", "unavailable"]
DiagnosticCode = Literal[
    "status_not_selectable",
    "unknown_status",
    "active_blocker",
    "source_not_fresh",
    "missing_dependency",
    "dependency_cycle",
    "dependency_not_completed",
    "active_claim",
]

#: The states a ledger can name. `unknown` is not one of them: it is what AWR says of any other spelling.
STATUSES: frozenset[str] = frozenset(
    {"draft", "planned", "ready", "claimed", "in_progress", "blocked", "completed", "cancelled"}
)

_SELECTABLE = frozenset({"planned", "ready"})
_CLAIMABLE = _SELECTABLE | {"claimed", "in_progress"}
_SHOWN_KEYS = 8


class Dependency(msgspec.Struct, frozen=True):
    """Another work item that this one names. Only a required one blocks."""

    key: str
    required: bool = True


class EvidenceReference(msgspec.Struct, frozen=True):
    """A report the ledger points at. Nothing about it is verified here."""

    locator: str
    summary: str | None = None


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """One work item as its source states it.

    `status` is canonical or `unknown`; `raw_status` is the spelling in the file. `line` is 1-based.
    `ordinary_completion` is kept as plain data; its inner shape is the source's own.
    """

    external_key: str
    title: str
    status: Status
    line: int
    raw_status: str | None = None
    kind: str | None = None
    owner: str | None = None
    required: bool = False
    priority: str | None = None
    milestone: str | None = None
    score: int | None = None
    evidence_level: str | None = None
    summary: str | None = None
    next_action: str | None = None
    blocker: str | None = None
    acceptance: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    goals: tuple[str, ...] = ()
    evidence: tuple[EvidenceReference, ...] = ()
    ordinary_completion: object = None
    archived: bool = False


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What the work is for."""

    external_key: str
    title: str
    line: int
    status: str = "unknown"
    priority: str | None = None
    summary: str | None = None
    success_criteria: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A milestone: a scope of work with its own acceptance."""

    external_key: str
    title: str
    line: int
    kind: Literal["milestone"] = "milestone"
    status: str = "unknown"
    summary: str | None = None
    scope: str | None = None
    acceptance: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True):
    """A stated relation. `source` is always a work item; the target may be missing from the ledger."""

    kind: Literal["depends_on", "part_of", "supports"]
    source: str
    target: str
    required: bool = True


class Diagnostic(msgspec.Struct, frozen=True):
    """One reason why work cannot be taken up.

    `work_item_key` is the item that has to change: the item itself, or the dependency that is in the way.
    """

    code: DiagnosticCode
    work_item_key: str
    detail: str


def readiness(
    item: WorkItem,
    *,
    lookup: Callable[[str], WorkItem | None],
    active_claims: Container[str],
    freshness: Callable[[str], Freshness],
    settled: set[str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Return every reason against a new claim of `item`; an empty tuple means it is ready.

    `lookup` and `freshness` are asked by work item key. Only unfinished required dependencies are followed, so an
    item whose direct dependencies are completed costs one lookup each, and others cost their open closure. Give one
    empty `settled` set to all calls over the same facts, and no sound part of the graph is walked twice.
    """
    return _diagnose(
        item,
        allowed=_SELECTABLE,
        lookup=lookup,
        active_claims=active_claims,
        freshness=freshness,
        settled=settled,
    )


def claim_readiness(
    item: WorkItem,
    *,
    lookup: Callable[[str], WorkItem | None],
    active_claims: Container[str],
    freshness: Callable[[str], Freshness],
    settled: set[str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Return every reason against a claim of `item`; a claimed or started one may be taken up as well."""
    return _diagnose(
        item,
        allowed=_CLAIMABLE,
        lookup=lookup,
        active_claims=active_claims,
        freshness=freshness,
        settled=settled,
    )


def _diagnose(
    item: WorkItem,
    *,
    allowed: frozenset[str],
    lookup: Callable[[str], WorkItem | None],
    active_claims: Container[str],
    freshness: Callable[[str], Freshness],
    settled: set[str] | None,
) -> tuple[Diagnostic, ...]:
    key = item.external_key
    found: list[Diagnostic] = []
    if item.status == "unknown":
        found.append(Diagnostic("unknown_status", key, "the ledger's status has no known meaning"))
    elif item.archived:
        found.append(Diagnostic("status_not_selectable", key, "the work item is archived"))
    elif item.status not in allowed:
        found.append(Diagnostic("status_not_selectable", key, f"the status is {item.status}"))
    if item.blocker is not None and item.blocker.strip():
        found.append(Diagnostic("active_blocker", key, "the ledger names a blocker"))
    if (state := freshness(key)) != "fresh":
        found.append(Diagnostic("source_not_fresh", key, f"the source of this work item is {state}"))
    found.extend(_dependency_diagnostics(item, lookup=lookup, freshness=freshness, settled=settled))
    if key in active_claims:
        found.append(Diagnostic("active_claim", key, "a session holds a live claim"))
    return tuple(found)


def _dependency_diagnostics(
    item: WorkItem,
    *,
    lookup: Callable[[str], WorkItem | None],
    freshness: Callable[[str], Freshness],
    settled: set[str] | None,
) -> list[Diagnostic]:
    missing, cycles = _walk(item, lookup=lookup, settled=set() if settled is None else settled)
    found = [
        Diagnostic("missing_dependency", key, f"required by {parent}, and no source names it")
        for key, parent in missing.items()
    ]
    found.extend(
        Diagnostic("dependency_cycle", cycle[0], f"required dependencies form a circle: {_drawn(cycle)}")
        for cycle in cycles
    )
    for dependency in item.depends_on:
        target = lookup(dependency.key) if dependency.required else None
        if target is None or target.external_key == item.external_key:
            continue
        if target.status != "completed":
            found.append(Diagnostic("dependency_not_completed", dependency.key, f"the status is {target.status}"))
        if (state := freshness(dependency.key)) != "fresh":
            found.append(Diagnostic("source_not_fresh", dependency.key, f"the source of this dependency is {state}"))
    return found


def _walk(
    item: WorkItem, *, lookup: Callable[[str], WorkItem | None], settled: set[str]
) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """Return missing keys with the item that needs them, and the circles, in the open closure of `item`.

    Depth first with its own stack: a chain may be longer than Python's. Keys below which nothing is wrong are added
    to `settled`.
    """
    missing: dict[str, str] = {}
    cycles: list[tuple[str, ...]] = []
    position = {item.external_key: 0}
    path = [item.external_key]
    pending = [list(reversed(_required(item)))]
    faults, faults_before = 0, [0]
    finished: set[str] = set()
    while pending:
        if not pending[-1]:
            pending.pop()
            closed = path.pop()
            del position[closed]
            finished.add(closed)
            if faults == faults_before.pop():
                settled.add(closed)
            continue
        key = pending[-1].pop()
        if key in settled:
            continue
        if key in position:
            faults += 1
            cycles.append(tuple(path[position[key] :]))
            continue
        if key in finished or key in missing:
            faults += 1
            continue
        target = lookup(key)
        if target is None:
            faults += 1
            missing[key] = path[-1]
        elif target.status != "completed":
            position[key] = len(path)
            path.append(key)
            pending.append(list(reversed(_required(target))))
            faults_before.append(faults)
    return missing, cycles


def _required(item: WorkItem) -> list[str]:
    return [dependency.key for dependency in item.depends_on if dependency.required]


def _drawn(cycle: tuple[str, ...]) -> str:
    shown = " -> ".join(cycle[:_SHOWN_KEYS])
    if len(cycle) > _SHOWN_KEYS:
        shown += f" -> ({len(cycle) - _SHOWN_KEYS} more)"
    return f"{shown} -> {cycle[0]}"
