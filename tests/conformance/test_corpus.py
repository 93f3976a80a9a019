"""The community's corpus: a case for each of its members, measured or with the reason why it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.corpus import Member, manifest, members
from tests.conformance.requirements import marks_of
from tests.conformance.rules import RULES, Rule, result_of, rules_for


def _case(member: Member) -> Any:
    rules = rules_for(member.family, member.payload)
    role = rules[0].role if rules and rules[0].measure is not None else None
    marks = marks_of(member.requirements, party=role) if role in {"guardian", "agent"} else ()
    return pytest.param(member, id=f"{member.family}-{member.id}", marks=marks)


@pytest.mark.parametrize("member", [_case(member) for member in members()])
def test_a_member_is_answered_as_it_expects_or_says_why_it_is_not_measured(
    member: Member, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    [rule] = rules_for(member.family, member.payload)
    record_property("member", msgspec.json.encode(result_of(member)).decode())
    if rule.measure is None:
        pytest.skip(f"{rule.status}, {rule.reason}: {rule.why}")
    observed = rule.measure(member.payload, tmp_path)
    assert observed.verdict == member.expected.verdict
    if rule.on_the_wire and member.expected.code_value is not None:
        assert observed.code == member.expected.code_value
    if member.expected.forbids_registry_code:
        assert observed.code is None


def test_every_member_is_one_of_the_140_and_has_one_result() -> None:
    results = [result_of(member) for member in members()]
    assert len(results) == len({result.id for result in results}) == 140
    counts = Counter(result.status for result in results)
    assert sum(counts.values()) == 140
    assert counts["exercised"] == sum(rule_of(member).measure is not None for member in members())
    assert all(bool(result.why) == bool(result.reason) == (result.status != "exercised") for result in results)


def test_no_member_is_left_out_whose_payload_a_rule_can_measure() -> None:
    for member in members():
        fitting = rules_for(member.family, member.payload)
        assert len(fitting) == 1, f"{member.id}: {len(fitting)} rules fit"
        alike = [rule for rule in RULES if rule.family == member.family and rule.needs == set(member.payload)]
        if fitting[0].measure is None and any(rule.measure is not None for rule in alike):
            assert fitting[0].also is not None, f"{member.id} has the shape of one that is measured"


def test_every_rule_has_a_member() -> None:
    used = [rule_of(member) for member in members()]
    assert [rule for rule in RULES if rule not in used] == []


def test_a_rule_sees_neither_the_id_nor_what_is_expected() -> None:
    seen = set(Rule.fits.__annotations__) - {"return"}
    assert seen == {"family", "payload"}
    assert not any("expected" in member.payload or "id" in member.payload for member in members())


def test_what_is_measured_has_members_that_are_refused_beside_members_that_are_allowed() -> None:
    verdicts = Counter(member.expected.verdict for member in members() if rule_of(member).measure is not None)
    assert min(verdicts["allow"], verdicts["deny"]) >= 10
    assert set(verdicts) == {"allow", "deny"}


def test_the_corpus_is_the_release_that_is_pinned() -> None:
    assert manifest().digest == "b9151ff03291101b4074258cef91ee31206fbc4cf6e61c16e4038348d2b221bb"


def rule_of(member: Member) -> Rule:
    """Return the one rule of a member."""
    [rule] = rules_for(member.family, member.payload)
    return rule
