"""Something that runs outside AWR on behalf of a session: what it is for, and how its host says it stands."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = ["Execution", "Intent", "Phase", "Report", "is_uncertain", "validate_intent", "validate_report"]

Executor = Literal["managed_local", "external"]
State = Literal["registered", "starting", "running", "succeeded", "failed"]
Phase = Literal["started", "progress", "waiting_user", "succeeded", "failed", "interrupted", "unknown"]

_TERMINAL = frozenset({"succeeded", "failed"})


class Intent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to run. The key is the project's own name of it: one key never runs twice."""

    operation_key: str
    purpose: str
    executor: Executor
    command: tuple[str, ...] = ()
    cwd: str | None = None
    external_reference: str | None = None


class Execution(msgspec.Struct, frozen=True):
    """One execution as recorded. `latest_phase` is what the host last reported; null before its first report."""

    id: str
    project_id: str
    work_item_id: str
    session_id: str
    branch_id: str | None
    revision: int
    operation_key: str
    intent: Intent
    state: State
    registered_at: int
    started_at: int | None
    finished_at: int | None
    latest_phase: Phase | None


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host's statement about an execution. It observes and changes nothing; equal keys mean the same report."""

    version: Literal[1] = 1
    request_key: str
    execution_id: str
    host_id: str
    host_work_key: str
    native_session: str
    agent_id: str
    origin: Literal["caller_reported", "host_observed"]
    phase: Phase
    observed_at: int
    summary: str
    detail_references: tuple[str, ...] = ()


def is_uncertain(execution: Execution) -> bool:
    """Tell whether its outcome is unknown, so that a retry could do the same thing twice.

    Registered and never reported is not uncertain: nothing is known to have begun.
    """
    if execution.state in _TERMINAL:
        return False
    if execution.started_at is not None:
        return True
    reported = execution.latest_phase is not None and execution.latest_phase not in _TERMINAL
    return execution.intent.executor == "external" and reported


def validate_intent(intent: Intent) -> None:
    """Check an intent's bounds. Raise InvalidInput."""
    bounded_text("operation_key", intent.operation_key, limit=512)
    _text("purpose", intent.purpose, limit=8192)
    if len(intent.command) > 256 or any(len(word.encode("utf-8", "surrogatepass")) > 8192 for word in intent.command):
        raise InvalidInput(
            "the command is too long",
            got=f"{len(intent.command)} words",
            expected="up to 256 words of 8192 bytes",
            next_step="put the command into a script and name the script",
        )
    if intent.external_reference is not None:
        _text("external_reference", intent.external_reference, limit=4096)


def validate_report(report: Report, *, now: int) -> None:
    """Check a report's bounds. `now` is Unix milliseconds. Raise InvalidInput."""
    for name in ("request_key", "execution_id", "host_id", "host_work_key", "native_session", "agent_id"):
        bounded_text(name, getattr(report, name), limit=512)
    _text("summary", report.summary, limit=8192)
    if len(report.detail_references) > 32:
        raise InvalidInput(
            "the report has too many references",
            got=len(report.detail_references),
            expected="up to 32",
            next_step="name the most telling ones",
        )
    for reference in report.detail_references:
        _text("a detail reference", reference, limit=4096)
    if not 0 < report.observed_at <= now:
        raise InvalidInput(
            "the report's time is out of range",
            got=report.observed_at,
            expected=f"Unix milliseconds from 1 to {now}",
            next_step="send the time at which the host observed this",
        )


def _text(name: str, text: str, *, limit: int) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text.strip() or size > limit:
        raise InvalidInput(
            f"{name} is blank or too long",
            got=f"{size} bytes",
            expected=f"1 to {limit} bytes",
            next_step=f"shorten {name}, and keep the detail in a file",
        )
