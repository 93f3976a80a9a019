"""How a host's loop reaches AWR: one call, one outcome, and whether that outcome is known."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

__all__ = ["CallFailed", "Outcome", "Transport", "WorkflowError"]


class WorkflowError(ValueError):
    """Say that the loop itself refuses a step: the wrong phase, a pending call, a context that was not read."""


class CallFailed(RuntimeError):
    """Carry what a call ended with. `known` is false when nobody can say whether it was carried out.

    `report` is AWR's own error: `code`, `message` and `details`; None where there was no answer. `value` is what a
    partial answer still says.
    """

    def __init__(
        self, *, operation: str, known: bool, report: dict[str, Any] | None, value: dict[str, Any] | None
    ) -> None:
        code = report["code"] if report else "no answer"
        said = report["message"] if report else "the call was sent, and whether it was carried out is not known"
        hint = (report.get("details") or {}).get("next_step") if report else "inspect the project, then reconcile"
        super().__init__(f"{operation}: {code}: {said}" + (f"; {hint}" if hint else ""))
        self.operation = operation
        self.known = known
        self.report = report
        self.value = value


class Outcome(msgspec.Struct, frozen=True):
    """What one call came to. `known` is false when no answer came back; a value may stand beside an error."""

    value: dict[str, Any] | None
    error: dict[str, Any] | None
    known: bool = True

    def require(self, operation: str) -> dict[str, Any]:
        """Return the value of a success. Raise CallFailed for everything else."""
        if self.value is None or self.error is not None or not self.known:
            raise CallFailed(operation=operation, known=self.known, report=self.error, value=self.value)
        return self.value


class Transport(Protocol):
    """One way to AWR. A call is made once; nothing here repeats it."""

    @property
    def identity(self) -> dict[str, str]:
        """Return what answers: the program and its version, and the digest it is pinned by."""

    def call(self, operation: str, arguments: dict[str, Any]) -> Outcome:
        """Carry out one operation, named as in the list of operations, with plain arguments."""
