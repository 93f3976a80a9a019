"""Tables of tests: what a pack is to answer on given facts, written down beside it in TOML, and whether it does."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from awr.errors import InvalidInput
from awr.guardian.envelope import place_of
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.facts import CallFacts, Facts, FoldFacts, StepFacts
from awr.guardian.policies.schema import ACTIONS, facts_of_action

__all__ = ["HARMLESS", "Case", "Outcome", "read_cases", "run_case", "with_overrides"]

MAX_CASES = 1024

#: Facts that speak against nothing. A test says only in what its own differ from them.
HARMLESS: Mapping[type[Facts], Facts] = {
    FoldFacts: FoldFacts(
        trigger="size_threshold",
        entries=10,
        untrusted_entries=0,
        unknown_entries=0,
        untrusted_since_grounding=0,
        restricted_readers=False,
        origins=frozenset({"user_input", "agent_generated"}),
        max_lineage_depth=1,
        unknown_steps=0,
        foreign_steps=0,
        folded_steps=0,
        summary_disagreements=frozenset(),
        denials_of_boundary=0,
        estimated_input_tokens=100_000,
        target_summary_tokens=4_000,
        occupancy_percent=80,
        open_waits=0,
        uncertain_executions=0,
        pending_tool_calls=0,
        unsaved_required_context=False,
    ),
    CallFacts: CallFacts(
        tool="Read", argument_trust="trusted", untrusted_arguments=0, session_untrusted_since_grounding=0
    ),
    StepFacts: StepFacts(entries_before=10, session_untrusted_since_grounding=0),
}

_Line = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,200}\Z")]


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: the facts in which the question differs from a harmless one, and the answer that is right.

    `unknown` names facts that are not known. A denial is right with exactly these reason codes, in any order.
    """

    name: _Line
    action: str = "preCompact"
    facts: dict[str, Any] = {}
    unknown: tuple[str, ...] = ()
    decision: Literal["allow", "deny"]
    reason_codes: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of rows."""

    test: Annotated[tuple[Case, ...], msgspec.Meta(max_length=MAX_CASES)] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one row: what was right, and what was answered."""

    name: str
    passed: bool
    expected: str
    answered: str


def read_cases(text: str) -> tuple[Case, ...]:
    """Return the rows of a table. Raise InvalidInput for one that does not fit, and for a table without rows."""
    try:
        cases = msgspec.convert(tomllib.loads(text), Table).test
    except (tomllib.TOMLDecodeError, RecursionError):
        raise _unusable("no TOML", "TOML with a [[test]] for each row") from None
    except msgspec.ValidationError as error:
        raise _unusable(place_of(error), "name, decision, and of action, facts, unknown and reason_codes") from None
    if not cases:
        raise _unusable("no row", "at least one [[test]]")
    for number, case in enumerate(cases, start=1):
        if (case.decision == "deny") != bool(case.reason_codes):
            raise _unusable(
                f"row {number}: {case.decision} with {len(case.reason_codes)} reason codes",
                "at least one reason code where a denial is right, and none where it is not",
            )
    return cases


def with_overrides(action: str, stated: Mapping[str, Any], *, unknown: tuple[str, ...] = ()) -> Facts:
    """Return harmless facts with others in their places; None and `unknown` say that a fact is not known.

    Raise InvalidInput for an action or a fact that there is not, a value that does not fit, and a fact that is always
    known.
    """
    kind = ACTIONS.get(action)
    if kind is None:
        raise InvalidInput(
            "there is no such action",
            expected="one of " + ", ".join(ACTIONS),
            next_step="take the method's name without steps/",
        )
    optional = {fact.name for fact in facts_of_action(action) if fact.optional}
    if not optional.issuperset(unknown):
        raise InvalidInput(
            "a fact is said to be unknown that is always known, or that there is not",
            expected="only: " + (", ".join(sorted(optional)) or "no fact of this action"),
            next_step="correct it",
        )
    facts = {**msgspec.to_builtins(HARMLESS[kind]), **stated, **dict.fromkeys(unknown)}
    try:
        return msgspec.convert(facts, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            "the facts do not fit",
            got=place_of(error),
            expected="facts of the action, as the reference has them",
            next_step="correct them",
        ) from None


def run_case(policy: CedarPolicy, case: Case) -> Outcome:
    """Ask one row's question and compare. Raise InvalidInput where its facts do not fit."""
    judgement = policy.judge(case.action, with_overrides(case.action, case.facts, unknown=case.unknown))
    expected = _said(case.decision == "allow", case.reason_codes)
    answered = _said(judgement.allowed, judgement.reason_codes)
    return Outcome(name=case.name, passed=expected == answered, expected=expected, answered=answered)


def _said(allowed: bool, reason_codes: tuple[str, ...]) -> str:
    return "allow" if allowed else "deny " + ", ".join(sorted(reason_codes))


def _unusable(got: str, expected: str) -> InvalidInput:
    return InvalidInput(
        "the table of tests cannot be used",
        got=got,
        expected=expected,
        next_step="correct tests.toml",
    )
