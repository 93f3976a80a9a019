"""A table of tests says what is right, and a row that does not fit is no test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.errors import InvalidInput
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.facts import FoldFacts
from awr.guardian.policies.packs import chosen
from awr.guardian.policies.tables import HARMLESS, Case, read_cases, run_case, with_overrides

STRICT = CedarPolicy(chosen("strict", root=Path("/")))
ROW = '[[test]]\nname = "a fold is allowed"\ndecision = "allow"\n'


def test_a_row_differs_from_harmless_facts_in_what_it_says() -> None:
    facts = with_overrides("preCompact", {"entries": 3, "origins": ["system"]}, unknown=("open_waits",))
    assert facts == msgspec.structs.replace(
        HARMLESS[FoldFacts], entries=3, origins=frozenset({"system"}), open_waits=None
    )


@pytest.mark.parametrize(
    ("case", "passed", "answered"),
    [
        (Case(name="x", decision="allow"), True, "allow"),
        (Case(name="x", decision="deny", reason_codes=("unknown_trust",)), False, "allow"),
        (
            Case(name="x", facts={"unknown_entries": 1}, decision="deny", reason_codes=("unknown_trust",)),
            True,
            "deny unknown_trust",
        ),
        (
            Case(
                name="x",
                facts={"unknown_entries": 1, "untrusted_entries": 1},
                decision="deny",
                reason_codes=("unknown_trust", "aarm_cumulative_taint"),
            ),
            True,
            "deny aarm_cumulative_taint, unknown_trust",
        ),
        (
            Case(name="x", facts={"unknown_entries": 1}, decision="deny", reason_codes=("other",)),
            False,
            "deny unknown_trust",
        ),
        (Case(name="x", facts={"unknown_entries": 1}, decision="allow"), False, "deny unknown_trust"),
    ],
)
def test_a_row_passes_with_exactly_its_decision_and_reasons(case: Case, passed: bool, answered: str) -> None:
    outcome = run_case(STRICT, case)
    assert (outcome.passed, outcome.answered) == (passed, answered)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[test]",
        ROW + "more = 1\n",
        ROW.replace("allow", "perhaps"),
        ROW + 'reason_codes = ["x"]\n',
        ROW.replace('decision = "allow"', 'decision = "deny"'),
        '[[test]]\ndecision = "allow"\n',
        "a = " + "[" * 10_000,
        ROW.replace("a fold", "a\\u0007 fold"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_cases(text)


@pytest.mark.parametrize(
    ("action", "stated", "unknown"),
    [
        ("nothing", {}, ()),
        ("preCompact", {"entrys": 1}, ()),
        ("preCompact", {"entries": -1}, ()),
        ("preCompact", {"entries": 2**63}, ()),
        ("preCompact", {"entries": None}, ()),
        ("preCompact", {"origins": ["a secret"]}, ()),
        ("preCompact", {}, ("entries",)),
        ("userMessage", {}, ("open_waits",)),
    ],
)
def test_facts_that_there_are_not_are_refused_without_repeating_them(
    action: str, stated: dict[str, Any], unknown: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        with_overrides(action, stated, unknown=unknown)
    assert "a secret" not in str(caught.value.report())
