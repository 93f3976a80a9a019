"""The policies that a Guardian decides by, for the person in control: which there are, and whether they work.

None of these is an agent's tool: what an agent may do is not for the agent to try out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from awr.errors import AwrError, InvalidInput, NotFound
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.folder import read_small
from awr.guardian.policies.packs import BUILT_IN, Grounding, Pack, Rule, built_in, chosen, own_packs
from awr.guardian.policies.schema import facts_of_action
from awr.guardian.policies.tables import Outcome, read_cases, run_case, with_overrides
from awr.operations.fields import described
from awr.operations.requests import parse_json

__all__ = [
    "CheckRequest",
    "CheckResult",
    "ExplainRequest",
    "ExplainResult",
    "ListRequest",
    "ListResult",
    "TableRequest",
    "TableResult",
    "check",
    "explain",
    "list_packs",
    "run_tests",
]

_PACK = "A pack: one of AWR's, the name of a folder in the operator's place, or a path with a slash."
PackName = Annotated[str, described(_PACK, argument=True)]


class ListRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class PackRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pack. `problem` says why it cannot be read; what is not known then is None."""

    name: str
    source: Literal["built-in", "operator"]
    version: str | None
    purpose: str | None
    grounding: Grounding | None
    extends: tuple[str, ...]
    leaves_out: tuple[str, ...]
    sha256: str | None
    problem: str | None


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """AWR's packs, then the operator's."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    packs: tuple[PackRow, ...]


class CheckRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pack: Annotated[str | None, described(_PACK + " Left out, all that are listed.", argument=True)] = None


class CheckRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pack: how many rules decide, how many tests it has and passes, and what is wrong with it."""

    name: str
    version: str | None
    rules: int
    tests: int
    passed: int
    problem: str | None
    where: str | None = None


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `ok` is false when a pack cannot be used or fails a test of its own."""

    ok: bool
    read_only: Literal[True] = True
    packs: tuple[CheckRow, ...]

    def problem(self) -> InvalidInput | None:
        """Return the error that a failing pack means, or None."""
        failing = sum(row.problem is not None for row in self.packs)
        if not failing:
            return None
        return InvalidInput(
            f"{failing} of {len(self.packs)} packs cannot be relied on",
            expected="policies that load and pass their tests",
            next_step="correct what is said of each; awr guardian policy test PACK shows its tests row by row",
        )


class ExplainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pack: PackName
    facts: Annotated[
        str,
        described(
            "A JSON file with the facts that matter; others are taken as harmless, null is unknown. Its path counts "
            "from the project folder."
        ),
    ]
    action: Annotated[str, described("What is asked: the hook's method without steps/, or wrappedMcp.")] = (
        "preCompact"
    )


class ExplainResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a pack decides. `facts` are all that it was given, and `assumed` names those that were not stated."""

    ok: Literal[True] = True
    read_only: Literal[True] = True
    pack: str
    action: str
    decision: Literal["allow", "deny"]
    reason_codes: tuple[str, ...]
    lifts: tuple[str, ...]
    rules: tuple[Rule, ...]
    errors: tuple[str, ...]
    facts: dict[str, Any]
    assumed: tuple[str, ...]


class TableRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pack: PackName


class TableResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every row of a table, and whether the pack answers as it says. `ok` is false when one does not."""

    ok: bool
    read_only: Literal[True] = True
    pack: str
    tests: tuple[Outcome, ...]

    def problem(self) -> InvalidInput | None:
        """Return the error that a failing row means, or None."""
        failing = sum(not row.passed for row in self.tests)
        if not failing:
            return None
        return InvalidInput(
            f"{failing} of {len(self.tests)} tests fail",
            expected="every row answered as it says",
            next_step="correct the policy or the row",
        )


def list_packs(request: ListRequest) -> ListResult:
    """List the packs. One that cannot be read is listed with its problem."""
    rows = [_row(name, (built_in(name),)) for name in BUILT_IN]
    for name in own_packs():
        try:
            if name in BUILT_IN:
                raise InvalidInput("the folder has the name of a pack of AWR's, which comes first")
            rows.append(_row(name, chosen(name, root=Path())))
        except AwrError as error:
            rows.append(
                PackRow(
                    name=name,
                    source="operator",
                    version=None,
                    purpose=None,
                    grounding=None,
                    extends=(),
                    leaves_out=(),
                    sha256=None,
                    problem=_said(error),
                )
            )
    return ListResult(packs=tuple(rows))


def check(root: Path, request: CheckRequest) -> CheckResult:
    """Load packs as the Guardian would and run their tests. What is wrong with one is a result, not an exception."""
    listed = dict.fromkeys((*BUILT_IN, *own_packs()))
    names = tuple(listed) if request.pack is None else (request.pack,)
    rows = tuple(_checked(root, name) for name in names)
    return CheckResult(ok=all(row.problem is None for row in rows), packs=rows)


def explain(root: Path, request: ExplainRequest) -> ExplainResult:
    """Ask a pack one question. Raise InvalidInput or NotFound for a pack or facts that cannot be used."""
    packs = chosen(request.pack, root=root)
    stated = parse_json(read_small(root / request.facts), what="the facts")
    if not isinstance(stated, dict):
        raise InvalidInput(
            "the facts are no JSON object",
            got=type(stated).__name__,
            expected='an object such as {"untrusted_entries": 3}',
            next_step="correct the file",
        )
    facts = with_overrides(request.action, stated)
    policy = CedarPolicy(packs)
    judgement = policy.judge(request.action, facts)
    known = [fact.name for fact in facts_of_action(request.action)]
    return ExplainResult(
        pack=packs[-1].id,
        action=request.action,
        decision="allow" if judgement.allowed else "deny",
        reason_codes=judgement.reason_codes,
        lifts=judgement.lifts,
        rules=judgement.rules,
        errors=judgement.errors,
        facts=msgspec.to_builtins(facts, order="deterministic"),
        assumed=tuple(name for name in known if name not in stated),
    )


def run_tests(root: Path, request: TableRequest) -> TableResult:
    """Run a pack's own tests. Raise NotFound for a pack without any, and what loading it raises."""
    packs = chosen(request.pack, root=root)
    policy = CedarPolicy(packs)
    outcomes = _outcomes(policy)
    if not outcomes:
        raise NotFound(
            "the pack has no tests",
            expected="a tests.toml beside its policies",
            next_step="write one; the reference of policies shows a row",
        )
    return TableResult(ok=all(row.passed for row in outcomes), pack=packs[-1].id, tests=outcomes)


def _checked(root: Path, name: str) -> CheckRow:
    version = problem = where = None
    rules, outcomes = 0, tuple[Outcome, ...]()
    try:
        packs = chosen(name, root=root)
        version = packs[-1].version
        policy = CedarPolicy(packs)
        rules = len(policy.rules)
        outcomes = _outcomes(policy)
    except AwrError as error:
        problem, where = _said(error), error.details.get("location")
    failing = sum(not row.passed for row in outcomes)
    if failing:
        problem = "1 test fails" if failing == 1 else f"{failing} tests fail"
    return CheckRow(
        name=name,
        version=version,
        rules=rules,
        tests=len(outcomes),
        passed=len(outcomes) - failing,
        problem=problem,
        where=where if isinstance(where, str) else None,
    )


def _outcomes(policy: CedarPolicy) -> tuple[Outcome, ...]:
    text = policy.packs[-1].tests
    return () if text is None else tuple(run_case(policy, case) for case in read_cases(text))


def _row(name: str, packs: tuple[Pack, ...]) -> PackRow:
    pack = packs[-1]
    return PackRow(
        name=name,
        source=pack.source,
        version=pack.version,
        purpose=pack.purpose,
        grounding=pack.grounding,
        extends=pack.extends,
        leaves_out=pack.leaves_out,
        sha256=pack.sha256,
        problem=None,
    )


def _said(error: AwrError) -> str:
    got = error.details.get("got")
    return error.what if got is None else f"{error.what}: {got}"
