"""Whether everything that must be known is known, and what exactly is missing where it is not.

Work that waits for other work, and evidence that is still to come, are facts and no gaps in what is known.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.context.delta import Delta
from awr.context.evidence import EvidenceGap
from awr.context.facts import DependencyFact, Facts, GoalFact, Profile
from awr.context.selection import Selection
from awr.domain.work import Freshness
from awr.journal.journal import Reader
from awr.journal.sources import SourceRow, live_sources
from awr.sources.index import RefreshReport

__all__ = ["ISSUE_CODES", "Completeness", "Issue", "IssueCode", "SourceVersion", "assess", "source_versions"]

IssueCode = Literal[
    "source_refresh_missing",
    "source_refresh_failed",
    "source_projection_pending",
    "source_not_fresh",
    "work_item_not_found",
    "work_state_incomplete",
    "acceptance_missing_or_stale",
    "rules_source_missing",
    "hard_rule_unresolved",
    "required_dependency_missing",
    "required_dependency_unavailable",
    "required_dependency_state_incomplete",
    "dependency_source_not_fresh",
    "dependency_cycle",
    "goal_context_missing",
    "goal_not_found",
    "goal_state_incomplete",
    "scoped_delta_incomplete",
]
Field = Literal[
    "source_fresh",
    "work_item_found",
    "work_state_complete",
    "acceptance_complete",
    "rules_complete",
    "dependencies_complete",
    "goal_context_complete",
    "delta_complete",
]
#: Every gap that this build can find, with what it means.
ISSUE_CODES: dict[IssueCode, str] = {
    "source_refresh_missing": "the files were not looked at, because the caller asked for what was last indexed",
    "source_refresh_failed": "a source cannot be read or parsed; its old facts stay and are not fresh",
    "source_projection_pending": "a source changed and is not parsed yet",
    "source_not_fresh": "a source is stale or unavailable in the last projection",
    "work_item_not_found": "no source names the work now",
    "work_state_incomplete": "the status is unknown, the next action is blank, or blocked work names no blocker",
    "acceptance_missing_or_stale": "no acceptance is stated, or the work's source is not fresh",
    "rules_source_missing": "the project's profile asks for a source of rules and the manifest has none",
    "hard_rule_unresolved": "a rule that is hard, or of no stated severity, may hold; that cannot be told",
    "required_dependency_missing": "a required dependency is named that no source has ever had",
    "required_dependency_unavailable": "a required dependency was known once, and no source names it now",
    "required_dependency_state_incomplete": "a required dependency has a status of no known meaning",
    "dependency_source_not_fresh": "the source of a required dependency is not fresh",
    "dependency_cycle": "required dependencies form a circle",
    "goal_context_missing": "no goal is asked for and no primary source has an open one",
    "goal_not_found": "a goal that was asked for is in no source",
    "goal_state_incomplete": "a goal's title or status is blank, not settled, or from a source that is not fresh",
    "scoped_delta_incomplete": "there are more critical events since the baseline than a delta may hold",
}
_UNSETTLED_GOALS = frozenset({"", "unknown", "draft", "candidate", "pending", "needs_confirmation"})


class Issue(msgspec.Struct, frozen=True):
    """One gap: which part it leaves open, what it is, what it is about, and why it matters."""

    field: Field
    code: IssueCode
    reference: str | None
    reason: str


class SourceVersion(msgspec.Struct, frozen=True):
    """The version of a source that the facts come from. `fingerprint` is null until it was parsed once."""

    id: str
    revision: int
    fingerprint: str | None
    freshness: Freshness
    locator: str


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """What is known and what is not. A part that could not be looked at is false, but the goals' may be null."""

    project_id: str
    project_revision: int
    work_item_key: str | None
    branch_id: None = None
    source_refresh_performed: bool
    freshness_basis: Literal["source_refresh_at_project_revision", "last_recorded_projection_only"]
    source_fresh: bool
    work_item_found: bool
    work_state_complete: bool
    acceptance_complete: bool
    rules_complete: bool
    dependencies_complete: bool
    decision_context_complete: bool
    goal_context_complete: bool | None
    unresolved_required_dependencies: tuple[str, ...]
    evidence_gaps: tuple[EvidenceGap, ...]
    source_versions: tuple[SourceVersion, ...]
    issues: tuple[Issue, ...]
    complete: bool
    status: Literal["CONTEXT COMPLETE", "CONTEXT INCOMPLETE"]
    assessment_scope: str = (
        "whether the facts that this project's own sources and journal can state are at hand; not whether they are "
        "true, nor whether the work is ready or done"
    )


def assess(
    reader: Reader,
    chosen: Selection,
    facts: Facts | None,
    *,
    delta: Delta | None,
    evidence_gaps: tuple[EvidenceGap, ...],
    refreshed: RefreshReport | None,
) -> Completeness:
    """Judge what was gathered. `facts` and `delta` are None for work that was not found."""
    rows = facts.sources if facts is not None else tuple(live_sources(reader.database))
    issues = [*_source_issues(rows, refreshed)]
    if facts is None:
        issues.append(Issue("work_item_found", "work_item_not_found", chosen.key, "no source names this work now"))
    else:
        issues += [*_work_issues(facts), *_rule_issues(facts), *_dependency_issues(facts), *_goal_issues(facts)]
    if delta is not None and delta.critical_left_out:
        reason = f"{delta.critical_left_out} older critical events are not shown"
        issues.append(Issue("delta_complete", "scoped_delta_incomplete", None, reason))
    open_fields = {issue.field for issue in issues}
    found = facts is not None
    return Completeness(
        project_id=reader.project_id,
        project_revision=reader.project_revision,
        work_item_key=chosen.key,
        source_refresh_performed=refreshed is not None,
        freshness_basis="source_refresh_at_project_revision" if refreshed else "last_recorded_projection_only",
        source_fresh="source_fresh" not in open_fields,
        work_item_found=found,
        work_state_complete=found and "work_state_complete" not in open_fields,
        acceptance_complete=found and "acceptance_complete" not in open_fields,
        rules_complete=found and "rules_complete" not in open_fields,
        dependencies_complete=found and "dependencies_complete" not in open_fields,
        # This build reads no decisions, so that none can be open.
        decision_context_complete=found,
        goal_context_complete="goal_context_complete" not in open_fields if found else None,
        unresolved_required_dependencies=tuple(
            fact.key for fact in (facts.dependencies if facts else ()) if fact.required and not fact.resolved
        ),
        evidence_gaps=evidence_gaps,
        source_versions=source_versions(rows),
        issues=tuple(issues),
        complete=not issues,
        status="CONTEXT INCOMPLETE" if issues else "CONTEXT COMPLETE",
    )


def source_versions(rows: tuple[SourceRow, ...]) -> tuple[SourceVersion, ...]:
    """Return the version of every source."""
    return tuple(
        SourceVersion(
            id=row.id,
            revision=row.source_revision,
            fingerprint=row.fingerprint,
            freshness=row.freshness,
            locator=row.locator,
        )
        for row in rows
    )


def _source_issues(rows: tuple[SourceRow, ...], refreshed: RefreshReport | None) -> list[Issue]:
    found = []
    if refreshed is None:
        reason = "the files were not compared with what was last indexed"
        found.append(Issue("source_fresh", "source_refresh_missing", None, reason))
    told = set()
    for outcome in refreshed.sources if refreshed is not None else ():
        if outcome.action in {"failed", "unavailable"}:
            reason = "it cannot be read" if outcome.action == "unavailable" else "it cannot be parsed"
            found.append(Issue("source_fresh", "source_refresh_failed", outcome.locator, reason))
            told.add(outcome.locator)
        elif outcome.action == "pending":
            found.append(Issue("source_fresh", "source_projection_pending", outcome.locator, "it is not parsed yet"))
            told.add(outcome.locator)
    for row in rows:
        if row.freshness != "fresh" and row.locator not in told:
            found.append(Issue("source_fresh", "source_not_fresh", row.locator, f"it is {row.freshness}"))
    return found


def _work_issues(facts: Facts) -> list[Issue]:
    item = facts.item
    reasons = []
    if item.status == "unknown":
        reasons.append("the status has no known meaning")
    if item.next_action is None or not item.next_action.strip():
        reasons.append("no next action is stated")
    if item.status == "blocked" and (item.blocker is None or not item.blocker.strip()):
        reasons.append("it is blocked and names no blocker")
    found = [Issue("work_state_complete", "work_state_incomplete", item.external_key, reason) for reason in reasons]
    if not any(criterion.strip() for criterion in item.acceptance) or facts.freshness != "fresh":
        reason = f"its source is {facts.freshness}" if facts.freshness != "fresh" else "no acceptance is stated"
        found.append(Issue("acceptance_complete", "acceptance_missing_or_stale", item.external_key, reason))
    return found


def _rule_issues(facts: Facts) -> list[Issue]:
    found = []
    if not facts.has_rules_source and _asks_for_rules(facts.profile):
        reason = "the standard profile needs one; the minimal profile does not"
        found.append(Issue("rules_complete", "rules_source_missing", None, reason))
    for fact in facts.rules:
        if not fact.resolved and fact.rule.severity in {"hard", None}:
            reason = (
                "its severity or its scope is not stated"
                if fact.rule.severity is None or fact.rule.scope_type is None or fact.rule.scope_value is None
                else "whether its scope covers this work cannot be told"
            )
            found.append(Issue("rules_complete", "hard_rule_unresolved", fact.rule.external_key, reason))
    return found


def _asks_for_rules(profile: Profile) -> bool:
    return profile == "standard"


def _dependency_issues(facts: Facts) -> list[Issue]:
    found = []
    for fact in facts.dependencies:
        problem = _dependency_problem(fact) if fact.required else None
        if problem is not None:
            found.append(Issue("dependencies_complete", problem[0], fact.key, problem[1]))
    direct = {fact.key for fact in facts.dependencies if fact.required}
    for fault in facts.graph_faults:
        if fault.code == "dependency_cycle":
            found.append(
                Issue("dependencies_complete", "dependency_cycle", fault.work_item_key, "it depends on itself")
            )
        elif fault.work_item_key not in direct:
            reason = "work that this work depends on requires it, and no source names it"
            found.append(Issue("dependencies_complete", "required_dependency_missing", fault.work_item_key, reason))
    return found


def _dependency_problem(fact: DependencyFact) -> tuple[IssueCode, str] | None:
    if fact.entity is None:
        return "required_dependency_missing", "no source names it"
    if fact.item is None:
        return "required_dependency_unavailable", "no source names it any more"
    if fact.freshness != "fresh":
        return "dependency_source_not_fresh", f"its source is {fact.freshness}"
    if fact.item.status == "unknown":
        return "required_dependency_state_incomplete", "its status has no known meaning"
    return None


def _goal_issues(facts: Facts) -> list[Issue]:
    if not facts.goals:
        return [Issue("goal_context_complete", "goal_context_missing", None, "no open goal of a primary source")]
    found = []
    for fact in facts.goals:
        if fact.goal is None:
            found.append(Issue("goal_context_complete", "goal_not_found", fact.key, "no source names it"))
        elif reason := _goal_problem(fact):
            found.append(Issue("goal_context_complete", "goal_state_incomplete", fact.key, reason))
    return found


def _goal_problem(fact: GoalFact) -> str | None:
    assert fact.goal is not None
    if fact.freshness != "fresh":
        return f"its source is {fact.freshness}"
    if not fact.goal.title.strip():
        return "its title is blank"
    return "its status is not settled" if fact.goal.status.strip().lower() in _UNSETTLED_GOALS else None
