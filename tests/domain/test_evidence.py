"""Levels, and what evidence, reports and completions must say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from awr.domain.evidence import (
    LEVELS,
    CompletionInput,
    CriterionEvidence,
    Evidence,
    Report,
    ReportCheck,
    covering,
    currency,
    lowest_level,
    rank,
    references_of,
    require_agreement,
    require_bearing,
    require_mapping,
    validate_completion,
    validate_evidence,
    validate_report,
)
from awr.errors import EvidenceMissing, InvalidInput

SHA = "a" * 40
NOW = 1_000_000


def evidence(**changes: Any) -> Evidence:
    found = Evidence(
        id="E",
        project_id="P",
        external_key="tests-1",
        work_item_id="W",
        evidence_type="test_report",
        level="locally_verified",
        summary="All samples parse",
        locator="reports/tests.json",
        sha256="b" * 64,
        source_sha=SHA,
        command="pytest",
        scope=("parser",),
        branch_id=None,
        verified_at=NOW - 1,
        created_at=NOW,
        revision=4,
    )
    return msgspec.structs.replace(found, **changes)


def report(**changes: Any) -> Report:
    check = ReportCheck(name="samples", passed=True, criteria=("Every sample parses",), details="214 of 214")
    found = Report(
        version=1,
        work_item="parse",
        source_sha=SHA,
        command="pytest",
        scope=("parser",),
        verified_at=NOW - 1,
        checks=(check,),
    )
    return msgspec.structs.replace(found, **changes)


def completion(*criteria: str, keys: tuple[str, ...] = ("tests-1",), **changes: Any) -> CompletionInput:
    entries = tuple(CriterionEvidence(criterion=one, evidence=keys) for one in criteria)
    return msgspec.structs.replace(CompletionInput(version=1, source_sha=SHA, acceptance=entries), **changes)


def test_levels_have_the_contracts_order() -> None:
    assert [rank(level) for level in LEVELS] == [0, 1, 2, 3, 4, 5]
    assert LEVELS[0] == "designed"
    assert LEVELS[-1] == "released"
    assert lowest_level(("released", "locally_verified", "release_candidate")) == "locally_verified"
    with pytest.raises(InvalidInput):
        rank("unknown")


@pytest.mark.parametrize("level", LEVELS[:2])
def test_evidence_below_local_verification_needs_no_bindings(level: str) -> None:
    bare = {"sha256": None, "source_sha": None, "command": None, "verified_at": None}
    validate_evidence(evidence(level=level, **bare), now=NOW)


@pytest.mark.parametrize("level", LEVELS[2:])
@pytest.mark.parametrize("name", ["sha256", "source_sha", "command", "verified_at"])
def test_verified_evidence_without_a_binding_is_missing_evidence(level: str, name: str) -> None:
    with pytest.raises(EvidenceMissing) as caught:
        validate_evidence(evidence(level=level, **{name: None}), now=NOW)
    assert name in str(caught.value.details["got"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"external_key": " "},
        {"evidence_type": ""},
        {"summary": ""},
        {"locator": ""},
        {"scope": ()},
        {"scope": ("",)},
        {"sha256": "b" * 63},
        {"source_sha": "a" * 41},
        {"verified_at": NOW + 1},
    ],
)
def test_evidence_that_breaks_a_bound_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        validate_evidence(evidence(**wrong), now=NOW)


def test_a_completion_of_the_documented_form_passes() -> None:
    validate_completion(completion("one", "two"))
    validate_completion(completion("one", source_sha="c" * 64, minimum_level="released"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 2},
        {"source_sha": "a" * 39},
        {"source_sha": "g" * 40},
        {"minimum_level": "implemented"},
        {"minimum_level": "unknown"},
        {"required_evidence": tuple(f"key-{number}" for number in range(100))},
        {"required_evidence": ("x" * 4097,)},
        {"required_evidence": ("",)},
        {"acceptance": ()},
    ],
)
def test_a_completion_that_breaks_a_bound_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        validate_completion(completion("one", **wrong))


def test_a_hundred_references_and_long_keys_pass() -> None:
    validate_completion(completion("one", required_evidence=tuple(f"key-{number}" for number in range(99))))
    validate_completion(completion("one", required_evidence=("x" * 4096,)))


def test_a_criterion_without_evidence_is_missing_evidence() -> None:
    with pytest.raises(EvidenceMissing):
        validate_completion(completion("one", keys=()))


@pytest.mark.parametrize("stated", [("one",), ("one", "two", "three"), ("one", "one", "two"), ("one", "Two")])
def test_criteria_that_are_not_mapped_exactly_once_are_missing_evidence(stated: tuple[str, ...]) -> None:
    with pytest.raises(EvidenceMissing):
        require_mapping(completion(*stated), ("one", "two"))


def test_criteria_may_stand_in_another_order() -> None:
    require_mapping(completion("two", "one"), ("one", "two"))


def test_references_are_named_once_in_order() -> None:
    assert references_of(completion("one", keys=("b", "a"), required_evidence=("c", "a"))) == ("b", "a", "c")


@pytest.mark.parametrize(
    "wrong",
    [
        {"work_item_id": "OTHER"},
        {"work_item_id": None},
        {"branch_id": "B"},
        {"level": "implemented"},
        {"source_sha": "d" * 40},
        {"source_sha": None},
    ],
)
def test_evidence_of_something_else_does_not_bear_out_a_completion(wrong: dict[str, Any]) -> None:
    require_bearing(evidence(), completion("one"), work_item_id="W")
    with pytest.raises(EvidenceMissing):
        require_bearing(evidence(**wrong), completion("one"), work_item_id="W")


def test_currency_is_unknown_without_a_sha_on_either_side() -> None:
    assert currency(evidence(), source_sha=SHA.upper()) == "current"
    assert currency(evidence(), source_sha="b" * 40) == "historical"
    assert currency(evidence(), source_sha=None) == "unknown"
    assert currency(evidence(source_sha=None), source_sha=SHA) == "unknown"


def check(**changes: Any) -> ReportCheck:
    return msgspec.structs.replace(report().checks[0], **changes)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"version": 2}, InvalidInput),
        ({"checks": ()}, InvalidInput),
        ({"checks": (check(), check())}, InvalidInput),
        ({"checks": (check(name=" "),)}, InvalidInput),
        ({"checks": (check(details=None),)}, InvalidInput),
        ({"command": ""}, InvalidInput),
        ({"scope": ()}, InvalidInput),
        ({"source_sha": "x"}, InvalidInput),
        ({"verified_at": NOW + 1}, InvalidInput),
        ({"checks": (check(), check(name="other", passed=False))}, EvidenceMissing),
    ],
)
def test_a_report_that_breaks_a_rule_is_refused(wrong: dict[str, Any], error: type[Exception]) -> None:
    validate_report(report(), now=NOW)
    with pytest.raises(error):
        validate_report(report(**wrong), now=NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"work_item": "other"},
        {"source_sha": "b" * 40},
        {"command": "make"},
        {"scope": ("parser", "lexer")},
        {"verified_at": NOW - 2},
    ],
)
def test_a_report_that_says_something_else_than_its_record_is_missing_evidence(wrong: dict[str, Any]) -> None:
    require_agreement(report(), evidence(), work_item_key="parse")
    with pytest.raises(EvidenceMissing):
        require_agreement(report(**wrong), evidence(), work_item_key="parse")


def test_the_scope_is_compared_as_a_set() -> None:
    require_agreement(report(scope=("b", "a")), evidence(scope=("a", "b")), work_item_key="parse")


def test_each_mapped_report_has_to_cover_the_criterion() -> None:
    entry = CriterionEvidence(criterion="Every sample parses", evidence=("one", "two"))
    other = report(checks=(check(criteria=("Something else",)),))
    assert covering({"one": report(), "two": report()}, entry)
    assert not covering({"one": report(), "two": other}, entry)
