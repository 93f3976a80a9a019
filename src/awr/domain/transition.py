"""How work may change its state: one table, and what each action asks for.

The source file says the state; AWR writes it there on request. Every change that the table does not list is refused.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Literal

import msgspec

from awr.domain.work import Status, WorkItem
from awr.errors import InvalidInput, InvalidTransition

__all__ = [
    "ACTIVE_GOAL_STATUSES",
    "TRANSITIONS",
    "Action",
    "Transition",
    "bounded_note",
    "draft_gaps",
    "require_status",
    "validate_inputs",
]

Action = Literal["progress", "block", "unblock", "cancel", "reopen", "complete"]

#: Bytes of each text that an action may carry.
TEXT_LIMITS: dict[str, int] = {"reason": 4096, "next_action": 4096, "blocker": 4096, "summary": 16384}

#: A draft may be activated for a goal in one of these states.
ACTIVE_GOAL_STATUSES = frozenset({"active", "confirmed", "approved", "in_progress"})


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table.

    `requires` and `accepts` name the texts beside the reason. `clears` names what becomes null. A transition that
    needs dependencies counts the item's own blocker among them, unless `ignores_blocker` is set.
    """

    action: Action
    sources: tuple[Status, ...]
    target: Status
    event_type: str
    needs_claim: bool
    needs_dependencies: bool
    ignores_blocker: bool = False
    requires: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()
    releases_claims: bool = False

    @property
    def mutation_type(self) -> str:
        """What a proposal of this action is called."""
        return f"work.{self.action}"


_OPEN: tuple[Status, ...] = ("planned", "ready", "claimed", "in_progress")

TRANSITIONS: dict[Action, Transition] = {
    row.action: row
    for row in (
        Transition(
            action="progress",
            sources=_OPEN,
            target="in_progress",
            event_type="work.progressed",
            needs_claim=True,
            needs_dependencies=True,
            requires=("next_action",),
            accepts=("summary",),
        ),
        Transition(
            action="block",
            sources=("in_progress",),
            target="blocked",
            event_type="work.blocked",
            needs_claim=True,
            needs_dependencies=False,
            requires=("blocker",),
        ),
        Transition(
            action="unblock",
            sources=("blocked",),
            target="in_progress",
            event_type="work.unblocked",
            needs_claim=False,
            needs_dependencies=True,
            ignores_blocker=True,
            requires=("next_action",),
            clears=("blocker",),
        ),
        Transition(
            action="cancel",
            sources=(*_OPEN, "blocked"),
            target="cancelled",
            event_type="work.cancelled",
            needs_claim=False,
            needs_dependencies=False,
            clears=("blocker",),
            releases_claims=True,
        ),
        Transition(
            action="reopen",
            sources=("completed", "cancelled"),
            target="planned",
            event_type="work.reopened",
            needs_claim=False,
            needs_dependencies=False,
            requires=("next_action",),
            clears=("blocker", "ordinary_completion"),
        ),
        Transition(
            action="complete",
            sources=("in_progress",),
            target="completed",
            event_type="work.completed",
            needs_claim=True,
            needs_dependencies=True,
            # The blocker is looked at last, behind the evidence.
            ignores_blocker=True,
            releases_claims=True,
        ),
    )
}


def bounded_note(name: str, value: str, *, limit: int) -> str:
    """Return a text of one or more lines that is not blank and fits `limit` bytes. Raise InvalidInput."""
    size = len(value.encode("utf-8", "surrogatepass"))
    plain = all(character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs"} for character in value)
    if value.strip() and size <= limit and plain:
        return value
    raise InvalidInput(
        f"{name} must be nonempty bounded text",
        got=f"{size} bytes with a control character" if not plain else f"{size} bytes" if size else "blank text",
        expected=f"1 to {limit} UTF-8 bytes, not blank, with line breaks and tabs at most",
        next_step=f"send a {name} that keeps to these bounds",
    )


def validate_inputs(transition: Transition, *, reason: str, texts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the texts that an action carries.

    Raise InvalidInput for one that is missing, too long or not its own.
    """
    bounded_note("reason", reason, limit=TEXT_LIMITS["reason"])
    given = {name: value for name, value in texts.items() if value is not None}
    allowed = {*transition.requires, *transition.accepts}
    missing = [name for name in transition.requires if name not in given]
    if missing or not given.keys() <= allowed:
        named = ", ".join(("reason", *transition.requires, *(f"{name} (optional)" for name in transition.accepts)))
        raise InvalidInput(
            f"{transition.action} asks for other fields",
            got=f"no {missing[0]}" if missing else "a field that belongs to another action",
            expected=named,
            next_step="give these fields and no others",
        )
    return {name: bounded_note(name, value, limit=TEXT_LIMITS[name]) for name, value in given.items()}


def require_status(transition: Transition, item: WorkItem) -> None:
    """Raise InvalidTransition unless the table has this action for the item's state."""
    if item.status in transition.sources and not item.archived:
        return
    draft = item.status == "draft"
    raise InvalidTransition(
        f"{transition.action} is not possible from here",
        got="an archived work item" if item.archived else f"the status {item.status}",
        expected=", ".join(transition.sources),
        next_step=(
            "activate the draft first: awr work activate"
            if draft
            else "run awr work show to see the state; the table of transitions says what leads on from it"
        ),
    )


def draft_gaps(
    item: WorkItem, *, goal_serves: bool, standard: bool, has_rules: bool, has_milestone: bool
) -> tuple[str, ...]:
    """Return what a draft still lacks before it can be planned work, in the order a person would fill it in.

    `goal_serves` says that it is linked to a goal of a fresh primary source in one of ACTIVE_GOAL_STATUSES. The
    standard profile also asks for a source of rules and a milestone.
    """
    wanted = (
        ("a title", bool(item.title.strip())),
        ("acceptance", bool(item.acceptance)),
        ("a next action", bool(item.next_action and item.next_action.strip())),
        ("a link to an active goal of a fresh primary source", goal_serves),
        ("a fresh source of rules", has_rules or not standard),
        ("a milestone", has_milestone or not standard),
    )
    return tuple(name for name, there in wanted if not there)
