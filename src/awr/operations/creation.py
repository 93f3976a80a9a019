"""New work: a draft in the ledger, and the step that makes it planned work."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from awr.domain.secrets import refuse_secrets
from awr.domain.text import bounded_text
from awr.domain.transition import ACTIVE_GOAL_STATUSES, TEXT_LIMITS, bounded_note, draft_gaps
from awr.errors import InvalidInput, InvalidTransition, NotFound, SourceConflict
from awr.journal.journal import Reader
from awr.journal.sessions import session_by_id
from awr.journal.sources import SourceRow, entity, live_sources, source_by_id
from awr.operations.fields import ExpectedRevision, WorkKey, described, work_entity
from awr.operations.mutation import Change, Edit, ProposalReport, apply_change
from awr.operations.selection import require_active
from awr.operations.transition import entry_edit, refuse_foreign_claim
from awr.project import Project
from awr.sources.contents import Contents
from awr.sources.editing import extended_ledger
from awr.sources.manifest import LEDGER_ADAPTER, read_manifest

__all__ = ["ActivateRequest", "CreateRequest", "activate", "create"]

_MAX_KEY_BYTES = 512
_MAX_ENTRIES = 256
Session = Annotated[str | None, described("The active session that acts, if one does.")]


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: Annotated[str, described("The new work item's key.", argument=True)]
    title: Annotated[str, described("What the work is called.")]
    expected_revision: ExpectedRevision
    session: Session = None
    summary: Annotated[str | None, described("What the work is about.")] = None
    goal: Annotated[str | None, described("The goal it serves.")] = None
    milestone: Annotated[str | None, described("The milestone it belongs to.")] = None
    next_action: Annotated[str | None, described("The one thing to do first.")] = None
    acceptance: Annotated[tuple[str, ...], described("A criterion that has to hold when it is done.")] = ()
    depends_on: Annotated[tuple[str, ...], described("A work item that has to be completed before.")] = ()
    source: Annotated[str | None, described("The ledger to write to, where the project has several.")] = None


class ActivateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    work: WorkKey
    expected_revision: ExpectedRevision
    session: Session = None
    reason: Annotated[str, described("Why, in a sentence or a few.")] = "the draft is complete"


def create(project: Project, request: CreateRequest) -> ProposalReport:
    """Write a new work item with the status draft behind the others of a ledger.

    Raise InvalidInput, RuleViolation, RevisionConflict, NotFound for a goal, milestone, dependency or ledger that no
    source names, SourceConflict for a key that is taken, and what apply_change raises.
    """
    fields = _fields(request)
    refuse_secrets({"key": request.work, **fields}, what="the new work item")

    def check(reader: Reader) -> Change:
        if request.session is not None:
            require_active(session_by_id(reader.database, request.session))
        _require_free(reader, request.work)
        _require_known(reader, request)
        return Change(
            source=_ledger(reader, request.source),
            mutation_type="work.create",
            work_item_key=request.work,
            work_item_id=None,
            session_id=request.session,
            patch={"fields": fields},
        )

    return apply_change(project, expected_revision=request.expected_revision, check=check, edit=_new_entry)


def activate(project: Project, request: ActivateRequest) -> ProposalReport:
    """Make a draft planned work, once it says what it is, when it is done, what comes first and whom it serves.

    Raise InvalidInput, RuleViolation, RevisionConflict, NotFound, ClaimConflict, InvalidTransition for anything but a
    draft or for one that lacks something, and what apply_change raises.
    """
    bounded_note("reason", request.reason, limit=TEXT_LIMITS["reason"])
    refuse_secrets(request.reason, what="the reason")
    standard = read_manifest(project.manifest_path).context_profile == "standard"

    def check(reader: Reader) -> Change:
        work = work_entity(reader.database, request.work)
        if request.session is not None:
            require_active(session_by_id(reader.database, request.session))
        refuse_foreign_claim(reader, work, session_id=request.session)
        _require_complete_draft(reader, request.work, standard=standard)
        source = source_by_id(reader.database, work.source_id)
        assert source is not None, "an entity names a source of the journal"
        return Change(
            source=source,
            mutation_type="work.activate_draft",
            work_item_key=request.work,
            work_item_id=work.id,
            session_id=request.session,
            patch={
                "action": "activate_draft",
                "reason": request.reason,
                "from_status": "draft",
                "to_status": "planned",
                "fields": {"status": "planned"},
            },
        )

    return apply_change(project, expected_revision=request.expected_revision, check=check, edit=entry_edit)


def _fields(request: CreateRequest) -> dict[str, Any]:
    """Return the fields to write, in the order they will stand. Raise InvalidInput."""
    bounded_text("key", request.work, limit=_MAX_KEY_BYTES)
    bounded_text("title", request.title, limit=TEXT_LIMITS["next_action"])
    for name, limit in (("summary", TEXT_LIMITS["summary"]), ("next_action", TEXT_LIMITS["next_action"])):
        text = getattr(request, name)
        if text is not None:
            bounded_note(name, text, limit=limit)
    for name in ("acceptance", "depends_on"):
        entries = getattr(request, name)
        if len(entries) > _MAX_ENTRIES or len(set(entries)) != len(entries):
            raise InvalidInput(
                f"{name} lists each entry once",
                got=f"{len(entries)} entries" if len(entries) > _MAX_ENTRIES else "an entry twice",
                expected=f"at most {_MAX_ENTRIES} different entries",
                next_step="leave the repeated ones out",
            )
        for entry in entries:
            bounded_note(name, entry, limit=TEXT_LIMITS["next_action"])
    stated = {
        "title": request.title,
        "status": "draft",
        "goal": request.goal,
        "milestone": request.milestone,
        "depends_on": request.depends_on or None,
        "summary": request.summary,
        "next_action": request.next_action,
        "acceptance": request.acceptance or None,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _new_entry(change: Change) -> Edit:
    def extended(data: bytes, options: Any) -> bytes:
        return extended_ledger(
            data,
            locator=change.source.locator,
            options=options,
            key=change.work_item_key,
            fields=change.patch["fields"],
        )

    return extended


def _ledger(reader: Reader, locator: str | None) -> SourceRow:
    ledgers = [row for row in live_sources(reader.database) if row.adapter == LEDGER_ADAPTER]
    if locator is not None:
        fitting = [row for row in ledgers if locator in {row.id, row.locator}]
    else:
        primary = [row for row in ledgers if row.domain == "ledger" and row.role == "primary"]
        fitting = primary or ledgers
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InvalidInput(
            "the project has several ledgers that new work could be written to",
            got=f"{len(fitting)} ledgers",
            expected="one of them named",
            next_step="name it with --source; awr source list shows them",
        )
    raise NotFound(
        "there is no such ledger in this project",
        expected=f"a source read by {LEDGER_ADAPTER}",
        next_step="run awr source list to see the sources",
    )


def _require_free(reader: Reader, key: str) -> None:
    known = entity(reader.database, kind="work_item", external_key=key)
    if known is not None and not known.retired:
        raise SourceConflict(
            "a work item of this key exists already",
            expected="a key that no source names",
            next_step="run awr work show to see it, or choose another key",
        )


def _require_known(reader: Reader, request: CreateRequest) -> None:
    work = [("work_item", key) for key in request.depends_on]
    for kind, key in [("goal", request.goal), ("plan", request.milestone), *work]:
        known = entity(reader.database, kind=kind, external_key=key) if key is not None else None
        if key is not None and (known is None or known.retired):
            raise NotFound(
                f"no source names that {'milestone' if kind == 'plan' else kind.replace('_', ' ')}",
                expected="the key of one that a source of this project names",
                next_step="write it into its source first, or leave it out",
            )


def _require_complete_draft(reader: Reader, key: str, *, standard: bool) -> None:
    contents = Contents(reader)
    item = contents.work_item(key)
    assert item is not None, "an entity that is not retired has content"
    if item.status != "draft" or item.archived:
        raise InvalidTransition(
            "only a draft can be activated",
            got=f"the status {item.status}",
            expected="a draft",
            next_step="run awr work show to see the state",
        )
    sources = {row.id: row for row in live_sources(reader.database) if row.freshness == "fresh"}
    gaps = draft_gaps(
        item,
        goal_serves=any(_serves(contents, goal, sources) for goal in item.goals),
        standard=standard,
        has_rules=any(row.domain == "rules" for row in sources.values()),
        has_milestone=item.milestone is not None and contents.identity("plan", item.milestone) is not None,
    )
    if gaps:
        raise InvalidTransition(
            "the draft is not complete",
            got="a draft without " + ", ".join(gaps),
            expected="a title, acceptance, a next action and an active goal"
            + ("; rules and a milestone in the standard profile" if standard else ""),
            next_step="add what is missing to the sources, run awr source reindex, then activate it",
            missing=list(gaps),
        )


def _serves(contents: Contents, key: str, sources: dict[str, SourceRow]) -> bool:
    known = contents.identity("goal", key)
    source = sources.get(known.source_id) if known else None
    goal = next((goal for goal in contents.goals() if goal.external_key == key), None)
    return (
        source is not None
        and source.role == "primary"
        and goal is not None
        and goal.status.strip().lower() in ACTIVE_GOAL_STATUSES
    )
