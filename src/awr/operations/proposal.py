"""Looking at a proposal to write to a source, and finishing one whose writer died."""

from __future__ import annotations

from typing import Annotated

import msgspec

from awr.errors import RevisionConflict
from awr.journal.proposals import proposal_by_id
from awr.journal.sources import source_by_id
from awr.operations.fields import OptionalRevision, described
from awr.operations.mutation import ProposalReport, finish_attempt, report_of
from awr.project import Project
from awr.sources.writeback import location_of

__all__ = ["RecoverRequest", "ShowRequest", "recover", "show"]

ProposalId = Annotated[str, described("The proposal's id.", argument=True)]


class ShowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    proposal: ProposalId


class RecoverRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    proposal: ProposalId
    expected_revision: OptionalRevision = None


def show(project: Project, request: ShowRequest) -> ProposalReport:
    """Say how a proposal stands and, while its write is unfinished, what its source is now. Raise NotFound."""
    with project.journal.read() as reader:
        proposal = proposal_by_id(reader, request.proposal)
        source = source_by_id(reader.database, proposal.source_id)
        location = location_of(project, source) if proposal.pending and source is not None else None
        return report_of(reader, proposal, location=location)


def recover(project: Project, request: RecoverRequest) -> ProposalReport:
    """Finish a begun write of a source, once.

    Raise NotFound, RevisionConflict, InvalidTransition when there is nothing to finish, ClaimConflict,
    MutationConflict when the source is neither as before nor as after, MutationIncomplete or WorkActionIncomplete.
    """
    with project.journal.read() as reader:
        if request.expected_revision not in {None, reader.project_revision}:
            raise RevisionConflict(expected=request.expected_revision or 0, actual=reader.project_revision)
    return finish_attempt(project, request.proposal)
