"""What the ledger says about work, and when a work item may be taken up.

The files are the authority. Nothing here guesses a status, a dependency or a completion.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
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
    """A scope of work: a milestone of a ledger with its own acceptance, or a heading of a written plan."""

    external_key: str
    title: str
    line: int
    kind: Literal["milestone", "plan"] = "milestone"
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
    known_faults: dict[str, tuple[Diagnostic, ...]] | None = None,
) -> tuple[Diagnostic, ...]:
    """Return every reason against a new claim of `item`; an empty tuple means it is ready.

    `lookup` and `freshness` are asked by work item key. Only unfinished required dependencies are followed, so an
    item whose direct dependencies are completed costs one lookup each, and others cost their open closure. Give one
    empty `known_faults` to all calls over the same facts, and no part of the graph is walked twice.
    """
    return _diagnose(
        item,
        allowed=_SELECTABLE,
        lookup=lookup,
        active_claims=active_claims,
        freshness=freshness,
        known_faults=known_faults,
    )


def claim_readiness(
    item: WorkItem,
    *,
    lookup: Callable[[str], WorkItem | None],
    active_claims: Container[str],
    freshness: Callable[[str], Freshness],
    known_faults: dict[str, tuple[Diagnostic, ...]] | None = None,
) -> tuple[Diagnostic, ...]:
    """Return every reason against a claim of `item`; a claimed or started one may be taken up as well."""
    return _diagnose(
        item,
        allowed=_CLAIMABLE,
        lookup=lookup,
        active_claims=active_claims,
        freshness=freshness,
        known_faults=known_faults,
    )


def _diagnose(
    item: WorkItem,
    *,
    allowed: frozenset[str],
    lookup: Callable[[str], WorkItem | None],
    active_claims: Container[str],
    freshness: Callable[[str], Freshness],
    known_faults: dict[str, tuple[Diagnostic, ...]] | None,
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
    found.extend(_dependency_diagnostics(item, lookup=lookup, freshness=freshness, known_faults=known_faults))
    if key in active_claims:
        found.append(Diagnostic("active_claim", key, "a session holds a live claim"))
    return tuple(found)


def _dependency_diagnostics(
    item: WorkItem,
    *,
    lookup: Callable[[str], WorkItem | None],
    freshness: Callable[[str], Freshness],
    known_faults: dict[str, tuple[Diagnostic, ...]] | None,
) -> list[Diagnostic]:
    known = {} if known_faults is None else known_faults
    faults = (
        known[item.external_key] if item.external_key in known else _graph_faults(item, lookup=lookup, known=known)
    )
    found = sorted(faults, key=lambda fault: fault.code != "missing_dependency")
    for dependency in item.depends_on:
        target = lookup(dependency.key) if dependency.required else None
        if target is None or target.external_key == item.external_key:
            continue
        if target.status != "completed":
            found.append(Diagnostic("dependency_not_completed", dependency.key, f"the status is {target.status}"))
        if (state := freshness(dependency.key)) != "fresh":
            found.append(Diagnostic("source_not_fresh", dependency.key, f"the source of this dependency is {state}"))
    return found


class _Step:
    """One item on the way down: what is still to be visited below it, and what was found there."""

    __slots__ = ("circle", "faults", "key", "lowest", "needs", "order")

    def __init__(self, item: WorkItem, *, order: int) -> None:
        self.key = item.external_key
        self.needs = iter(_required(item))
        self.order = order
        self.lowest = order
        self.circle: tuple[str, ...] | None = None
        self.faults: dict[tuple[str, str], Diagnostic] = {}

    def add(self, faults: Iterable[Diagnostic]) -> None:
        for fault in faults:
            self.faults.setdefault((fault.code, fault.work_item_key), fault)


def _graph_faults(
    item: WorkItem, *, lookup: Callable[[str], WorkItem | None], known: dict[str, tuple[Diagnostic, ...]]
) -> tuple[Diagnostic, ...]:
    """Return the missing keys and the circles in the open closure of `item`, and add all that is learnt to `known`.

    Tarjan's strongly connected components, with an own stack because a chain may be longer than Python's. All
    members of a component reach the same faults, so that one walk settles them together.
    """
    path = [_Step(item, order=0)]
    order = {item.external_key: 0}
    on_path = {item.external_key: 0}
    unsettled = [item.external_key]
    while path:
        step = path[-1]
        key = next(step.needs, None)
        if key is None:
            path.pop()
            del on_path[step.key]
            if step.lowest == step.order:
                _settle(step, unsettled=unsettled, known=known)
            if path:
                _hand_up(step, path[-1], known=known)
        elif key in known:
            step.add(known[key])
        elif key in order:
            step.lowest = min(step.lowest, order[key])
            if key in on_path and step.circle is None:
                step.circle = tuple(each.key for each in path[on_path[key] :])
        elif (target := lookup(key)) is None:
            step.add([Diagnostic("missing_dependency", key, f"required by {step.key}, and no source names it")])
        elif target.status != "completed":
            order[key] = len(order)
            on_path[key] = len(path)
            unsettled.append(key)
            path.append(_Step(target, order=order[key]))
    return known[item.external_key]


def _settle(step: _Step, *, unsettled: list[str], known: dict[str, tuple[Diagnostic, ...]]) -> None:
    """Record what the whole component of `step` reaches. It is on top of the unsettled keys."""
    if step.circle is not None:
        drawn = f"required dependencies form a circle: {_drawn(step.circle)}"
        step.add([Diagnostic("dependency_cycle", step.circle[0], drawn)])
    faults = tuple(step.faults.values())
    member = None
    while member != step.key:
        member = unsettled.pop()
        known[member] = faults


def _hand_up(step: _Step, parent: _Step, *, known: dict[str, tuple[Diagnostic, ...]]) -> None:
    if step.key in known:
        parent.add(known[step.key])
        return
    parent.add(step.faults.values())
    parent.lowest = min(parent.lowest, step.lowest)
    parent.circle = parent.circle or step.circle


def _required(item: WorkItem) -> list[str]:
    return [dependency.key for dependency in item.depends_on if dependency.required]


def _drawn(cycle: tuple[str, ...]) -> str:
    shown = " -> ".join(cycle[:_SHOWN_KEYS])
    if len(cycle) > _SHOWN_KEYS:
        shown += f" -> ({len(cycle) - _SHOWN_KEYS} more)"
    return f"{shown} -> {cycle[0]}"
