"""The texts of a compiled context: one function for each section, each returning whole chunks.

What a source states stands as it is written there. What an agent wrote is marked line by line, so that no line of it
can be taken for a heading or for another chunk.
"""

from __future__ import annotations

from collections.abc import Iterable

from awr.chain import journal_bytes
from awr.context.chunks import Chunk, EntityRef, quoted
from awr.context.completeness import Completeness, SourceVersion
from awr.context.delta import Delta
from awr.context.evidence import EvidenceFact
from awr.context.facts import DependencyFact, Facts, GoalFact, RuleFact
from awr.context.request import ContextRequest
from awr.context.selection import Selection
from awr.domain.execution import is_uncertain
from awr.journal.journal import Reader
from awr.journal.sources import EntityRow

__all__ = ["CHECKPOINT_KEYS", "chunks_of", "header_of", "source_lines"]

GOAL_BODY, WORK_SUMMARY, CHECKPOINT_DIGEST, HIGH_EVENT, CHANGED_ENTITIES = 10, 20, 25, 30, 35
RESOLVED_DEPENDENCY, SOFT_RULE, EVIDENCE, PROCESS_HISTORY, INFO_RULE = 40, 50, 55, 60, 70
#: The chunks that carry what a session saved of itself.
CHECKPOINT_KEYS = ("checkpoint", "checkpoint-digest")

_ORIGINS = {
    "session": "the session's own checkpoint",
    "handoff": "the checkpoint that was handed over",
    "previous_closed_session": "the checkpoint of an earlier session",
    "explicit_checkpoint": "the checkpoint that was asked for",
    "explicit_revision": "the revision that was asked for",
    "session_start": "the session's start",
    "resumed_session_start": "the start of the session that resumed",
    "project_start": "the project's beginning",
}


def header_of(reader: Reader, work: EntityRow, versions: Iterable[SourceVersion]) -> str:
    """Return the lines above the first section: project, work, branch, and the version of every source."""
    project = reader.project
    lines = [
        f"Project {project.external_key or project.name} [{project.id}] r{reader.project_revision}",
        f"Work {work.external_key} [{work.id}] r{work.revision}",
        "Branch main",
        "Sources:",
        *source_lines(versions),
    ]
    return "\n".join(lines) + "\n"


def source_lines(versions: Iterable[SourceVersion]) -> list[str]:
    """Return one line for each source."""
    return [
        f"{one.id} r{one.revision} {one.fingerprint or 'never-parsed'} {one.freshness.capitalize()} {one.locator}"
        for one in versions
    ]


def chunks_of(
    request: ContextRequest,
    chosen: Selection,
    facts: Facts,
    *,
    delta: Delta,
    evidence: tuple[EvidenceFact, ...],
    completeness: Completeness,
) -> list[Chunk]:
    """Return every chunk that could be shown of the work, section by section."""
    return [
        *_goal_chunks(facts),
        *_work_chunks(request, chosen, facts),
        _acceptance_chunk(facts),
        *_rule_chunks(facts),
        *_dependency_chunks(facts),
        *_delta_chunks(delta),
        *_execution_chunks(facts),
        *_evidence_chunks(evidence, completeness),
        _completeness_chunk(completeness),
    ]


def _goal_chunks(facts: Facts) -> Iterable[Chunk]:
    for fact in facts.goals:
        goal = fact.goal
        if goal is None:
            continue
        lines = [goal.title, f"Status: {goal.status}", *_listed("Success criteria", goal.success_criteria)]
        yield Chunk(key=f"goal:{fact.key}", section="goal", text="\n".join(lines), entities=_goal_refs(fact))
        if goal.summary:
            yield Chunk(
                key=f"goal-body:{fact.key}",
                section="goal",
                text=goal.summary,
                required=False,
                priority=GOAL_BODY,
                entities=_goal_refs(fact),
            )


def _goal_refs(fact: GoalFact) -> tuple[EntityRef, ...]:
    return (EntityRef("goal", fact.entity.id, fact.entity.revision),) if fact.entity is not None else ()


def _work_chunks(request: ContextRequest, chosen: Selection, facts: Facts) -> Iterable[Chunk]:
    item = facts.item
    session = f"{chosen.session.id}, {chosen.session.status}" if chosen.session is not None else "none"
    identity = [
        item.title,
        f"Intent: {request.intent}",
        f"Selected by: {chosen.basis}",
        f"Session: {session}",
        f"Agent: {chosen.agent or 'not named'}",
        f"Phase: {item.milestone or 'no milestone stated'}",
    ]
    yield Chunk(key="identity", section="work", text="\n".join(identity))
    state = [
        f"Status: {item.status}",
        f"Status as the source spells it: {item.raw_status or 'not stated'}",
        f"Blocker: {item.blocker or 'none stated'}",
        f"Next action: {item.next_action or 'none stated'}",
    ]
    ref = EntityRef("work_item", facts.work.id, facts.work.revision)
    yield Chunk(key="state", section="work", text="\n".join(state), entities=(ref,))
    if item.ordinary_completion is not None:
        text = f"Ordinary completion: {journal_bytes(item.ordinary_completion).decode()}"
        yield Chunk(key="ordinary-work-policy", section="work", text=text)
    if facts.profile == "minimal":
        text = "This project's profile is minimal: separate sources of rules and milestones are optional."
        yield Chunk(key="context-profile", section="work", text=text)
    if item.summary:
        yield Chunk(
            key="summary", section="work", text=item.summary, required=False, priority=WORK_SUMMARY, entities=(ref,)
        )


def _acceptance_chunk(facts: Facts) -> Chunk:
    lines = _listed("Every one of these", facts.item.acceptance) or ["None stated."]
    return Chunk(key="acceptance", section="acceptance", text="\n".join(lines))


def _rule_chunks(facts: Facts) -> Iterable[Chunk]:
    gaps = [fact for fact in facts.rules if not fact.resolved and fact.rule.severity in {"hard", None}]
    for fact in facts.rules:
        if not fact.resolved:
            continue
        priority = {"soft": SOFT_RULE, "info": INFO_RULE}.get(fact.rule.severity or "", 0)
        yield Chunk(
            key=f"rule:{fact.rule.external_key}",
            section="rules",
            text=f"{str(fact.rule.severity).capitalize()} rule: {_rule_text(fact)}",
            required=fact.rule.severity == "hard",
            priority=priority,
            entities=(_rule_ref(fact),),
        )
    if gaps:
        lines = ["These may hold for this work; it cannot be told. Ask before acting against one."]
        lines += [f"- {fact.rule.external_key}: {_rule_text(fact)}" for fact in gaps]
        refs = tuple(_rule_ref(fact) for fact in gaps)
        yield Chunk(key="hard-context-gaps", section="rules", text="\n".join(lines), entities=refs)


def _rule_text(fact: RuleFact) -> str:
    return "\n".join(part for part in (fact.rule.title, fact.rule.text) if part.strip())


def _rule_ref(fact: RuleFact) -> EntityRef:
    return EntityRef("rule", fact.entity.id, fact.entity.revision)


def _dependency_chunks(facts: Facts) -> Iterable[Chunk]:
    required = [fact for fact in facts.dependencies if fact.required]
    finished = sum(fact.resolved for fact in required)
    text = (
        f"Required: x{len(required)}, finished x{finished}, unfinished x{len(required) - finished}. "
        f"Optional: x{len(facts.dependencies) - len(required)}."
    )
    yield Chunk(key="summary", section="dependencies", text=text)
    for fact in facts.dependencies:
        yield Chunk(
            key=f"work:{fact.key}",
            section="dependencies",
            text="\n".join(_dependency_lines(fact)),
            required=fact.required and not fact.resolved,
            priority=RESOLVED_DEPENDENCY,
            entities=(EntityRef("work_item", fact.entity.id, fact.entity.revision),) if fact.entity else (),
        )


def _dependency_lines(fact: DependencyFact) -> list[str]:
    need = "Required" if fact.required else "Optional"
    if fact.item is None:
        return [f"{need}, and no source names it{'' if fact.entity is None else ' any more'}."]
    lines = [fact.item.title, f"{need}. Status: {fact.item.status}. Source: {fact.freshness}."]
    return [*lines, f"Blocker: {fact.item.blocker}"] if fact.item.blocker else lines


def _delta_chunks(delta: Delta) -> Iterable[Chunk]:
    baseline = delta.baseline
    text = f"Everything after r{baseline.after_revision}, {_ORIGINS[baseline.origin]}."
    yield Chunk(key="baseline", section="delta", text=text, passing=True)
    yield from _checkpoint_chunks(delta)
    for source in delta.sources:
        text = f"{source.locator}: added x{source.added}, changed x{source.changed}, retired x{source.retired}."
        yield Chunk(key=f"source:{source.source_id}", section="delta", text=text, passing=True)
        # Since the project's beginning everything is new, and a list of names would say nothing.
        if source.newest:
            lines = [f"- {one.action} {one.kind} {one.external_key}" for one in source.newest]
            yield Chunk(
                key=f"changed:{source.source_id}",
                section="delta",
                text="\n".join(lines),
                required=False,
                priority=CHANGED_ENTITIES,
                passing=True,
            )
    for event in (*delta.critical, *delta.high):
        yield Chunk(
            key=f"event:{event.id}",
            section="delta",
            text=f"{event.importance.capitalize()}, {event.event_type}, r{event.project_revision}: {event.summary}",
            required=event.importance == "critical",
            priority=HIGH_EVENT,
            recency=event.project_revision,
        )
    if delta.critical_left_out:
        text = f"Older critical events, not shown: x{delta.critical_left_out}. Read them with awr work history."
        yield Chunk(key="delta-gaps", section="delta", text=text)
    if delta.folded:
        lines = [
            "Events of this work that need no attention:",
            *(f"{n} x{count}" for n, count in delta.folded.items()),
        ]
        yield Chunk(
            key="process-history",
            section="delta",
            text="\n".join(lines),
            required=False,
            priority=PROCESS_HISTORY,
            passing=True,
        )


def _checkpoint_chunks(delta: Delta) -> Iterable[Chunk]:
    checkpoint = delta.baseline.checkpoint
    if checkpoint is None:
        return
    lines = [
        f"Saved by session {checkpoint.session_id}; {delta.baseline.checkpoint_origin}. Its words, not verified.",
        f"Context hash: {checkpoint.context_hash}",
        f"Next action: {quoted(checkpoint.next_action)}",
        *_listed("Open loops", tuple(map(quoted, checkpoint.open_loops))),
    ]
    ref = EntityRef("checkpoint", checkpoint.id, checkpoint.revision)
    yield Chunk(key=CHECKPOINT_KEYS[0], section="delta", text="\n".join(lines), entities=(ref,))
    yield Chunk(
        key=CHECKPOINT_KEYS[1],
        section="delta",
        text=f"Digest: {quoted(checkpoint.digest)}",
        required=False,
        priority=CHECKPOINT_DIGEST,
    )


def _execution_chunks(facts: Facts) -> Iterable[Chunk]:
    for one in facts.executions:
        lines = [
            f"Operation key: {one.operation_key}",
            f"State: {one.state}. Last reported: {one.latest_phase or 'nothing'}.",
            f"Purpose: {quoted(one.intent.purpose)}",
        ]
        if is_uncertain(one):
            lines.append("Its outcome is unknown. Query execution status before any retry.")
        yield Chunk(
            key=f"execution:{one.id}",
            section="executions",
            text="\n".join(lines),
            entities=(EntityRef("execution", one.id, one.revision),),
        )


def _evidence_chunks(evidence: tuple[EvidenceFact, ...], completeness: Completeness) -> Iterable[Chunk]:
    gaps = completeness.evidence_gaps
    if gaps:
        lines = [f"- {gap.code}: {gap.reference}: {gap.reason}" for gap in gaps]
        yield Chunk(key="evidence-gaps", section="evidence", text="\n".join(lines))
    for fact in evidence:
        lines = [
            f"Level: {fact.level}, {fact.currency}. Report: {fact.locator}",
            *([quoted(fact.summary)] if fact.summary else []),
        ]
        yield Chunk(
            key=f"evidence:{fact.external_key}",
            section="evidence",
            text="\n".join(lines),
            required=False,
            priority=EVIDENCE,
            entities=(EntityRef("evidence", fact.id, fact.revision),) if fact.id is not None else (),
        )


def _completeness_chunk(completeness: Completeness) -> Chunk:
    lines: list[str] = [completeness.status]
    for issue in completeness.issues:
        about = f": {issue.reference}" if issue.reference is not None else ""
        lines.append(f"- {issue.code}{about}: {issue.reason}")
    return Chunk(key="completeness", section="metadata", text="\n".join(lines))


def _listed(title: str, texts: tuple[str, ...]) -> list[str]:
    return [f"{title}:", *(f"- {text}" for text in texts)] if texts else []
