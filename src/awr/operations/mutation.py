"""One change of a source from its proposal to its last event, in steps of which each can be the last.

    check, edit in memory    nothing is written
    commit                   proposal created, ready, approved; snapshots on the disk; apply started
    install                  temporary file, rename
    commit                   the source indexed again
    commit                   proposal applied, the action's own event, claims closed

All of it happens under the source's lock. A process that dies behind the first commit leaves an attempt that
`awr proposal recover` finishes or gives up; until then nobody else writes to that source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from awr.domain.transition import TRANSITIONS, Action, Transition
from awr.errors import (
    AwrError,
    ClaimConflict,
    InvalidTransition,
    MutationConflict,
    MutationIncomplete,
    MutationUnsupported,
    SourceStale,
    WorkActionIncomplete,
)
from awr.journal.events import Event
from awr.journal.journal import Reader, Writer
from awr.journal.proposals import Proposal, pending_proposal, proposal_by_id
from awr.journal.sessions import active_claim
from awr.journal.sources import SourceRow, entity, source_by_id
from awr.operations.claim import close_claim
from awr.operations.event import EventRecord, event_record
from awr.project import Project
from awr.sources.files import YAML_LIMIT, Location, SourceBytes, fingerprint, read_location
from awr.sources.index import refresh, refreshed_write
from awr.sources.manifest import LEDGER_ADAPTER, LedgerOptions, read_manifest
from awr.sources.writeback import (
    SourceCheck,
    compare,
    install,
    location_of,
    recovery_folder,
    source_lock,
    stage,
    staged_after,
)

__all__ = ["Change", "Edit", "ProposalReport", "WriteOutcome", "apply_change", "finish_attempt", "report_of"]

WriteOutcome = Literal["not_requested", "applied", "recovered", "pending_recovery", "stopped"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What an action wants of a source, once its rules hold. `work_item_id` is null for new work.

    `patch` is all that is needed to write the action's last event, and never more than the caller stated.
    """

    source: SourceRow
    mutation_type: str
    work_item_key: str
    work_item_id: str | None
    session_id: str | None
    patch: dict[str, Any]


class ProposalReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a proposal stands and what was done to its source. `event` is the action's last event.

    `source_write_performed` is null where nobody can say, which is while an attempt is unfinished.
    """

    ok: bool = True
    code: str = "proposal_recorded"
    project_revision: int
    read_only: bool
    proposal: Proposal
    event: EventRecord | None
    source_refresh_performed: bool
    source_write_performed: bool | None
    write_outcome: WriteOutcome
    apply_attempt: str | None
    recovery_directory: str | None
    source_check: SourceCheck | None
    error: dict[str, Any] | None = None


Edit = Callable[[bytes, LedgerOptions], bytes]


def apply_change(
    project: Project,
    *,
    expected_revision: int,
    check: Callable[[Reader], Change],
    edit: Callable[[Change], Edit],
) -> ProposalReport:
    """Carry out one change of a source.

    `check` raises when the action's rules do not hold; it is asked before the edit is made and again inside the write
    that records it. Raise RevisionConflict, SourceStale, MutationUnsupported or MutationConflict with nothing
    written, and MutationIncomplete or WorkActionIncomplete when only a recovery can tell.
    """
    with refreshed_write(project, expected_revision=expected_revision) as writer:
        change = check(writer)
        _refuse_pending(writer, change.source)
    options = _options(project, change.source)
    location = location_of(project, change.source)
    with source_lock(project, change.source.id):
        before = read_location(location, limit=YAML_LIMIT)
        _require_indexed(before, change.source)
        after = edit(change)(before.data, options)
        with project.journal.write(expected_revision=expected_revision) as writer:
            if check(writer) != change:
                raise _moved()
            _refuse_pending(writer, change.source)
            proposal = _started(writer, project, change, before=before, after=after, expected=expected_revision)
        event = _carried_out(project, proposal, location, after=after, outcome="applied")
    return _finished(project, proposal.id, event, outcome="applied")


def finish_attempt(project: Project, proposal_id: str) -> ProposalReport:
    """Finish a begun write: install what was to be written, or only index what stands there already.

    Raise InvalidTransition when there is nothing to finish, MutationConflict when the source is neither as before nor
    as after, ClaimConflict when somebody else has taken the work since, and what apply_change raises.
    """
    with project.journal.read() as reader:
        proposal = _require_pending(reader, proposal_id)
        source = source_by_id(reader.database, proposal.source_id)
    assert source is not None, "a proposal names a source of the journal"
    location = location_of(project, source)
    with source_lock(project, source.id):
        with project.journal.read() as reader:
            proposal = _require_pending(reader, proposal_id)
            state = compare(location, before=proposal.base_fingerprint, after=proposal.after_fingerprint)
            if state == "equal_to_before":
                _refuse_foreign_claim(reader, proposal)
        assert proposal.after_fingerprint is not None, "an attempt knows what it writes"
        after = None
        if state == "equal_to_before":
            after = staged_after(project, proposal.id, wanted=proposal.after_fingerprint)
        event = _carried_out(project, proposal, location, after=after, outcome="recovered")
    return _finished(project, proposal.id, event, outcome="recovered")


def report_of(reader: Reader, proposal: Proposal, *, location: Location | None) -> ProposalReport:
    """Say how a proposal stands. While its attempt is unfinished, its source is compared with both states."""
    outcome: WriteOutcome = "not_requested"
    check: SourceCheck | None = None
    if proposal.pending:
        outcome = "pending_recovery"
        if location is not None:
            check = compare(location, before=proposal.base_fingerprint, after=proposal.after_fingerprint)
    elif proposal.attempt_event_id is not None:
        outcome = "applied" if proposal.status == "applied" else "stopped"
    return ProposalReport(
        project_revision=reader.project_revision,
        read_only=True,
        proposal=proposal,
        event=None,
        source_refresh_performed=False,
        source_write_performed={"applied": True, "not_requested": False}.get(outcome),
        write_outcome=outcome,
        apply_attempt=proposal.attempt_event_id,
        recovery_directory=recovery_folder(proposal.id) if proposal.attempt_event_id else None,
        source_check=check,
    )


def _options(project: Project, source: SourceRow) -> LedgerOptions:
    mappings = read_manifest(project.manifest_path).sources
    mapping = next((one for one in mappings if (one.domain, one.location) == (source.domain, source.locator)), None)
    if mapping is None or mapping.adapter != LEDGER_ADAPTER or not isinstance(mapping.options, LedgerOptions):
        raise MutationUnsupported(
            "this kind of source is not written to",
            got="another adapter",
            expected=f"a source read by {LEDGER_ADAPTER}",
            next_step="edit the file by hand, then run awr source reindex",
        )
    return mapping.options


def _require_indexed(found: SourceBytes, source: SourceRow) -> None:
    if found.fingerprint != source.fingerprint:
        raise _moved()


def _moved() -> MutationConflict:
    return MutationConflict(
        "the source or the work changed between the look and the write",
        got="another state than the one that was checked",
        expected="a source that stands still for a moment",
        next_step="run awr work show, then repeat this with the present revision",
    )


def _refuse_pending(reader: Reader, source: SourceRow) -> None:
    pending = pending_proposal(reader, source.id)
    if pending is not None:
        raise MutationIncomplete(
            proposal_id=pending.id,
            attempt_event_id=pending.attempt_event_id or "",
            reason="an earlier write to this source has to be finished first",
        )


def _started(
    writer: Writer, project: Project, change: Change, *, before: SourceBytes, after: bytes, expected: int
) -> Proposal:
    """Record and approve the proposal, put both states on the disk, and begin: one commit, or nothing."""
    proposal_id = writer.new_id()
    base = {"proposal_id": proposal_id}
    begun = {**base, "before_fingerprint": before.fingerprint, "after_fingerprint": fingerprint(after)}
    plan = {
        **begun,
        "version": 1,
        "project_id": writer.project_id,
        "source_id": change.source.id,
        "locator": change.source.locator,
        "mutation_type": change.mutation_type,
    }
    created = {
        **base,
        "source_id": change.source.id,
        "mutation_type": change.mutation_type,
        "patch": {"work_item": change.work_item_key, **change.patch},
        "base_fingerprint": before.fingerprint,
        "expected_revision": expected,
    }
    steps: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("proposal.created", created, "Source change proposed"),
        ("proposal.ready", base, "Proposal complete"),
        ("proposal.approved", {**base, "approved_by": "self"}, "Proposal approved by its own action"),
        ("proposal.apply_started", begun, "Source write begins"),
    )
    for event_type, payload, summary in steps:
        if event_type == "proposal.apply_started":
            stage(project, proposal_id, before=before.data, after=after, plan=plan)
        writer.append(
            event_type, payload, summary=summary, work_item_id=change.work_item_id, session_id=change.session_id
        )
    return proposal_by_id(writer, proposal_id)


def _carried_out(
    project: Project,
    proposal: Proposal,
    location: Location,
    *,
    after: bytes | None,
    outcome: Literal["applied", "recovered"],
) -> Event:
    """Bring an attempt to its end and return the last event. `after` is what to install, if that is left to do."""
    try:
        if after is not None and fingerprint(after) != proposal.base_fingerprint:
            install(location, after, before=proposal.base_fingerprint, proposal_id=proposal.id)
        refresh(project)
        with project.journal.read() as reader:
            source = source_by_id(reader.database, proposal.source_id)
        if source is None or (source.fingerprint, source.freshness) != (proposal.after_fingerprint, "fresh"):
            _require_known(location, proposal)
            raise SourceStale("the written source could not be indexed")
    except MutationConflict:
        _given_up(project, proposal)
        raise
    except AwrError as error:
        raise MutationIncomplete(
            proposal_id=proposal.id,
            attempt_event_id=proposal.attempt_event_id or "",
            reason=f"{error.code}: {error.what}",
        ) from error
    try:
        with project.journal.write() as writer:
            _require_pending(writer, proposal.id)
            return _recorded(writer, proposal, outcome=outcome)
    except AwrError as error:
        raise WorkActionIncomplete(proposal_id=proposal.id, reason=f"{error.code}: {error.what}") from error


def _require_known(location: Location, proposal: Proposal) -> None:
    state = compare(location, before=proposal.base_fingerprint, after=proposal.after_fingerprint)
    if state == "changed":
        raise MutationConflict(
            "the source is neither as it was before the write nor as it should be after it",
            got="other bytes than both",
            expected="the source as before or as after",
            next_step=f"compare it with {recovery_folder(proposal.id)}, correct it by hand, then act anew",
        )


def _given_up(project: Project, proposal: Proposal) -> None:
    with project.journal.write() as writer:
        if proposal_by_id(writer, proposal.id).pending:
            writer.append(
                "proposal.conflicted",
                {"proposal_id": proposal.id},
                summary="Source write given up: the source is neither as before nor as after",
                importance="high",
                work_item_id=proposal.work_item_id,
                session_id=proposal.created_by_session,
            )


def _recorded(writer: Writer, proposal: Proposal, *, outcome: Literal["applied", "recovered"]) -> Event:
    """Write the last commit: the proposal applied, claims closed where the table says so, the action's own event."""
    key = str(proposal.patch["work_item"])
    known = entity(writer.database, kind="work_item", external_key=key)
    work_item_id = known.id if known else proposal.work_item_id
    session_id = proposal.created_by_session
    last = writer.append(
        "proposal.applied",
        {"proposal_id": proposal.id, "write_outcome": outcome},
        summary="Proposal stands in its source",
        work_item_id=work_item_id,
        session_id=session_id,
    )
    transition = _transition_of(proposal)
    event_type = transition.event_type if transition else _OWN_EVENTS.get(proposal.mutation_type)
    if event_type is not None:
        last = writer.append(
            event_type,
            {
                "proposal_id": proposal.id,
                **{name: value for name, value in proposal.patch.items() if name != "work_item"},
            },
            summary=f"Work {event_type.partition('.')[2].replace('_', ' ')}",
            importance="high" if event_type in _WEIGHTY else "normal",
            work_item_id=work_item_id,
            session_id=session_id,
        )
    if transition is not None and transition.releases_claims and work_item_id is not None:
        held = active_claim(writer.database, work_item_id)
        if held is not None:
            close_claim(writer, held)
    return last


def _transition_of(proposal: Proposal) -> Transition | None:
    action = proposal.mutation_type.partition(".")[2]
    return TRANSITIONS[_ACTIONS[action]] if action in _ACTIONS else None


_ACTIONS: dict[str, Action] = {str(action): action for action in TRANSITIONS}
_OWN_EVENTS = {"work.activate_draft": "work.draft_activated"}
_WEIGHTY = frozenset({"work.completed", "work.cancelled", "work.blocked"})


def _require_pending(reader: Reader, proposal_id: str) -> Proposal:
    proposal = proposal_by_id(reader, proposal_id)
    if not proposal.pending:
        raise InvalidTransition(
            "this proposal has no unfinished write",
            got=f"a proposal that is {proposal.status}",
            expected="a proposal whose write was begun and not finished",
            next_step="run awr proposal show to see how it ended; there is nothing to recover",
        )
    return proposal


def _refuse_foreign_claim(reader: Reader, proposal: Proposal) -> None:
    held = active_claim(reader.database, proposal.work_item_id) if proposal.work_item_id else None
    live = held is not None and (held.expires_at is None or held.expires_at > reader.now)
    if held is not None and live and held.session_id != proposal.created_by_session:
        raise ClaimConflict(
            "another session has taken this work since the write was begun",
            expected="work that nobody else holds",
            next_step="ask that session to release the work, then recover again",
        )


def _finished(project: Project, proposal_id: str, event: Event, *, outcome: WriteOutcome) -> ProposalReport:
    with project.journal.read() as reader:
        proposal = proposal_by_id(reader, proposal_id)
        return ProposalReport(
            project_revision=reader.project_revision,
            read_only=False,
            proposal=proposal,
            event=event_record(event),
            source_refresh_performed=True,
            source_write_performed=True,
            write_outcome=outcome,
            apply_attempt=proposal.attempt_event_id,
            recovery_directory=recovery_folder(proposal.id),
            source_check="equal_to_after",
        )
