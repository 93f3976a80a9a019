"""Proving the journal, and deriving from it again."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from awr.errors import InvalidInput, Storage
from awr.journal import projections, verification
from awr.journal.verification import Break
from awr.operations.fields import described
from awr.project import Project

__all__ = ["RebuildRequest", "RebuildResult", "VerifyRequest", "VerifyResult", "rebuild", "verify"]


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expect_head: Annotated[
        str | None, described("A head noted down earlier, kept outside the project: shows a journal that was cut.")
    ] = None


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `ok` is false when an event is broken or a guard against changes is missing."""

    ok: bool
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[True] = True
    events: int
    head: str | None
    broken: Break | None
    missing_guards: tuple[str, ...]

    def problem(self) -> Storage | None:
        """Return the error that a broken journal means, or None."""
        if self.broken is not None:
            return Storage(
                f"the journal is not as it was written: {self.broken.problem}",
                next_step="restore the database from a copy whose journal verifies",
                position=self.broken.position,
                **({"event_id": self.broken.event_id} if self.broken.event_id else {}),
            )
        if self.missing_guards:
            return Storage(
                "the journal verifies, and rules that keep it append-only were removed from the database",
                got=", ".join(self.missing_guards) + " missing",
                next_step="find out who changed the file, and restore it from a copy",
            )
        return None


class RebuildRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RebuildResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of each projection were not what the journal says; all zero when nothing was wrong."""

    ok: Literal[True] = True
    project_revision: int
    freshness_basis: Literal["runtime_database"] = "runtime_database"
    read_only: Literal[False] = False
    events: int
    rows_corrected: dict[str, int]


def verify(project: Project, request: VerifyRequest) -> VerifyResult:
    """Check every link, payload and revision. A broken journal is a result with `ok` false, not an exception."""
    if request.expect_head is not None and not _is_head(request.expect_head):
        raise InvalidInput(
            "the expected head is not a link",
            got=f"{len(request.expect_head)} characters",
            expected="64 lowercase hexadecimal characters, as awr journal verify prints them",
            next_step="copy the head from an earlier run",
        )
    with project.journal.read() as reader:
        found = verification.verify(reader.database, expected_head=request.expect_head)
    return VerifyResult(
        ok=found.broken is None and not found.missing_guards,
        project_revision=found.project_revision,
        events=found.events,
        head=found.head,
        broken=found.broken,
        missing_guards=found.missing_guards,
    )


def rebuild(project: Project, request: RebuildRequest) -> RebuildResult:
    """Derive every runtime projection again from a journal that verifies. Raise Storage for one that does not."""
    with project.journal.write() as writer:
        broken = verification.verify(writer.database).broken
        if broken is not None:
            raise Storage(
                f"nothing was rebuilt, for the journal is not as it was written: {broken.problem}",
                next_step="restore the database from a copy whose journal verifies",
                position=broken.position,
            )
        return RebuildResult(
            project_revision=writer.project_revision,
            events=writer.head.position,
            rows_corrected=projections.rebuild(writer.database),
        )


def _is_head(text: str) -> bool:
    return len(text) == 64 and all(character in "0123456789abcdef" for character in text)
