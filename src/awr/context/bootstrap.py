"""L0: the few facts that a session needs before it can ask for the rest, small enough to be given at every start."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.context.chunks import Chunk, pack, quoted
from awr.context.completeness import SourceVersion, source_versions
from awr.context.delta import CheckpointOrigin, recovery_checkpoint
from awr.context.facts import Facts, Profile, gather
from awr.context.request import ContextRequest, validate_request
from awr.context.sections import source_lines
from awr.context.selection import Selection, SelectionBasis, select
from awr.context.tokens import TOKENIZER, TokenCounter
from awr.domain.execution import is_uncertain
from awr.domain.session import Checkpoint
from awr.journal.journal import Reader
from awr.journal.sources import live_sources
from awr.sources.contents import Contents
from awr.sources.index import RefreshReport

__all__ = ["DEFAULT_BUDGET", "BootstrapContext", "BootstrapReport", "bootstrap_context"]

DEFAULT_BUDGET = 1000
FORMAT = "awr.bootstrap.v2"
TOKEN_SCOPE = "rendered_context only; the JSON around it is not counted"  # noqa: S105  # tokens of text
RULE_TEXT, EXECUTIONS, SOURCES = 10, 20, 30

GapCode = Literal[
    "source_refresh_missing",
    "source_not_fresh",
    "work_not_selected",
    "work_item_not_found",
    "checkpoint_missing",
    "rules_source_missing",
    "hard_rule_unresolved",
]


class Gap(msgspec.Struct, frozen=True):
    """Something the start of a session lacks."""

    code: GapCode
    reference: str | None
    reason: str


class BootstrapWork(msgspec.Struct, frozen=True, kw_only=True):
    """The work in brief, as its source states it."""

    id: str
    external_key: str
    title: str
    status: str
    next_action: str | None
    blocker: str | None
    revision: int


class BootstrapSession(msgspec.Struct, frozen=True):
    """The session in brief."""

    id: str
    agent_id: str
    status: str


class BootstrapExecution(msgspec.Struct, frozen=True):
    """Something that runs or ran for this work outside AWR."""

    id: str
    operation_key: str
    state: str
    latest_phase: str | None
    uncertain: bool


class CriticalRule(msgspec.Struct, frozen=True):
    """A hard rule that holds for the work, or may hold (`resolved` false)."""

    external_key: str
    title: str
    resolved: bool


class BootstrapContext(msgspec.Struct, frozen=True, kw_only=True):
    """The facts behind the text. `complete` is false while any gap is open."""

    project_id: str
    project_key: str | None
    project_name: str
    project_revision: int
    branch_id: None = None
    selection_basis: SelectionBasis
    work: BootstrapWork | None
    session: BootstrapSession | None
    checkpoint: Checkpoint | None
    checkpoint_origin: CheckpointOrigin
    executions: tuple[BootstrapExecution, ...]
    critical_rules: tuple[CriticalRule, ...]
    source_revisions: tuple[SourceVersion, ...]
    gaps: tuple[Gap, ...]
    complete: bool
    #: Compiling L1 is what makes it so.
    execution_context_complete: Literal[False] = False


class BootstrapReport(msgspec.Struct, frozen=True, kw_only=True):
    """The text, what it says as data, and what it costs in o200k_base tokens."""

    level: Literal["L0"] = "L0"
    context: BootstrapContext
    rendered_context: str
    context_hash: str
    token_estimate: int
    token_budget: int
    tokenizer: str = TOKENIZER
    token_scope: str = TOKEN_SCOPE


def bootstrap_context(
    reader: Reader,
    request: ContextRequest,
    *,
    counter: TokenCounter,
    profile: Profile,
    refreshed: RefreshReport | None,
) -> BootstrapReport:
    """Build the start of a session from what is recorded now. Nothing is written.

    Raise InvalidInput, NotFound, RuleViolation, or BudgetExceeded when what may not be left out does not fit.
    """
    validate_request(request)
    contents = Contents(reader)
    chosen = select(reader, contents, request)
    found = chosen.item is not None and chosen.work is not None
    facts = gather(reader, contents, request, chosen, profile=profile) if found else None
    context = _context(reader, chosen, facts, refreshed=refreshed)
    header = (
        f"Project {context.project_key or context.project_name} [{context.project_id}] r{context.project_revision}\n"
    )
    packed = pack(header, _chunks(context, facts), budget=request.budget, count=counter.count)
    described = {
        "format": FORMAT,
        "tokenizer": TOKENIZER,
        "budget": request.budget,
        "context": context,
        "rendered_context": packed.rendered_context,
    }
    return BootstrapReport(
        context=context,
        rendered_context=packed.rendered_context,
        context_hash=digest(journal_bytes(described)),
        token_estimate=packed.token_estimate,
        token_budget=request.budget,
    )


def _context(
    reader: Reader, chosen: Selection, facts: Facts | None, *, refreshed: RefreshReport | None
) -> BootstrapContext:
    checkpoint, origin = (
        recovery_checkpoint(reader.database, chosen.session, facts.work) if facts is not None else (None, "none")
    )
    versions = source_versions(tuple(live_sources(reader.database)))
    gaps = tuple(_gaps(chosen, facts, versions, checkpoint=checkpoint, refreshed=refreshed))
    return BootstrapContext(
        project_id=reader.project_id,
        project_key=reader.project.external_key,
        project_name=reader.project.name,
        project_revision=reader.project_revision,
        selection_basis=chosen.basis,
        work=_work(facts) if facts is not None else None,
        session=(
            BootstrapSession(chosen.session.id, chosen.session.agent_id, chosen.session.status)
            if chosen.session is not None
            else None
        ),
        checkpoint=checkpoint,
        checkpoint_origin=origin,
        executions=tuple(
            BootstrapExecution(one.id, one.operation_key, one.state, one.latest_phase, is_uncertain(one))
            for one in (facts.executions if facts is not None else ())
        ),
        critical_rules=tuple(
            CriticalRule(fact.rule.external_key, fact.rule.title, fact.resolved)
            for fact in (facts.rules if facts is not None else ())
            if fact.rule.severity in {"hard", None}
        ),
        source_revisions=versions,
        gaps=gaps,
        complete=not gaps,
    )


def _work(facts: Facts) -> BootstrapWork:
    item = facts.item
    return BootstrapWork(
        id=facts.work.id,
        external_key=item.external_key,
        title=item.title,
        status=item.status,
        next_action=item.next_action,
        blocker=item.blocker,
        revision=facts.work.revision,
    )


def _gaps(
    chosen: Selection,
    facts: Facts | None,
    versions: tuple[SourceVersion, ...],
    *,
    checkpoint: Checkpoint | None,
    refreshed: RefreshReport | None,
) -> list[Gap]:
    found = []
    if refreshed is None:
        found.append(Gap("source_refresh_missing", None, "the files were not looked at"))
    found += [
        Gap("source_not_fresh", version.locator, f"it is {version.freshness}")
        for version in versions
        if version.freshness != "fresh"
    ]
    if facts is None:
        missing = chosen.key is not None
        code: GapCode = "work_item_not_found" if missing else "work_not_selected"
        return [*found, Gap(code, chosen.key, "no source names it" if missing else "no work is named or under way")]
    if facts.profile == "standard" and not facts.has_rules_source:
        found.append(Gap("rules_source_missing", None, "the standard profile needs a source of rules"))
    found += [
        Gap("hard_rule_unresolved", fact.rule.external_key, "it may hold; that cannot be told")
        for fact in facts.rules
        if not fact.resolved and fact.rule.severity in {"hard", None}
    ]
    if checkpoint is None and chosen.session is not None and chosen.session.status != "active":
        found.append(Gap("checkpoint_missing", chosen.session.id, "the session is over and left no checkpoint"))
    return found


def _chunks(context: BootstrapContext, facts: Facts | None) -> list[Chunk]:
    found = []
    if context.work is not None:
        lines = [
            f"{context.work.external_key} [{context.work.id}] r{context.work.revision}: {context.work.title}",
            f"Status: {context.work.status}",
            f"Next action: {context.work.next_action or 'none stated'}",
            *([f"Blocker: {context.work.blocker}"] if context.work.blocker else []),
        ]
        found.append(Chunk(key="work", section="work", text="\n".join(lines)))
    if context.session is not None:
        text = f"Session {context.session.id}, {context.session.status}, agent {context.session.agent_id}"
        found.append(Chunk(key="session", section="work", text=text))
    if context.checkpoint is not None:
        loops = [f"- {quoted(loop)}" for loop in context.checkpoint.open_loops]
        lines = [
            f"Checkpoint {context.checkpoint.id} at r{context.checkpoint.project_revision}; "
            f"{context.checkpoint_origin}. Its words, not verified.",
            f"Next action: {quoted(context.checkpoint.next_action)}",
            *(["Open loops:", *loops] if loops else []),
        ]
        found.append(Chunk(key="checkpoint", section="delta", text="\n".join(lines)))
    found += _rule_chunks(context, facts)
    for one in context.executions:
        state = "outcome unknown: query it before any retry" if one.uncertain else one.state
        found.append(
            Chunk(
                key=f"execution:{one.id}",
                section="executions",
                text=f"{one.operation_key}: {state}",
                required=one.uncertain,
                priority=EXECUTIONS,
            )
        )
    lines = source_lines(context.source_revisions)
    if lines:
        text = "\n".join(["Sources:", *lines])
        found.append(Chunk(key="sources", section="metadata", text=text, required=False, priority=SOURCES))
    lines = [": ".join(part for part in (f"- {gap.code}", gap.reference, gap.reason) if part) for gap in context.gaps]
    last = "This is not enough to act on. Compile L1 before execution: awr context compile."
    found.append(Chunk(key="next", section="metadata", text="\n".join([*(["Gaps:", *lines] if lines else []), last])))
    return found


def _rule_chunks(context: BootstrapContext, facts: Facts | None) -> list[Chunk]:
    if not context.critical_rules:
        return []
    lines = [
        f"- {rule.external_key}: {rule.title}{'' if rule.resolved else ' (may hold; cannot be told)'}"
        for rule in context.critical_rules
    ]
    found = [Chunk(key="critical-rules", section="rules", text="\n".join(["Hard rules that hold:", *lines]))]
    for fact in facts.rules if facts is not None else ():
        if fact.rule.severity in {"hard", None} and fact.rule.text.strip():
            found.append(
                Chunk(
                    key=f"rule:{fact.rule.external_key}",
                    section="rules",
                    text=fact.rule.text,
                    required=False,
                    priority=RULE_TEXT,
                )
            )
    return found
