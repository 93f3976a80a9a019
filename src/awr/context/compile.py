"""L1: everything that must be known of one work item, and as much of what helps as a budget of tokens holds."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.context.chunks import (
    POLICY,
    Chunk,
    EntityRef,
    OmittedChunk,
    SelectedChunk,
    entities_of,
    omitted,
    pack,
    selected,
)
from awr.context.completeness import Completeness, SourceVersion, assess
from awr.context.delta import ENTITY_LIMIT, Delta, baseline_of, delta_since
from awr.context.evidence import evidence_facts, evidence_gaps
from awr.context.facts import Facts, GoalBasis, Profile, gather, goal_basis
from awr.context.request import ContextRequest, validate_request
from awr.context.sections import chunks_of, header_of
from awr.context.selection import Selection, SelectionBasis, select
from awr.context.tokens import TOKENIZER, TokenCounter
from awr.journal.journal import Reader
from awr.sources.contents import Contents
from awr.sources.index import RefreshReport

__all__ = ["CONTENT_FORMAT", "ContextReport", "Identity", "OmittedReference", "WorkContext", "compile_context"]

CONTENT_FORMAT = "awr.content.v1"
TOKEN_SCOPE = "rendered_context only; the JSON around it is not counted"  # noqa: S105  # tokens of text


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Which project, work and versions a context was compiled from."""

    project_id: str
    project_key: str | None
    project_revision: int
    work_item_id: str
    work_item_key: str
    work_item_revision: int
    branch_id: None = None
    source_versions: tuple[SourceVersion, ...]


class OmittedReference(msgspec.Struct, frozen=True):
    """Something that never became a chunk, and why."""

    kind: Literal["event", "entity", "rule"]
    reference: str | None
    count: int
    reason: Literal["event_limit", "entity_limit", "project_start", "scope_or_severity_unresolved"]


class WorkContext(msgspec.Struct, frozen=True, kw_only=True):
    """The text and what it is made of. Token numbers are o200k_base counts of the text."""

    identity: Identity
    rendered_context: str
    context_hash: str
    content_hash: str
    token_estimate: int
    required_tokens: int
    token_budget: int
    tokenizer: str = TOKENIZER
    token_count_scope: str = TOKEN_SCOPE
    policy: str = POLICY
    selected_chunks: tuple[SelectedChunk, ...]
    selected_entities: tuple[EntityRef, ...]
    omitted_chunks: tuple[OmittedChunk, ...]


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled context with its judgement. `work_context` is null, and `diagnostic_text` says why, for work that
    was not found.
    """

    level: Literal["L1"] = "L1"
    selection_basis: SelectionBasis
    goal_selection_basis: GoalBasis
    session_id: str | None
    checkpoint_id: str | None
    delta_after_revision: int | None
    work_context: WorkContext | None
    completeness: Completeness
    omitted_refs: tuple[OmittedReference, ...]
    diagnostic_text: str | None


def compile_context(
    reader: Reader,
    request: ContextRequest,
    *,
    counter: TokenCounter,
    profile: Profile,
    refreshed: RefreshReport | None,
) -> ContextReport:
    """Compile what is recorded now. `refreshed` is the look at the files that came before, or None without one.

    Raise InvalidInput, NotFound, RuleViolation or BudgetExceeded. A gap in what is known is no error: the report
    names it. Nothing is written; the caller saves the counter.
    """
    validate_request(request)
    contents = Contents(reader)
    chosen = select(reader, contents, request)
    if chosen.item is None or chosen.work is None:
        return _unresolved(reader, request, chosen, refreshed=refreshed)
    facts = gather(reader, contents, request, chosen, profile=profile)
    delta = delta_since(
        reader, baseline_of(reader, request, session=chosen.session, work=chosen.work), work=chosen.work
    )
    evidence = evidence_facts(reader.database, facts.item, work_item_id=facts.work.id, source_sha=request.source_sha)
    completeness = assess(
        reader,
        chosen,
        facts,
        delta=delta,
        evidence_gaps=evidence_gaps(evidence, facts.item),
        refreshed=refreshed,
    )
    chunks = chunks_of(request, chosen, facts, delta=delta, evidence=evidence, completeness=completeness)
    identity = _identity(reader, facts, completeness)
    checkpoint = delta.baseline.checkpoint
    return ContextReport(
        selection_basis=chosen.basis,
        goal_selection_basis=facts.goal_basis,
        session_id=request.session,
        checkpoint_id=checkpoint.id if checkpoint is not None else None,
        delta_after_revision=delta.baseline.after_revision,
        work_context=_packed(reader, request, facts, identity=identity, chunks=chunks, counter=counter),
        completeness=completeness,
        omitted_refs=tuple(_omitted_references(facts, delta)),
        diagnostic_text=None,
    )


def _unresolved(
    reader: Reader, request: ContextRequest, chosen: Selection, *, refreshed: RefreshReport | None
) -> ContextReport:
    reason = {
        "explicit_work_missing": "No source of this project names that work item now.",
        "session_work_retired": "No source names the work of this session any more.",
    }.get(chosen.basis, "No work was named, and none is claimed or in progress.")
    return ContextReport(
        selection_basis=chosen.basis,
        goal_selection_basis=goal_basis(request),
        session_id=request.session,
        checkpoint_id=None,
        delta_after_revision=None,
        work_context=None,
        completeness=assess(reader, chosen, None, delta=None, evidence_gaps=(), refreshed=refreshed),
        omitted_refs=(),
        diagnostic_text=f"{reason} Name one with --work; awr status lists the work.",
    )


def _identity(reader: Reader, facts: Facts, completeness: Completeness) -> Identity:
    return Identity(
        project_id=reader.project_id,
        project_key=reader.project.external_key,
        project_revision=reader.project_revision,
        work_item_id=facts.work.id,
        work_item_key=facts.work.external_key,
        work_item_revision=facts.work.revision,
        source_versions=completeness.source_versions,
    )


def _packed(
    reader: Reader,
    request: ContextRequest,
    facts: Facts,
    *,
    identity: Identity,
    chunks: list[Chunk],
    counter: TokenCounter,
) -> WorkContext:
    header = header_of(reader, facts.work, identity.source_versions)
    packed = pack(header, chunks, budget=request.budget, count=counter.count)
    inside, outside = selected(packed.selected), omitted(packed.omitted)
    entities = entities_of(packed.selected)
    described = {
        "policy": POLICY,
        "tokenizer": TOKENIZER,
        "budget": request.budget,
        "identity": identity,
        "request": request,
        "selected_chunks": inside,
        "selected_entities": entities,
        "omitted_chunks": outside,
        "rendered_context": packed.rendered_context,
    }
    return WorkContext(
        identity=identity,
        rendered_context=packed.rendered_context,
        context_hash=digest(journal_bytes(described)),
        content_hash=_content_hash(identity, chunks),
        token_estimate=packed.token_estimate,
        required_tokens=packed.required_tokens,
        token_budget=request.budget,
        selected_chunks=inside,
        selected_entities=entities,
        omitted_chunks=outside,
    )


def _content_hash(identity: Identity, chunks: list[Chunk]) -> str:
    """Hash what there is to know of the work, whatever the budget, the project's revision or the files' bytes are."""
    known = {
        "format": CONTENT_FORMAT,
        "project_id": identity.project_id,
        "work_item_id": identity.work_item_id,
        "work_item_key": identity.work_item_key,
        "branch_id": identity.branch_id,
        "chunks": [
            {
                "section": chunk.section,
                "key": chunk.key,
                "required": chunk.required,
                "entities": chunk.entities,
                "text": chunk.text,
            }
            for chunk in chunks
            if not chunk.passing
        ],
    }
    return digest(journal_bytes(known))


def _omitted_references(facts: Facts, delta: Delta) -> list[OmittedReference]:
    found = [
        OmittedReference("event", None, left_out, "event_limit")
        for left_out in (delta.critical_left_out, delta.high_left_out)
        if left_out
    ]
    for source in delta.sources:
        total = source.added + source.changed + source.retired
        if not source.newest:
            found.append(OmittedReference("entity", source.source_id, total, "project_start"))
        elif total > ENTITY_LIMIT:
            found.append(OmittedReference("entity", source.source_id, total - ENTITY_LIMIT, "entity_limit"))
    found.extend(
        OmittedReference("rule", fact.rule.external_key, 1, "scope_or_severity_unresolved")
        for fact in facts.rules
        if not fact.resolved and fact.rule.severity in {"soft", "info"}
    )
    return found
