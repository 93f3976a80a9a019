"""Labels form a lattice, and the operator's map says what a channel's data begin with."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.chain import digest, journal_bytes
from awr.domain import provenance
from awr.domain.provenance import (
    DEFAULTS,
    IDENTITY,
    MAX_SOURCE_ID,
    ORIGINS,
    TRUSTS,
    UNKNOWN,
    Label,
    Origin,
    Trust,
    TrustMap,
    TrustRule,
    join,
    rank,
)
from awr.errors import InvalidInput

principals = st.sampled_from(["ada", "bob", "team"])
readers = st.none() | st.lists(principals, max_size=3).map(tuple)
labels = st.builds(Label, st.sampled_from(TRUSTS), readers)
origins = st.sampled_from(ORIGINS)
sources = st.none() | st.text("ab:", max_size=3)


def allows(label: Label, reader: str) -> bool:
    return label.readers is None or reader in label.readers


def at_most(one: Label, other: Label) -> bool:
    """Whether one label restricts at least as much as another, on both axes."""
    everyone = other.readers is None
    narrower = everyone or (one.readers is not None and set(one.readers) <= set(other.readers or ()))
    return rank(one.trust) <= rank(other.trust) and narrower


@given(labels, labels, labels)
def test_joining_is_associative(one: Label, two: Label, three: Label) -> None:
    assert join([join([one, two]), three]) == join([one, join([two, three])]) == join([one, two, three])


@given(st.lists(labels, max_size=4))
def test_joining_takes_no_notice_of_the_order(found: list[Label]) -> None:
    assert {join(each) for each in permutations(found)} == {join(found)}


@given(labels)
def test_joining_a_label_with_itself_or_with_the_identity_changes_nothing(label: Label) -> None:
    assert join([label]) == join([label, label]) == join([label, IDENTITY]) == join([IDENTITY, label]) == label


def test_the_join_of_nothing_is_the_identity() -> None:
    assert join([]) == IDENTITY == Label("trusted", None)


@given(st.lists(labels), labels)
def test_one_more_input_never_raises_a_label(found: list[Label], more: Label) -> None:
    joined = join([*found, more])
    assert at_most(joined, join(found))
    assert at_most(joined, more)


@given(st.lists(labels, min_size=1))
def test_a_join_is_the_lowest_trust_and_the_readers_of_all(found: list[Label]) -> None:
    joined = join(found)
    assert rank(joined.trust) == min(rank(label.trust) for label in found)
    for reader in ("ada", "bob", "team", "stranger"):
        assert allows(joined, reader) == all(allows(label, reader) for label in found)


def test_data_for_two_strangers_together_are_for_nobody() -> None:
    assert join([Label("trusted", ("ada",)), Label("trusted", ("bob",))]) == Label("trusted", ())


def test_unknown_lies_between_untrusted_and_trusted() -> None:
    assert [rank(trust) for trust in ("untrusted", "unknown", "trusted")] == [0, 1, 2]
    assert join([UNKNOWN, IDENTITY]).trust == "unknown"
    assert join([UNKNOWN, Label("untrusted")]).trust == "untrusted"


def test_readers_in_any_order_and_number_are_one_label() -> None:
    assert Label("trusted", ("bob", "ada", "bob")) == Label("trusted", ("ada", "bob"))


# the map


@pytest.mark.parametrize("origin", ORIGINS)
def test_without_rules_an_origin_has_the_standards_trust_for_everyone(origin: Origin) -> None:
    found = TrustMap().classify(origin, "anything")
    assert (found.label, found.rules) == (Label(DEFAULTS[origin]), ())


def test_the_standards_map_trusts_people_and_the_system_alone() -> None:
    assert {origin for origin, trust in DEFAULTS.items() if trust == "trusted"} == {"user_input", "system"}
    assert {origin for origin, trust in DEFAULTS.items() if trust == "unknown"} == {"agent_generated"}
    assert list(DEFAULTS) == list(ORIGINS)


def test_what_an_agent_generated_out_of_something_is_bounded_by_that_alone() -> None:
    trust_map = TrustMap()
    assert trust_map.classify("agent_generated", None).label == UNKNOWN
    assert trust_map.classify("agent_generated", None, derived=True).label == IDENTITY
    assert trust_map.classify("tool_output", None, derived=True).label == Label("untrusted")


@pytest.mark.parametrize(
    ("pattern", "source_id", "matches"),
    [
        ("mcp:wiki", "mcp:wiki", True),
        ("mcp:wiki", "mcp:wiki2", False),
        ("mcp:wiki", "MCP:wiki", False),
        ("mcp:*", "mcp:wiki", True),
        ("mcp:*", "mcp:", True),
        ("mcp:*", "mcp", False),
        ("*", "", True),
        ("*", None, False),
        ("mcp:*", None, False),
        (None, None, True),
        (None, "mcp:wiki", True),
    ],
)
def test_a_source_matches_exactly_or_by_its_beginning(
    pattern: str | None, source_id: str | None, matches: bool
) -> None:
    trust_map = TrustMap([TrustRule(origin="tool_output", source_id=pattern, trust="trusted")])
    found = trust_map.classify("tool_output", source_id)
    assert found.label.trust == ("trusted" if matches else "untrusted")
    assert found.rules == ((1,) if matches else ())
    assert trust_map.classify("retrieved", source_id).rules == ()


def test_the_first_rule_that_states_an_axis_decides_it() -> None:
    trust_map = TrustMap(
        [
            TrustRule(source_id="mcp:secret-*", readers=("team",)),
            TrustRule(origin="tool_output", source_id="mcp:secret-wiki", trust="trusted"),
            TrustRule(origin="tool_output", source_id="mcp:*", trust="unknown", readers=("ada", "bob")),
            TrustRule(trust="untrusted"),
        ]
    )
    wiki = trust_map.classify("tool_output", "mcp:secret-wiki")
    assert (wiki.label, wiki.rules) == (Label("trusted", ("team",)), (1, 2))
    other = trust_map.classify("tool_output", "mcp:other")
    assert (other.label, other.rules) == (Label("unknown", ("ada", "bob")), (3,))
    user = trust_map.classify("user_input", None)
    assert (user.label, user.rules) == (Label("untrusted"), (4,))


def test_an_earlier_rule_can_open_to_everyone_what_a_later_one_restricts() -> None:
    trust_map = TrustMap(
        [
            TrustRule(source_id="mcp:news", readers=None),
            TrustRule(source_id="mcp:*", readers=("team",)),
        ]
    )
    assert trust_map.classify("retrieved", "mcp:news").label.readers is None
    assert trust_map.classify("retrieved", "mcp:mail").label.readers == ("team",)


@pytest.mark.parametrize("origin", [None, "agent_generated"])
@pytest.mark.parametrize("source_id", [None, "model:*"])
def test_a_rule_that_would_trust_what_an_agent_generated_is_refused(
    origin: Origin | None, source_id: str | None
) -> None:
    with pytest.raises(InvalidInput) as refused:
        TrustMap([TrustRule(origin=origin, source_id=source_id, trust="trusted")])
    assert refused.value.details["location"] == "rule 1"


@pytest.mark.parametrize("trust", ["untrusted", "unknown"])
def test_a_rule_can_lower_what_an_agent_generated_and_never_raise_it(trust: Trust) -> None:
    trust_map = TrustMap([TrustRule(origin="agent_generated", trust=trust)])
    assert trust_map.classify("agent_generated", None).label.trust == trust
    assert trust_map.classify("agent_generated", None, derived=True).label.trust == trust


@pytest.mark.parametrize(
    "rule",
    [
        TrustRule(),
        TrustRule(origin="tool_output"),
        TrustRule(origin="tool_output", source_id="a*b", trust="trusted"),
        TrustRule(origin="tool_output", source_id="**", trust="trusted"),
        TrustRule(origin="tool_output", source_id="", trust="trusted"),
        TrustRule(origin="tool_output", source_id=" ", trust="trusted"),
        TrustRule(origin="tool_output", source_id="a\nb", trust="trusted"),
        TrustRule(origin="tool_output", source_id="x" * (MAX_SOURCE_ID + 1), trust="trusted"),
        TrustRule(origin="tool_output", source_id="é" * 3000, trust="trusted"),
        TrustRule(origin="tool_output", source_id="ghp_" + "a1" * 18, trust="trusted"),
        TrustRule(origin="tool_output", readers=("",)),
        TrustRule(origin="tool_output", readers=("ada", "x" * 257)),
    ],
)
def test_a_rule_that_says_nothing_or_can_meet_nothing_is_refused_without_a_word_of_it(rule: TrustRule) -> None:
    with pytest.raises(InvalidInput) as refused:
        TrustMap([TrustRule(origin="system", trust="unknown"), rule])
    shown = str(refused.value.report())
    assert "rule 2" in shown
    assert "ghp_" not in shown
    assert "xxx" not in shown


@pytest.mark.parametrize("size", [MAX_SOURCE_ID, 1])
def test_a_source_of_the_longest_kept_form_can_still_be_named(size: int) -> None:
    rule = TrustRule(origin="retrieved", source_id="é" * size + "*", trust="trusted")
    assert TrustMap([rule]).classify("retrieved", "é" * size).rules == (1,)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TrustRule(trust="untrusted"), TrustRule(origin="system", source_id="a", trust="trusted")),
        (
            TrustRule(origin="system", trust="untrusted"),
            TrustRule(origin="system", source_id="a*", trust="trusted"),
        ),
        (TrustRule(source_id="*", trust="unknown"), TrustRule(origin="retrieved", source_id="a", trust="trusted")),
        (TrustRule(source_id="ab*", trust="unknown"), TrustRule(source_id="abc*", trust="untrusted")),
        (TrustRule(source_id="ab*", trust="unknown"), TrustRule(source_id="ab", trust="untrusted")),
        (TrustRule(source_id="ab*", trust="unknown"), TrustRule(source_id="ab*", trust="unknown")),
        (TrustRule(readers=()), TrustRule(origin="system", trust="unknown", readers=("ada",))),
    ],
)
def test_a_rule_behind_one_that_takes_all_it_is_about_is_refused(first: TrustRule, second: TrustRule) -> None:
    with pytest.raises(InvalidInput, match=r"rule 2 of the trust map .* because rule 1 decides"):
        TrustMap([first, second])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TrustRule(source_id="ab", trust="unknown"), TrustRule(source_id="ab*", trust="untrusted")),
        (TrustRule(origin="system", trust="unknown"), TrustRule(trust="untrusted")),
        (TrustRule(source_id="a*", trust="unknown"), TrustRule(source_id="b*", trust="untrusted")),
        (TrustRule(readers=("ada",)), TrustRule(origin="system", trust="unknown")),
    ],
)
def test_a_rule_that_still_decides_something_is_taken(first: TrustRule, second: TrustRule) -> None:
    assert TrustMap([first, second]).rules == (first, second)


rules = st.builds(
    TrustRule,
    origin=st.none() | origins,
    source_id=st.none() | st.text("ab:", min_size=1, max_size=2) | st.text("ab:", max_size=2).map(lambda t: t + "*"),
    trust=st.none() | st.sampled_from(TRUSTS),
    readers=readers,
)


@given(st.lists(rules, max_size=6), origins, sources)
def test_whatever_the_rules_no_map_trusts_what_an_agent_generated_out_of_nothing(
    found: list[TrustRule], origin: Origin, source_id: str | None
) -> None:
    try:
        trust_map = TrustMap(found)
    except InvalidInput:
        return
    assert trust_map.classify("agent_generated", source_id).label.trust != "trusted"
    # A plain reading of the rules: the first that matches and states an axis.
    stated = [rule for rule in found if rule.matches(origin, source_id)]
    trust = next((rule.trust for rule in stated if rule.trust is not None), DEFAULTS[origin])
    assert trust_map.classify(origin, source_id).label.trust == trust


@given(st.lists(rules, max_size=4))
def test_every_rule_of_a_map_decides_for_some_channel(found: list[TrustRule]) -> None:
    try:
        trust_map = TrustMap(found)
    except InvalidInput:
        return
    # "c" stands for everything that no rule names.
    names = ["", *"ab:c", *(one + two for one in "ab:c" for two in "ab:c"), "a:bc", "b:ac", "::c"]
    names += [one + two + "c" for one in "ab:" for two in "ab:"]
    used = {n for origin in ORIGINS for name in [None, *names] for n in trust_map.classify(origin, name).rules}
    assert used == set(range(1, len(found) + 1))


def test_the_fingerprint_is_that_of_the_journals_bytes_and_of_nothing_else() -> None:
    rule = TrustRule(origin="tool_output", source_id="mcp:*", trust="trusted", readers=("bob", "ada"))
    spelled = b'[{"origin":"tool_output","readers":["ada","bob"],"source_id":"mcp:*","trust":"trusted"}]'
    assert journal_bytes([rule]) == spelled
    assert TrustMap([rule]).fingerprint == digest(spelled)
    assert TrustMap().fingerprint == digest(b"[]")


def test_rules_in_another_order_or_with_other_readers_have_another_fingerprint() -> None:
    one, two = TrustRule(origin="system", trust="unknown"), TrustRule(origin="retrieved", readers=("ada",))
    unsaid, everyone = TrustRule(trust="unknown"), TrustRule(trust="unknown", readers=None)
    maps: tuple[list[TrustRule], ...] = ([one, two], [two, one], [one], [unsaid], [everyone], [])
    assert len({TrustMap(each).fingerprint for each in maps}) == len(maps)


def test_a_client_that_names_ever_new_sources_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "KEPT_CLASSES", 8)
    trust_map = TrustMap([TrustRule(origin="retrieved", source_id="1*", trust="trusted")])
    for number in random.Random(1).sample(range(1000), 200):
        expected = "trusted" if str(number).startswith("1") else "untrusted"
        assert trust_map.classify("retrieved", str(number)).label.trust == expected
        assert len(trust_map._kept) <= 8
