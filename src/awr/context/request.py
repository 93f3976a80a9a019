"""What a caller may ask a context for, and the bounds of it."""

from __future__ import annotations

import re

import msgspec

from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = ["DEFAULT_BUDGET", "MAX_BUDGET", "ContextRequest", "validate_request"]

DEFAULT_BUDGET = 5000
MAX_BUDGET = 100_000
MAX_TEXT_BYTES = 4096
_SHA = re.compile(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")


class ContextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which work, for whom, and how much of it. `paths` and `tags` of None are unknown; empty ones are known empty.

    `checkpoint` and `after_revision` each set where the delta begins; without them it begins at the newest checkpoint
    that the work has for this session.
    """

    work: str | None = None
    session: str | None = None
    detached: bool = False
    agent: str | None = None
    goals: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    source_sha: str | None = None
    intent: str = "work"
    budget: int = DEFAULT_BUDGET
    checkpoint: str | None = None
    after_revision: int | None = None


def validate_request(request: ContextRequest) -> None:
    """Check a request's bounds. Raise InvalidInput, naming no value."""
    single = ("work", "session", "agent", "intent", "checkpoint")
    texts = [(name, getattr(request, name)) for name in single]
    many = (("goal", request.goals), ("path", request.paths or ()), ("tag", request.tags or ()))
    for name, value in (*texts, *((name, value) for name, values in many for value in values)):
        if value is not None:
            bounded_text(name, value, limit=MAX_TEXT_BYTES)
    if not 1 <= request.budget <= MAX_BUDGET:
        raise InvalidInput(
            "the budget is out of range",
            got=request.budget,
            expected=f"1 to {MAX_BUDGET} tokens",
            next_step="ask with a budget in range",
        )
    if request.source_sha is not None and not _SHA.fullmatch(request.source_sha):
        raise InvalidInput(
            "source_sha is not the id of a commit",
            got=f"{len(request.source_sha)} characters",
            expected="40 or 64 hexadecimal characters",
            next_step="give the full id of the commit, or leave it out",
        )
    if request.detached and (request.work is None or request.session is not None):
        raise InvalidInput(
            "a detached context names its work and no session",
            got="no work" if request.work is None else "a session",
            expected="work, and no session",
            next_step="name the work, or leave detached out",
        )
    if request.checkpoint is not None and request.after_revision is not None:
        raise InvalidInput(
            "a checkpoint and a revision both say where the delta begins",
            got="both",
            expected="one of them",
            next_step="leave one out",
        )
