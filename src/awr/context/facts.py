"""What is known of one work item: what its sources say, and what the journal has recorded of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.context.request import ContextRequest
from awr.context.selection import Selection
from awr.domain.execution import Execution
from awr.domain.rules import Rule, applies, is_unresolved
from awr.domain.work import Diagnostic, Freshness, Goal, WorkItem
from awr.journal.executions import executions_of_work
from awr.journal.journal import Reader
from awr.journal.sources import EntityRow, SourceRow, entity, live_sources
from awr.sources.contents import Contents

__all__ = ["DependencyFact", "Facts", "GoalFact", "Profile", "RuleFact", "gather"]

Profile = Literal["standard", "minimal"]
GoalBasis = Literal["explicit_goal_keys", "project_primary_goal_sources"]

_ENDED_GOALS = frozenset({"completed", "done", "cancelled", "canceled", "archived", "retired"})


class GoalFact(msgspec.Struct, frozen=True, kw_only=True):
    """A goal that the work is told of. `goal` is None for a key that was asked for and that no source names."""

    key: str
    goal: Goal | None
    entity: EntityRow | None
    freshness: Freshness


class RuleFact(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that holds for the work, or of which that cannot be told."""

    rule: Rule
    entity: EntityRow
    resolved: bool


class DependencyFact(msgspec.Struct, frozen=True, kw_only=True):
    """Work that this work names. `item` is None where no source describes it now, `entity` where none ever did."""

    key: str
    required: bool
    item: WorkItem | None
    entity: EntityRow | None
    freshness: Freshness

    @property
    def resolved(self) -> bool:
        """Whether it is finished as far as a fresh source says."""
        return self.item is not None and self.item.status == "completed" and self.freshness == "fresh"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a context is made of, but what happened since the last checkpoint."""

    item: WorkItem
    work: EntityRow
    freshness: Freshness
    profile: Profile
    goal_basis: GoalBasis
    goals: tuple[GoalFact, ...]
    has_rules_source: bool
    rules: tuple[RuleFact, ...]
    dependencies: tuple[DependencyFact, ...]
    graph_faults: tuple[Diagnostic, ...]
    executions: tuple[Execution, ...]
    sources: tuple[SourceRow, ...]


def gather(
    reader: Reader, contents: Contents, request: ContextRequest, chosen: Selection, *, profile: Profile
) -> Facts:
    """Collect the facts of work that was found."""
    assert chosen.item is not None, "only work that was found has facts"
    assert chosen.work is not None, "and it has an id"
    sources = tuple(live_sources(reader.database))
    return Facts(
        item=chosen.item,
        work=chosen.work,
        freshness=contents.freshness(chosen.item.external_key),
        profile=profile,
        goal_basis=goal_basis(request),
        goals=tuple(_goals(contents, request, {source.id: source for source in sources})),
        has_rules_source=any(source.domain == "rules" for source in sources),
        rules=tuple(_rules(contents, request, chosen.item, agent=chosen.agent)),
        dependencies=tuple(_dependencies(reader, contents, chosen.item)),
        graph_faults=tuple(
            fault
            for fault in contents.diagnostics(chosen.item)
            if fault.code in {"missing_dependency", "dependency_cycle"}
        ),
        executions=tuple(executions_of_work(reader.database, chosen.work.id)),
        sources=sources,
    )


def goal_basis(request: ContextRequest) -> GoalBasis:
    """Say where the goals of a context come from."""
    return "explicit_goal_keys" if request.goals else "project_primary_goal_sources"


def _goals(contents: Contents, request: ContextRequest, sources: dict[str, SourceRow]) -> list[GoalFact]:
    known = {goal.external_key: goal for goal in contents.goals()}
    keys = tuple(dict.fromkeys(request.goals)) or tuple(known)
    found = []
    for key in keys:
        goal, identity = known.get(key), contents.identity("goal", key)
        source = sources.get(identity.source_id) if identity is not None else None
        if not request.goals and not _is_default(goal, source):
            continue
        freshness: Freshness = source.freshness if source is not None else "unavailable"
        found.append(GoalFact(key=key, goal=goal, entity=identity, freshness=freshness))
    return found


def _is_default(goal: Goal | None, source: SourceRow | None) -> bool:
    if goal is None or source is None or source.role != "primary" or source.domain not in {"goal", "ledger"}:
        return False
    return goal.status.strip().lower() not in _ENDED_GOALS


def _rules(contents: Contents, request: ContextRequest, item: WorkItem, *, agent: str | None) -> list[RuleFact]:
    found = []
    for rule in contents.rules():
        holds = applies(rule, work=item, paths=request.paths, tags=request.tags, agent=agent)
        resolved = holds is not None and not is_unresolved(rule)
        if holds is False and resolved:
            continue
        identity = contents.identity("rule", rule.external_key)
        if identity is not None:
            found.append(RuleFact(rule=rule, entity=identity, resolved=resolved))
    return found


def _dependencies(reader: Reader, contents: Contents, item: WorkItem) -> list[DependencyFact]:
    found: dict[str, DependencyFact] = {}
    for dependency in item.depends_on:
        known = found.get(dependency.key)
        if known is not None and (known.required or not dependency.required):
            continue
        found[dependency.key] = DependencyFact(
            key=dependency.key,
            required=dependency.required,
            item=contents.work_item(dependency.key),
            entity=entity(reader.database, kind="work_item", external_key=dependency.key),
            freshness=contents.freshness(dependency.key),
        )
    return list(found.values())
