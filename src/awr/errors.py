"""The one tree of errors. Each has a stable code and says what, got, expected and the next step.

    AwrError
    ├── InvalidInput         a value breaks its rule
    ├── RuleViolation        a safety rule refuses it: secrets, links out of the project
    ├── Unsupported          understood, and not offered
    ├── NotFound             no such project, session, work item or event
    ├── InvalidTransition    the state it is in does not allow it
    ├── RevisionConflict     another writer came first
    ├── SourceConflict       the same identity with different content, or a record out of order
    ├── CheckpointIncomplete a save was interrupted between its two steps
    ├── BudgetExceeded       the required part alone needs more tokens than allowed
    ├── ClaimConflict        somebody else holds the work
    ├── ContextIncomplete    required context is missing, or no recovery point
    ├── DependencyBlocked    the work is not ready to be claimed
    ├── EvidenceMissing      a completion or a level is not borne out
    ├── MutationUnsupported  a source cannot be edited losslessly
    ├── MutationConflict     somebody else writes or wrote to the source
    ├── MutationIncomplete   a write to a source is begun and not finished
    ├── WorkActionIncomplete a source is written and the action not yet recorded
    ├── SourceStale          a source changed since it was indexed
    ├── SourceUnavailable    a source cannot be read
    ├── CapabilityUnavailable  a host asked for something this build lacks
    ├── ProtocolUnsupported  a host speaks another protocol version
    ├── WorkflowRefused      a host's workflow refuses before anything is called; a ValueError too
    ├── CommandFailed        a call of a host's workflow was refused, or its outcome is unknown
    ├── Storage              the database cannot be used as it is
    └── Io                   the operating system refused

Values are never echoed: `got` names a type, a size or a number, because a wrong value may be a secret.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AwrError",
    "BudgetExceeded",
    "CapabilityUnavailable",
    "CheckpointIncomplete",
    "ClaimConflict",
    "CommandFailed",
    "ContextIncomplete",
    "DependencyBlocked",
    "EvidenceMissing",
    "InvalidInput",
    "InvalidTransition",
    "Io",
    "MutationConflict",
    "MutationIncomplete",
    "MutationUnsupported",
    "NotFound",
    "ProtocolUnsupported",
    "RevisionConflict",
    "RuleViolation",
    "SourceConflict",
    "SourceStale",
    "SourceUnavailable",
    "Storage",
    "Unsupported",
    "WorkActionIncomplete",
    "WorkflowRefused",
    "error_of",
    "fault_of",
    "io_error",
    "not_unicode",
]


class AwrError(Exception):
    """Carry one refusal to a person and to a program.

    `what` is a sentence. `got`, `expected` and `next_step` are short texts. Further keyword arguments are
    documented details of one code, such as `location` or `category`; they must be JSON values.
    """

    code: ClassVar[str] = "AwrError"

    def __init__(
        self,
        what: str,
        *,
        got: str | int | None = None,
        expected: str | int | None = None,
        next_step: str | None = None,
        **details: object,
    ) -> None:
        super().__init__(what)
        self.what = what
        named = {"got": got, "expected": expected, "next_step": next_step, **details}
        self.details: dict[str, object] = {key: value for key, value in named.items() if value is not None}

    def report(self) -> dict[str, object]:
        """Return the public JSON shape: `code`, `message` and, when there are any, `details`."""
        body: dict[str, object] = {"code": self.code, "message": self.what}
        if self.details:
            body["details"] = self.details
        return body


class InvalidInput(AwrError):
    code = "InvalidInput"


class RuleViolation(AwrError):
    code = "RuleViolation"


class Unsupported(AwrError):
    code = "Unsupported"


class NotFound(AwrError):
    code = "NotFound"


class InvalidTransition(AwrError):
    code = "InvalidTransition"


class RevisionConflict(AwrError):
    """Say that the project moved on. `expected` is what the writer stated, `actual` what the project has."""

    code = "RevisionConflict"

    def __init__(self, *, expected: int, actual: int) -> None:
        super().__init__(
            "the project has another revision than the one this write was based on",
            expected=expected,
            actual=actual,
            next_step=f"look at what changed, then repeat the write with expected revision {actual}",
        )


class BudgetExceeded(AwrError):
    """Say that nothing can be left out. `required` and `budget` are o200k_base tokens, or nodes of a graph."""

    code = "BudgetExceeded"

    def __init__(
        self,
        *,
        required: int,
        budget: int,
        what: str = "the required context alone does not fit the budget, and none of it may be left out",
        next_step: str | None = None,
    ) -> None:
        super().__init__(
            what,
            required=required,
            budget=budget,
            next_step=next_step or f"ask with a budget of at least {required} tokens",
        )


class SourceConflict(AwrError):
    code = "SourceConflict"


class ClaimConflict(AwrError):
    code = "ClaimConflict"


class DependencyBlocked(AwrError):
    code = "DependencyBlocked"


class EvidenceMissing(AwrError):
    code = "EvidenceMissing"


class MutationUnsupported(AwrError):
    code = "MutationUnsupported"


class MutationConflict(AwrError):
    code = "MutationConflict"


class MutationIncomplete(AwrError):
    """Say that a write to a source was begun and not finished, and how to finish it."""

    code = "MutationIncomplete"

    def __init__(self, *, proposal_id: str, attempt_event_id: str, reason: str) -> None:
        super().__init__(
            "a write to a source of this project was begun and is not finished",
            expected="the write finished first",
            next_step=f"run awr proposal recover {proposal_id}",
            proposal_id=proposal_id,
            attempt_event_id=attempt_event_id,
            reason=reason,
        )


class WorkActionIncomplete(AwrError):
    """Say that a source is written and indexed, while the action's last event is missing."""

    code = "WorkActionIncomplete"

    def __init__(self, *, proposal_id: str, reason: str) -> None:
        super().__init__(
            "the source is written, and the action could not be recorded as done",
            expected="the action recorded",
            next_step=f"run awr proposal recover {proposal_id}; do not repeat the action",
            proposal_id=proposal_id,
            stage="apply",
            reason=reason,
        )


class CheckpointIncomplete(AwrError):
    code = "CheckpointIncomplete"


class ContextIncomplete(AwrError):
    code = "ContextIncomplete"


class SourceStale(AwrError):
    code = "SourceStale"


class SourceUnavailable(AwrError):
    code = "SourceUnavailable"


class CapabilityUnavailable(AwrError):
    code = "CapabilityUnavailable"


class ProtocolUnsupported(AwrError):
    code = "ProtocolUnsupported"


class WorkflowRefused(AwrError, ValueError):
    """Say that a host's workflow was asked for what its state, its pins or its receipts do not allow."""

    code = "WorkflowRefused"


class CommandFailed(AwrError):
    """Say that AWR refused a call, or that nobody knows what the call did (`outcome` "unknown").

    `report` in the details is AWR's own error. `value` is the body of a partial answer, which is no detail.
    """

    code = "CommandFailed"

    def __init__(self, what: str, *, value: dict[str, Any] | None = None, **details: Any) -> None:
        super().__init__(what, **details)
        self.value = value


class Storage(AwrError):
    code = "Storage"


class Io(AwrError):
    code = "Io"


def io_error(error: OSError) -> Io:
    """Turn a refusal of the operating system into an error of this tree, naming the file and not its folder."""
    name = error.filename if isinstance(error.filename, str) else ""
    return Io(
        f"the operating system refused: {error.strerror or type(error).__name__}",
        got=name.rpartition("/")[2] or "a file or folder",
        expected="a file or folder that may be used this way",
        next_step="check that it exists, its permissions and the free space, then repeat the command",
    )


def not_unicode() -> InvalidInput:
    """Refuse a text that holds half a character, as bytes on a command line or escapes in JSON can make."""
    return InvalidInput(
        "a text is not valid Unicode",
        got="a lone surrogate",
        expected="text that UTF-8 can carry",
        next_step="send the text as UTF-8",
    )


def fault_of(error: Exception) -> AwrError:
    """Turn a fault of AWR's own into an error that says of which kind it is and where, and none of its words."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = ""
    if place is not None:
        file = place.tb_frame.f_code.co_filename.rpartition("/")[2]
        where = f" in {file} line {place.tb_lineno}"
    return AwrError(
        f"AWR has a fault: {type(error).__name__}{where}",
        next_step="please report this line; nothing of the command was left half-written in the database",
    )


def error_of(report: dict[str, object]) -> AwrError:
    """Return the error that a report was made of, for an answer that was recorded. Its class is told by its code."""
    error = _Recorded(str(report["message"]))
    error.code = str(report["code"])  # type: ignore[misc]  # one class for every code that may be on record
    details = report.get("details")
    error.details = dict(details) if isinstance(details, dict) else {}
    return error


class _Recorded(AwrError):
    """An error as it was answered before."""
