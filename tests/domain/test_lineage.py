"""Lineage is closed under folding, and trust only falls along it until an operator endorses."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from awr.domain.lineage import (
    Datum,
    Endorsement,
    Entry,
    Lineage,
    Step,
    closure,
    depths,
    disagreements,
    effective,
    endorsed,
    lineage_union,
    summarize,
    untrusted_since_grounding,
    validate_endorsement,
)
from awr.domain.provenance import (
    IDENTITY,
    ORIGINS,
    TRUSTS,
    UNKNOWN,
    Label,
    Origin,
    Readers,
    TrustMap,
    TrustRule,
    join,
    rank,
)
from awr.errors import InvalidInput, RuleViolation

#: A map in which both axes move.
MAP = TrustMap(
    [
        TrustRule(origin="tool_output", source_id="good", trust="trusted", readers=("ada", "bob")),
        TrustRule(source_id="mail", readers=("ada",)),
        TrustRule(origin="external", trust="unknown"),
    ]
)

labels = st.builds(
    Label, st.sampled_from(TRUSTS), st.none() | st.lists(st.sampled_from(["ada", "bob"]), max_size=2).map(tuple)
)
sources = st.sampled_from([None, "good", "mail"])
names = st.sampled_from([f"p{number}" for number in range(8)])


@st.composite
def anything(draw: st.DrawFn) -> list[Datum]:
    """Data with any lineage: circles, names that nothing is said of, and ids of which several things are said."""
    return draw(
        st.lists(
            st.builds(
                Datum,
                provenance_id=names,
                origin=st.sampled_from(ORIGINS),
                source_id=sources,
                derived_from=st.lists(names, max_size=3).map(tuple),
            ),
            max_size=10,
        )
    )


@st.composite
def forward(draw: st.DrawFn) -> list[Datum]:
    """Data whose lineage is known whole and leads back to nothing of its own, in an order in which it can arise."""
    found: list[Datum] = []
    for number in range(draw(st.integers(1, 10))):
        earlier = [datum.provenance_id for datum in found]
        under = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        origin = draw(st.sampled_from(ORIGINS))
        found.append(
            Datum(provenance_id=f"p{number}", origin=origin, source_id=draw(sources), derived_from=tuple(under))
        )
    return found


def lineage_of(data: list[Datum], trust_map: TrustMap = MAP) -> Lineage:
    lineage = Lineage(trust_map)
    for datum in data:
        lineage.add(datum)
    return lineage


def labels_of(lineage: Lineage, data: list[Datum]) -> dict[str, Label | None]:
    return {datum.provenance_id: lineage.label_of(datum.provenance_id) for datum in data}


def repeated(data: list[Datum], trust_map: TrustMap = MAP) -> dict[str, Label]:
    """The rule itself, applied to everything again and again until nothing changes."""
    found: dict[str, Label] = {}
    said: dict[str, list[Datum]] = {}
    for datum in data:
        said.setdefault(datum.provenance_id, []).append(datum)
    changed = True
    while changed:
        changed = False
        for name, each in said.items():
            label = join(effective(datum, found.get, trust_map=trust_map) for datum in each)
            changed |= found.get(name) != label
            found[name] = label
    return found


def at_most(one: Label | None, other: Label | None) -> bool:
    assert one is not None
    assert other is not None
    narrower = other.readers is None or (one.readers is not None and set(one.readers) <= set(other.readers))
    return rank(one.trust) <= rank(other.trust) and narrower


def own(datum: Datum) -> Label:
    return MAP.classify(datum.origin, datum.source_id, derived=bool(datum.derived_from)).label


def summary_of(name: str, *entries: tuple[str, ...]) -> Datum:
    return Datum(provenance_id=name, origin="agent_generated", derived_from=lineage_union(entries))


def generated(name: str, *under: str) -> Datum:
    return Datum(provenance_id=name, origin="agent_generated", derived_from=under)


USER = Datum(provenance_id="user", origin="user_input")
TOOL = Datum(provenance_id="tool", origin="tool_output")


# effective labels


def test_a_summary_of_an_untrusted_result_is_untrusted_however_often_it_is_summarized() -> None:
    lineage = lineage_of([USER, TOOL])
    assert lineage.add(summary_of("first", ("user", "tool"))).trust == "untrusted"
    assert lineage.add(summary_of("second", ("first",), ("user",))).trust == "untrusted"
    assert lineage.add(summary_of("clean", ("user",))) == IDENTITY


def test_what_an_agent_generated_out_of_nothing_that_it_names_is_unknown() -> None:
    assert lineage_of([]).add(generated("p")) == UNKNOWN


def test_what_derives_from_something_that_nobody_knows_joins_unknown() -> None:
    lineage = lineage_of([USER])
    assert lineage.add(generated("p", "user", "nowhere")) == UNKNOWN
    assert lineage.add(Datum(provenance_id="s", origin="system", derived_from=("nowhere",))) == UNKNOWN


@pytest.mark.parametrize("origin", ORIGINS)
def test_data_of_any_origin_fall_with_what_they_derive_from(origin: Origin) -> None:
    lineage = lineage_of([TOOL])
    assert lineage.add(Datum(provenance_id="p", origin=origin, derived_from=("tool",))).trust == "untrusted"


def test_a_trusted_tool_that_was_given_untrusted_data_answers_untrusted_data() -> None:
    lineage = lineage_of([TOOL])
    alone = Datum(provenance_id="alone", origin="tool_output", source_id="good")
    assert lineage.add(alone) == Label("trusted", ("ada", "bob"))
    fed = msgspec.structs.replace(alone, provenance_id="fed", derived_from=("tool",))
    assert lineage.add(fed) == Label("untrusted", ("ada", "bob"))


def test_what_becomes_known_later_still_counts_for_what_derives_from_it() -> None:
    lineage = lineage_of([summary_of("s", ("late",)), summary_of("t", ("s",))])
    assert lineage.label_of("t") == UNKNOWN
    lineage.add(Datum(provenance_id="late", origin="retrieved", source_id="mail"))
    assert lineage.label_of("t") == Label("untrusted", ("ada",))


def test_what_rests_only_on_itself_stays_unknown() -> None:
    lineage = lineage_of([generated("a", "b"), generated("b", "a"), generated("c", "c")])
    assert {lineage.label_of(name) for name in "abc"} == {UNKNOWN}


def test_a_circle_that_is_closed_later_rests_on_nothing_as_if_it_always_had() -> None:
    lineage = lineage_of([USER, generated("a", "user"), generated("b", "a")])
    assert lineage.label_of("b") == IDENTITY
    lineage.add(generated("user", "b"))
    assert {lineage.label_of(name) for name in ("user", "a", "b")} == {UNKNOWN}


def test_an_id_of_which_two_things_are_said_is_bound_by_both() -> None:
    lineage = lineage_of([USER, summary_of("s", ("user",))])
    assert lineage.label_of("s") == IDENTITY
    lineage.add(Datum(provenance_id="user", origin="external", source_id="mail"))
    assert lineage.label_of("s") == Label("unknown", ("ada",))
    assert lineage.label_of("user") == Label("unknown", ("ada",))


@given(anything(), st.randoms(use_true_random=False))
def test_the_labels_are_one_fixpoint_whatever_the_order(data: list[Datum], order: random.Random) -> None:
    found = labels_of(lineage_of(data), data)
    assert found == repeated(data)
    order.shuffle(data)
    assert found == labels_of(lineage_of(data), data) == repeated(data)


@given(anything())
def test_a_label_is_never_above_its_own_class_nor_above_what_it_derives_from(data: list[Datum]) -> None:
    lineage = lineage_of(data)
    for datum in data:
        label = lineage.label_of(datum.provenance_id)
        assert at_most(label, own(datum))
        assert all(at_most(label, lineage.label_of(name) or UNKNOWN) for name in datum.derived_from)


@given(forward())
def test_a_label_is_the_join_of_the_classes_of_its_whole_lineage(data: list[Datum]) -> None:
    lineage = lineage_of(data)
    classes = {datum.provenance_id: own(datum) for datum in data}
    for datum in data:
        under = closure([datum.provenance_id], lineage.derived_from_of)
        assert lineage.label_of(datum.provenance_id) == join(classes[name] for name in under)


@given(forward(), st.data())
def test_deriving_from_more_never_raises_a_label(data: list[Datum], draw: st.DataObject) -> None:
    changed = draw.draw(st.sampled_from([*range(len(data))]))
    more = draw.draw(st.sampled_from([datum.provenance_id for datum in data[:changed]] or ["nowhere"]))
    # Out of nothing, a generated text is unknown; saying what it rests on is not one more input.
    assume(data[changed].derived_from)
    richer = [*data]
    richer[changed] = msgspec.structs.replace(data[changed], derived_from=(*data[changed].derived_from, more))
    before, after = lineage_of(data), lineage_of(richer)
    assert all(at_most(after.label_of(each.provenance_id), before.label_of(each.provenance_id)) for each in data)


@given(forward(), st.data())
def test_folding_at_once_or_in_stages_gives_one_label(data: list[Datum], draw: st.DataObject) -> None:
    ids = [datum.provenance_id for datum in data]
    cut = draw.draw(st.integers(1, len(ids)))
    lineage = lineage_of(data)
    whole = lineage.add(summary_of("whole", tuple(ids)))
    lineage.add(summary_of("first", tuple(ids[:cut])))
    staged = lineage.add(summary_of("staged", ("first", *ids[cut:])))
    assert staged == whole == join(label for name in ids if (label := lineage.label_of(name)))
    under = closure(["staged"], lineage.derived_from_of) - {"staged", "first"}
    assert under == closure(["whole"], lineage.derived_from_of) - {"whole"} == frozenset(ids)


# lineage and depth


def test_the_lineage_of_a_summary_is_every_id_of_the_folded_entries_once() -> None:
    assert lineage_union([("b", "a"), (), ("a", "c")]) == ("a", "b", "c")
    assert lineage_union([]) == ()


@given(anything(), st.sets(names))
def test_a_closure_holds_its_ids_and_what_those_derive_from_and_is_its_own_closure(
    data: list[Datum], ids: set[str]
) -> None:
    lineage = lineage_of(data)
    found = closure(ids, lineage.derived_from_of)
    assert found >= ids
    assert all(found.issuperset(lineage.derived_from_of(name) or ()) for name in found)
    assert closure(found, lineage.derived_from_of) == found
    assert found == ids.union(*(closure([name], lineage.derived_from_of) for name in ids))


def plain_depth(name: str, under: dict[str, tuple[str, ...]], way: tuple[str, ...] = ()) -> int | None:
    if name not in under or name in way:
        return None
    found = [plain_depth(each, under, (*way, name)) for each in under[name]]
    return None if None in found else max([-1, *(each for each in found if each is not None)]) + 1


@given(anything(), st.lists(names))
def test_a_depth_counts_derivations_and_is_none_where_the_lineage_is_not_known_or_circular(
    data: list[Datum], ids: list[str]
) -> None:
    lineage = lineage_of(data)
    under = {datum.provenance_id: lineage.derived_from_of(datum.provenance_id) or () for datum in data}
    found = depths(ids, lineage.derived_from_of)
    assert found == {name: plain_depth(name, under) for name in closure(ids, lineage.derived_from_of)}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_lineage_5000_deep_is_followed_to_its_end(backwards: bool) -> None:
    deep = 5000
    chain = [TOOL, *(generated(f"p{n}", f"p{n - 1}" if n else "tool") for n in range(deep))]
    if backwards:
        chain.reverse()
    lineage = lineage_of(chain)
    last = f"p{deep - 1}"
    assert lineage.label_of(last) == Label("untrusted")
    assert depths([last], lineage.derived_from_of)[last] == deep
    assert len(closure([last], lineage.derived_from_of)) == deep + 1
    lineage.endorse(endorsement("tool"))
    assert lineage.label_of(last) == IDENTITY


def test_a_fold_of_10000_data_has_the_label_of_the_worst() -> None:
    wide = [Datum(provenance_id=f"p{n:05}", origin="user_input") for n in range(10_000)]
    lineage = lineage_of(wide)
    ids = [datum.provenance_id for datum in wide]
    assert lineage.add(summary_of("clean", tuple(ids))) == IDENTITY
    lineage.add(TOOL)
    assert lineage.add(summary_of("all", tuple(ids), ("tool",))).trust == "untrusted"
    assert depths(["all"], lineage.derived_from_of)["all"] == 1


# endorsement


def endorsement(*ids: str, **more: Any) -> Endorsement:
    stated: dict[str, Any] = {"trust": "trusted", "who": "ada", "why": "read it", "scope": "named", **more}
    return Endorsement(provenance_ids=ids, **stated)


@given(labels, st.sampled_from(["unknown", "trusted"]), st.none() | st.just(()) | st.just(("bob", "ada")))
def test_an_endorsement_raises_both_axes_and_lowers_neither(label: Label, trust: str, readers: Readers) -> None:
    raised = endorsed(label, endorsement("p", trust=trust, readers=readers))
    assert at_most(label, raised)
    assert rank(raised.trust) == max(rank(label.trust), TRUSTS.index(trust))
    kept = endorsed(label, endorsement("p", trust=trust))
    assert kept.readers == label.readers
    assert endorsed(raised, endorsement("p", trust=trust, readers=readers)) == raised
    if readers is None:
        assert raised.readers is None
    elif label.readers is not None:
        assert set(raised.readers or ()) == {*label.readers, *readers}


@given(anything(), st.sets(names, min_size=1), st.randoms(use_true_random=False))
def test_an_endorsement_raises_only_what_it_names_and_what_derives_from_it(
    data: list[Datum], ids: set[str], order: random.Random
) -> None:
    named = tuple(sorted(ids & {datum.provenance_id for datum in data}))
    before, after = lineage_of(data), lineage_of(data)
    after.endorse(endorsement(*named, readers=None))
    for name in {datum.provenance_id for datum in data}:
        one, other = before.label_of(name), after.label_of(name)
        assert at_most(one, other)
        if name in named:
            assert other == IDENTITY
        elif not closure([name], before.derived_from_of) & set(named):
            assert one == other
    # The same as if what is named had come from a user: nothing below it counts any more.
    as_if = [datum for datum in data if datum.provenance_id not in named]
    as_if += [Datum(provenance_id=name, origin="user_input") for name in named]
    order.shuffle(as_if)
    assert labels_of(after, data) == labels_of(lineage_of(as_if), data)


def test_an_endorsement_of_a_summary_leaves_its_sources_as_they_are() -> None:
    lineage = lineage_of([TOOL, summary_of("s", ("tool",)), summary_of("t", ("s",)), summary_of("u", ("tool", "s"))])
    lineage.endorse(endorsement("s"))
    found = {name: label.trust for name in ("tool", "s", "t", "u") if (label := lineage.label_of(name))}
    assert found == {"tool": "untrusted", "s": "trusted", "t": "trusted", "u": "untrusted"}


def test_an_endorsement_breaks_a_circle_that_it_stands_in() -> None:
    lineage = lineage_of([TOOL, generated("a", "b", "tool"), generated("b", "a"), generated("c", "b")])
    assert {lineage.label_of(name) for name in "abc"} == {Label("untrusted")}
    lineage.endorse(endorsement("tool"))
    assert {lineage.label_of(name) for name in "abc"} == {UNKNOWN}
    lineage.endorse(endorsement("a"))
    assert {lineage.label_of(name) for name in "abc"} == {IDENTITY}


@pytest.mark.parametrize("scope", ["named", "session"])
def test_an_endorsement_covers_nothing_that_comes_later_not_even_under_the_same_id(scope: str) -> None:
    lineage = lineage_of([TOOL, summary_of("s", ("tool",))])
    lineage.endorse(endorsement("tool", "s", scope=scope))
    assert lineage.add(TOOL) == IDENTITY, "the same was said again"
    assert lineage.add(Datum(provenance_id="other", origin="tool_output")).trust == "untrusted"
    assert lineage.add(Datum(provenance_id="tool", origin="retrieved")).trust == "untrusted"
    assert lineage.label_of("s") == IDENTITY, "the summary was endorsed itself"


def test_two_endorsements_give_the_higher_whatever_their_order() -> None:
    for order in ((1, 0), (0, 1)):
        lineage = lineage_of([Datum(provenance_id="p", origin="tool_output", source_id="mail")])
        given_ones = (
            endorsement("p", trust="unknown", readers=("bob",)),
            endorsement("p", trust="trusted", readers=("team",)),
        )
        for number in order:
            lineage.endorse(given_ones[number])
        assert lineage.label_of("p") == Label("trusted", ("ada", "bob", "team"))


def test_data_that_are_not_there_cannot_be_endorsed_and_then_nothing_is() -> None:
    lineage = lineage_of([TOOL])
    with pytest.raises(InvalidInput):
        lineage.endorse(endorsement("tool", "later"))
    assert lineage.label_of("tool") == Label("untrusted")


@pytest.mark.parametrize(
    "broken",
    [
        endorsement(),
        endorsement("p", who=" "),
        endorsement("p", why=""),
        endorsement("p", who="x" * 257),
        endorsement("p", why="x" * 4097),
        endorsement("p", readers=("",)),
    ],
)
def test_an_endorsement_without_data_a_person_or_a_reason_is_refused(broken: Endorsement) -> None:
    with pytest.raises(InvalidInput):
        validate_endorsement(broken)


def test_a_secret_in_an_endorsement_is_refused_and_not_repeated() -> None:
    secret = "ghp_" + "a1" * 18
    with pytest.raises(RuleViolation) as refused:
        validate_endorsement(endorsement("p", why=f"because {secret}"))
    assert secret not in str(refused.value.report())
    validate_endorsement(endorsement("p", readers=("ada",)))


# re-grounding


def entry(position: int, trust: str, *origins: Origin) -> Entry:
    return Entry(position, Label(trust), origins)  # type: ignore[arg-type]


def positions(entries: list[Entry], *, strict: bool) -> list[int]:
    return [each.position for each in untrusted_since_grounding(entries, strict=strict)]


SESSION = [
    entry(1, "trusted", "user_input"),
    entry(2, "untrusted", "tool_output"),
    entry(3, "unknown", "agent_generated"),
    entry(4, "trusted", "user_input"),
    entry(5, "trusted", "system"),
    entry(6, "untrusted", "retrieved"),
]


def test_a_user_who_speaks_later_re_grounds_a_session_unless_it_is_strict() -> None:
    assert positions(SESSION[:3], strict=False) == [2, 3]
    assert positions(SESSION[:4], strict=False) == []
    assert positions(SESSION, strict=False) == [6]
    assert positions(SESSION, strict=True) == [2, 3, 6]


@pytest.mark.parametrize(
    "later",
    [
        entry(9, "trusted", "system"),
        entry(9, "trusted", "agent_generated"),
        entry(9, "trusted"),
        entry(9, "untrusted", "user_input", "external"),
        entry(9, "unknown", "user_input"),
    ],
)
def test_no_other_step_re_grounds_a_session(later: Entry) -> None:
    found = positions([SESSION[1], later], strict=False)
    assert found == [2] + [9] * (later.label.trust != "trusted")


entries = st.lists(
    st.builds(Entry, st.integers(), st.builds(Label, st.sampled_from(TRUSTS)), st.lists(st.sampled_from(ORIGINS))),
    max_size=12,
)


@given(entries)
def test_strict_names_every_entry_that_is_not_trusted_and_the_default_the_last_of_them(found: list[Entry]) -> None:
    strict = untrusted_since_grounding(found, strict=True)
    assert strict == tuple(each for each in found if each.label.trust != "trusted")
    default = untrusted_since_grounding(found, strict=False)
    assert default == strict[len(strict) - len(default) :]


@given(entries, entries)
def test_what_lies_before_a_re_grounding_never_counts_again(before: list[Entry], after: list[Entry]) -> None:
    speaks = entry(0, "trusted", "user_input")
    assert untrusted_since_grounding([*before, speaks, *after], strict=False) == untrusted_since_grounding(
        after, strict=False
    )


@given(entries, entries)
def test_an_entry_that_is_not_trusted_counts_until_a_trusted_user_speaks(
    before: list[Entry], after: list[Entry]
) -> None:
    tainted = entry(-1, "untrusted", "tool_output")
    found = untrusted_since_grounding([*before, tainted, *after], strict=False)
    spoken = any(each.label.trust == "trusted" and "user_input" in each.origins for each in after)
    assert (id(tainted) in map(id, found)) != spoken


@given(entries, st.sets(st.integers(0, 11)))
def test_under_strict_raising_some_entries_takes_those_off_the_list_and_no_other(
    found: list[Entry], raised: set[int]
) -> None:
    numbered = [each._replace(position=number) for number, each in enumerate(found)]
    after = [each._replace(label=IDENTITY) if each.position in raised else each for each in numbered]
    listed = {each.position for each in untrusted_since_grounding(numbered, strict=True)}
    assert {each.position for each in untrusted_since_grounding(after, strict=True)} == listed - raised


# summaries

REGION = [
    Step("s1", (USER,)),
    Step("s2", (TOOL, Datum(provenance_id="tool2", origin="tool_output"))),
    Step("s3", ()),
    Step("s4", (generated("g", "tool", "user"), Datum(provenance_id="tool3", origin="tool_output"))),
]


def depth_in(region: list[Step]) -> Any:
    lineage = lineage_of([datum for step in region for datum in step.data])
    return lambda name: depths([name], lineage.derived_from_of)[name]


def test_the_facts_of_a_region_are_counted_over_its_steps_or_over_its_data() -> None:
    facts = {
        "origins_seen": ["user_input", "tool_output", "agent_generated"],
        "earliest_step_id_by_origin": {"user_input": "s1", "tool_output": "s2", "agent_generated": "s4"},
        "max_lineage_depth": 1,
    }
    steps = {"user_input": 1, "tool_output": 2, "agent_generated": 1}
    assert summarize(REGION, depth_in(REGION)) == {**facts, "entry_count": 4, "entry_count_by_origin": steps}
    assert summarize(REGION, depth_in(REGION), counting="data") == {
        **facts,
        "entry_count": 5,
        "entry_count_by_origin": {**steps, "tool_output": 3},
    }


def test_the_depth_of_a_region_is_left_out_where_any_of_it_is_not_known() -> None:
    region = [*REGION, Step("s5", (generated("h", "nowhere"),))]
    assert "max_lineage_depth" not in summarize(region, depth_in(region))
    assert "max_lineage_depth" not in summarize([Step("s3", ())], depth_in([]))


READINGS = (summarize(REGION, depth_in(REGION)), summarize(REGION, depth_in(REGION), counting="data"))


@pytest.mark.parametrize("reading", READINGS)
def test_a_client_that_says_what_we_computed_disagrees_in_nothing(reading: dict[str, Any]) -> None:
    assert disagreements(reading, *READINGS) == ()
    assert disagreements({**reading, "origins_seen": reading["origins_seen"][::-1]}, *READINGS) == ()
    counts = {**reading["entry_count_by_origin"], "system": 0}
    assert disagreements({"entry_count_by_origin": counts}, *READINGS) == ()
    earliest = {origin: step.upper() for origin, step in reading["earliest_step_id_by_origin"].items()}
    assert disagreements({"earliest_step_id_by_origin": earliest}, *READINGS) == ()
    for name, value in reading.items():
        assert disagreements({name: value}, *READINGS) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origins_seen", ["user_input", "agent_generated"]),
        ("origins_seen", []),
        ("entry_count", 3),
        ("entry_count", 0),
        ("entry_count_by_origin", {"user_input": 1}),
        ("entry_count_by_origin", {"user_input": 1, "tool_output": 1, "agent_generated": 1}),
        ("earliest_step_id_by_origin", {"user_input": "s1", "tool_output": "s4", "agent_generated": "s4"}),
        ("max_lineage_depth", 0),
    ],
)
def test_each_member_that_a_client_states_otherwise_is_named(name: str, value: object) -> None:
    assert disagreements({name: value}, *READINGS) == (name,)
    assert disagreements({**READINGS[0], name: value}, *READINGS) == (name,)


def test_nothing_is_said_of_members_that_nobody_stated_or_computed() -> None:
    assert disagreements({}, *READINGS) == ()
    assert disagreements({"max_lineage_depth": 9, "vendor": [{}]}, {"entry_count": 1}) == ()
