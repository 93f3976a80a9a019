"""Changing the state of work: progress, block, unblock, cancel, reopen. Completion has a room of its own.

Each is written to the source file, and then told to the journal.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from awr.domain.secrets import refuse_secrets
from awr.domain.session import Session
from awr.domain.transition import TRANSITIONS, Action, Transition, require_status, validate_inputs
from awr.domain.work import DiagnosticCode, WorkItem
from awr.errors import ClaimConflict, DependencyBlocked, InvalidTransition, SourceStale
from awr.journal.checkpoints import open_waits
from awr.journal.journal import Reader
from awr.journal.sessions import active_claim
from awr.journal.sources import EntityRow, source_by_id
from awr.operations.fields import ExpectedRevision, WorkKey, described, work_entity
from awr.operations.mutation import Change, Edit, ProposalReport, apply_change
from awr.operations.selection import require_active, session_for_work
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.editing import EntryEdit, edited_ledger

__all__ = [
    "BlockRequest",
    "CancelRequest",
    "Grounds",
    "ProgressRequest",
    "ReopenRequest",
    "SessionOption",
    "UnblockRequest",
    "block",
    "cancel",
    "change_of",
    "entry_edit",
    "grounds",
    "progress",
    "refuse_foreign_claim",
    "reopen",
    "require_dependencies",
    "unblock",
]

SessionOption = Annotated[str | None, described("The session that acts; left out, the only active one of this work.")]
Reason = Annotated[str, described("Why, in a sentence or a few.")]
NextAction = Annotated[str, described("The one thing to do next.")]

_DEPENDENCY_CODES: frozenset[DiagnosticCode] = frozenset(
    {"missing_dependency", "dependency_cycle", "dependency_not_completed"}
)


class ProgressRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    reason: Reason
    next_action: NextAction
    expected_revision: ExpectedRevision
    session: SessionOption = None
    summary: Annotated[str | None, described("What the work is about, if that is to be rewritten.")] = None


class BlockRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    reason: Reason
    blocker: Annotated[str, described("What is in the way.")]
    expected_revision: ExpectedRevision
    session: SessionOption = None


class UnblockRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    reason: Reason
    next_action: NextAction
    expected_revision: ExpectedRevision
    session: SessionOption = None


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    reason: Reason
    expected_revision: ExpectedRevision
    session: SessionOption = None


class ReopenRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    reason: Reason
    next_action: NextAction
    expected_revision: ExpectedRevision
    session: SessionOption = None


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a transition rests on, once session, claims, state and dependencies allow it."""

    work: EntityRow
    item: WorkItem
    session: Session


def progress(project: Project, request: ProgressRequest) -> ProposalReport:
    """Begin work, or say how it goes on. Needs the session's own live claim; raises what `_transitioned` raises."""
    texts = {"next_action": request.next_action, "summary": request.summary}
    return _transitioned(project, "progress", request, texts)


def block(project: Project, request: BlockRequest) -> ProposalReport:
    """Say what is in the way of work under way; raises what `_transitioned` raises."""
    return _transitioned(project, "block", request, {"blocker": request.blocker})


def unblock(project: Project, request: UnblockRequest) -> ProposalReport:
    """Go on with blocked work; its blocker is cleared. Raises what `_transitioned` raises."""
    return _transitioned(project, "unblock", request, {"next_action": request.next_action})


def cancel(project: Project, request: CancelRequest) -> ProposalReport:
    """Give work up; its blocker is cleared and its claims are released. Raises what `_transitioned` raises."""
    return _transitioned(project, "cancel", request, {})


def reopen(project: Project, request: ReopenRequest) -> ProposalReport:
    """Plan finished or cancelled work again; raises what `_transitioned` raises."""
    return _transitioned(project, "reopen", request, {"next_action": request.next_action})


AnyRequest = ProgressRequest | BlockRequest | UnblockRequest | CancelRequest | ReopenRequest


def _transitioned(
    project: Project, action: Action, request: AnyRequest, texts: dict[str, str | None]
) -> ProposalReport:
    """Carry out one row of the table.

    Raise InvalidInput, RuleViolation, RevisionConflict, NotFound, InvalidTransition, ClaimConflict,
    DependencyBlocked, SourceStale, MutationUnsupported, MutationConflict, MutationIncomplete or WorkActionIncomplete.
    """
    transition = TRANSITIONS[action]
    given = validate_inputs(transition, reason=request.reason, texts=texts)
    refuse_secrets({"reason": request.reason, **given}, what="the action's texts")

    def check(reader: Reader) -> Change:
        found = grounds(reader, transition, work_key=request.work, session=request.session)
        return change_of(reader, transition, found, reason=request.reason, texts=given)

    return apply_change(project, expected_revision=request.expected_revision, check=check, edit=entry_edit)


def grounds(reader: Reader, transition: Transition, *, work_key: str, session: str | None) -> Grounds:
    """Return what a transition rests on.

    Raise NotFound, RuleViolation for a session of other work, InvalidTransition for an inactive session, an open
    wait, a state that the table does not list or a missing claim, ClaimConflict, SourceStale or DependencyBlocked.
    """
    work = work_entity(reader.database, work_key)
    contents = Contents(reader)
    item = contents.work_item(work_key)
    assert item is not None, "an entity that is not retired has content"
    acting = session_for_work(reader, work, session=session, agent=None)
    require_active(acting)
    _refuse_open_wait(reader, acting)
    held_by_it = refuse_foreign_claim(reader, work, session_id=acting.id)
    require_status(transition, item)
    if transition.needs_claim and not held_by_it:
        raise InvalidTransition(
            f"{transition.action} needs a live claim of the session",
            got="no claim, or one that has lapsed",
            expected="work that the session holds",
            next_step="take it with awr work claim, then repeat this with the new revision",
        )
    if transition.needs_dependencies:
        require_dependencies(contents, item, with_blocker=not transition.ignores_blocker)
    return Grounds(work=work, item=item, session=acting)


def change_of(
    reader: Reader,
    transition: Transition,
    found: Grounds,
    *,
    reason: str,
    texts: dict[str, str],
    more: dict[str, Any] | None = None,
) -> Change:
    """Return what a transition writes: the new state and its texts, and null for what it clears."""
    source = source_by_id(reader.database, found.work.source_id)
    assert source is not None, "an entity names a source of the journal"
    cleared = {name: None for name in transition.clears if getattr(found.item, name) is not None}
    fields: dict[str, str | None] = {**texts, **cleared}
    if found.item.status != transition.target:
        fields = {"status": transition.target, **fields}
    return Change(
        source=source,
        mutation_type=transition.mutation_type,
        work_item_key=found.item.external_key,
        work_item_id=found.work.id,
        session_id=found.session.id,
        patch={
            "action": transition.action,
            "reason": reason,
            "from_status": found.item.status,
            "to_status": transition.target,
            "fields": fields,
            **(more or {}),
        },
    )


def entry_edit(change: Change) -> Edit:
    """Return the edit of the source that a change asks for."""
    patch = change.patch
    edit = EntryEdit(
        fields=patch["fields"],
        add_evidence=tuple(patch.get("add_evidence", ())),
        evidence_level=patch.get("evidence_level"),
    )

    def edited(data: bytes, options: Any) -> bytes:
        return edited_ledger(
            data, locator=change.source.locator, options=options, key=change.work_item_key, edit=edit
        )

    return edited


def refuse_foreign_claim(reader: Reader, work: EntityRow, *, session_id: str | None) -> bool:
    """Tell whether the session holds the work; a lapsed claim is none. Raise ClaimConflict when another one does."""
    held = active_claim(reader.database, work.id)
    if held is None or (held.expires_at is not None and held.expires_at <= reader.now):
        return False
    if held.session_id != session_id:
        raise ClaimConflict(
            "another session holds this work",
            expected="work that this session holds, or nobody",
            next_step="run awr work show to see who holds it, and wait or ask for a handoff",
        )
    return True


def require_dependencies(contents: Contents, item: WorkItem, *, with_blocker: bool) -> None:
    """Raise SourceStale or DependencyBlocked unless all that the work needs is there and done."""
    diagnostics = contents.diagnostics(item)
    if any(one.code == "source_not_fresh" for one in diagnostics):
        raise SourceStale(
            "the source of this work, or of what it depends on, is not fresh",
            expected="fresh sources",
            next_step="run awr source reindex, then repeat this",
        )
    codes = _DEPENDENCY_CODES | ({"active_blocker"} if with_blocker else set())
    found = [one for one in diagnostics if one.code in codes]
    if found:
        raise DependencyBlocked(
            "something that this work needs is in the way",
            got=", ".join(sorted({one.code for one in found})),
            expected="dependencies that are completed, and no blocker",
            next_step="run awr work show to see what is in the way",
            diagnostics=msgspec.to_builtins(found),
        )


def _refuse_open_wait(reader: Reader, session: Session) -> None:
    waits = open_waits(reader.database, session.id)
    if waits:
        raise InvalidTransition(
            "the session waits for the user's reply",
            got="an open wait",
            expected="every question answered or cancelled",
            next_step="run awr session waits to see the question, and awr session reply once the user has answered",
        )
