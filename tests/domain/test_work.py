"""Readiness says every reason, follows only open required dependencies, and never recurses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.work import (
    STATUSES,
    Dependency,
    Diagnostic,
    Freshness,
    Status,
    WorkItem,
    claim_readiness,
    readiness,
)


def item(
    key: str,
    *needs: str,
    status: Status = "planned",
    optional: tuple[str, ...] = (),
    blocker: str | None = None,
    archived: bool = False,
) -> WorkItem:
    return WorkItem(
        external_key=key,
        title=key,
        status=status,
        line=1,
        blocker=blocker,
        archived=archived,
        depends_on=tuple(Dependency(need) for need in needs)
        + tuple(Dependency(need, required=False) for need in optional),
    )


def diagnose(
    *items: WorkItem,
    claims: frozenset[str] = frozenset(),
    freshness: dict[str, Freshness] | None = None,
    claim: bool = False,
) -> list[tuple[str, str]]:
    """Diagnose the first item against all of them."""
    states = freshness or {}
    known = {each.external_key: each for each in items}
    rule = claim_readiness if claim else readiness
    found: tuple[Diagnostic, ...] = rule(
        items[0],
        lookup=known.get,
        active_claims=claims,
        freshness=lambda key: states.get(key, "fresh"),
    )
    return [(each.code, each.work_item_key) for each in found]


def test_planned_and_ready_work_without_obstacles_is_ready() -> None:
    assert diagnose(item("w", status="planned")) == []
    assert diagnose(item("w", status="ready")) == []


def test_every_other_known_status_is_not_selectable() -> None:
    others: tuple[Status, ...] = ("draft", "claimed", "in_progress", "blocked", "completed", "cancelled")
    for status in others:
        assert diagnose(item("w", status=status)) == [("status_not_selectable", "w")]
    assert {*others, "planned", "ready"} == STATUSES


def test_claimed_and_in_progress_work_may_be_claimed_but_is_not_ready() -> None:
    for status in ("claimed", "in_progress"):
        assert diagnose(item("w", status=status), claim=True) == []
    assert diagnose(item("w", status="blocked"), claim=True) == [("status_not_selectable", "w")]


def test_unknown_status_has_its_own_code() -> None:
    assert diagnose(item("w", status="unknown")) == [("unknown_status", "w")]
    assert diagnose(item("w", status="unknown"), claim=True) == [("unknown_status", "w")]


def test_archived_work_is_not_selectable() -> None:
    assert diagnose(item("w", archived=True)) == [("status_not_selectable", "w")]


def test_a_named_blocker_is_reported_and_a_blank_one_is_not() -> None:
    assert diagnose(item("w", blocker="no access")) == [("active_blocker", "w")]
    assert diagnose(item("w", blocker="  ")) == []


def test_blocker_text_is_not_repeated_in_the_detail() -> None:
    blocked = item("w", blocker="waits for zebra")
    (found,) = readiness(blocked, lookup=lambda _: None, active_claims=(), freshness=lambda _: "fresh")
    assert "zebra" not in found.detail


def test_stale_or_unavailable_source_is_reported() -> None:
    assert diagnose(item("w"), freshness={"w": "stale"}) == [("source_not_fresh", "w")]
    assert diagnose(item("w"), freshness={"w": "unavailable"}) == [("source_not_fresh", "w")]


def test_stale_source_of_a_completed_dependency_is_reported() -> None:
    done = item("d", status="completed")
    assert diagnose(item("w", "d"), done, freshness={"d": "stale"}) == [("source_not_fresh", "d")]


def test_live_claim_is_reported() -> None:
    assert diagnose(item("w"), claims=frozenset({"w"})) == [("active_claim", "w")]
    assert diagnose(item("w"), claims=frozenset({"other"})) == []


def test_open_and_cancelled_dependencies_block_and_completed_ones_do_not() -> None:
    assert diagnose(item("w", "d"), item("d")) == [("dependency_not_completed", "d")]
    assert diagnose(item("w", "d"), item("d", status="cancelled")) == [("dependency_not_completed", "d")]
    assert diagnose(item("w", "d"), item("d", status="completed")) == []


def test_missing_dependency_is_reported_at_any_open_depth() -> None:
    assert diagnose(item("w", "d")) == [("missing_dependency", "d")]
    assert diagnose(item("w", "d"), item("d", "gone")) == [
        ("missing_dependency", "gone"),
        ("dependency_not_completed", "d"),
    ]


def test_what_lies_behind_a_completed_dependency_does_not_matter() -> None:
    assert diagnose(item("w", "d"), item("d", "gone", "w", status="completed")) == []


def test_optional_dependencies_never_block() -> None:
    assert diagnose(item("w", optional=("gone", "d")), item("d")) == []


def test_self_dependency_is_a_cycle_and_nothing_else() -> None:
    assert diagnose(item("w", "w")) == [("dependency_cycle", "w")]


def test_cycle_further_down_is_found_and_drawn() -> None:
    items = (item("w", "a"), item("a", "b"), item("b", "a"))
    assert diagnose(*items) == [("dependency_cycle", "a"), ("dependency_not_completed", "a")]
    known = {each.external_key: each for each in items}
    first = readiness(items[0], lookup=known.get, active_claims=(), freshness=lambda _: "fresh")[0]
    assert first.detail.endswith("a -> b -> a")


def test_diamond_is_not_a_cycle() -> None:
    items = (item("w", "a", "b"), item("a", "c"), item("b", "c"), item("c"))
    assert [code for code, _ in diagnose(*items)] == ["dependency_not_completed"] * 2


def test_optional_edge_does_not_close_a_cycle() -> None:
    codes = [code for code, _ in diagnose(item("w", "a"), item("a", optional=("w",)))]
    assert codes == ["dependency_not_completed"]


def test_chain_of_fifteen_thousand_open_items_is_walked_without_recursion() -> None:
    length = 15_000
    chain = [item(f"t{n}", f"t{n + 1}") for n in range(length)]
    assert diagnose(*chain, item(f"t{length}")) == [("dependency_not_completed", "t1")]
    ring = [*chain, item(f"t{length}", "t0")]
    assert diagnose(*ring)[0] == ("dependency_cycle", "t0")


def test_long_cycle_is_drawn_shortened() -> None:
    ring = [item(f"t{n}", f"t{(n + 1) % 40}") for n in range(40)]
    known = {each.external_key: each for each in ring}
    first = readiness(ring[0], lookup=known.get, active_claims=(), freshness=lambda _: "fresh")[0]
    assert "(32 more)" in first.detail


def test_only_the_open_closure_is_looked_up() -> None:
    known = {
        each.external_key: each
        for each in (item("w", "a"), item("a", status="completed"), item("far"), item("away", "far"))
    }
    asked: list[str] = []

    def lookup(key: str) -> WorkItem | None:
        asked.append(key)
        return known.get(key)

    readiness(known["w"], lookup=lookup, active_claims=(), freshness=lambda _: "fresh")
    assert set(asked) == {"a"}


@pytest.mark.parametrize("end", ["open", "missing", "circle"])
def test_shared_known_faults_make_a_whole_chain_cost_one_walk(end: str) -> None:
    length = 15_000
    known = {f"t{n}": item(f"t{n}", f"t{n + 1}") for n in range(length)}
    if end != "missing":
        known[f"t{length}"] = item(f"t{length}", *(["t0"] if end == "circle" else []))
    asked = 0

    def lookup(key: str) -> WorkItem | None:
        nonlocal asked
        asked += 1
        return known.get(key)

    faults: dict[str, tuple[Diagnostic, ...]] = {}
    for each in known.values():
        found = readiness(each, lookup=lookup, active_claims=(), freshness=lambda _: "fresh", known_faults=faults)
        codes = [diagnostic.code for diagnostic in found]
        assert ("missing_dependency" in codes) == (end == "missing")
        assert ("dependency_cycle" in codes) == (end == "circle")
    assert asked <= 3 * length


def test_component_with_many_circles_is_reported_once() -> None:
    items = [item(f"t{n}", *(f"t{m}" for m in range(30) if m != n)) for n in range(30)]
    assert [code for code, _ in diagnose(*items)].count("dependency_cycle") == 1


graphs = st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefg"), max_size=4), min_size=1)


@given(graphs, st.sampled_from("abcdef"))
def test_cycles_and_missing_keys_agree_with_a_plain_closure(graph: dict[str, list[str]], start: str) -> None:
    graph.setdefault(start, [])
    reached, frontier = {start}, [start]
    while frontier:
        for key in graph.get(frontier.pop(), []):
            if key not in reached:
                reached.add(key)
                frontier.append(key)

    def returns(key: str) -> bool:
        seen, todo = set[str](), list(graph.get(key, []))
        while todo:
            here = todo.pop()
            if here == key:
                return True
            if here not in seen:
                seen.add(here)
                todo.extend(graph.get(here, []))
        return False

    ordered = [start, *(key for key in graph if key != start)]
    found = diagnose(*(item(key, *graph[key]) for key in ordered))
    assert {key for code, key in found if code == "missing_dependency"} == reached - graph.keys()
    assert any(code == "dependency_cycle" for code, _ in found) == any(returns(key) for key in reached)


@given(graphs)
def test_shared_known_faults_hide_no_fault_and_invent_none(graph: dict[str, list[str]]) -> None:
    known = {key: item(key, *needs) for key, needs in graph.items()}
    shared: dict[str, tuple[Diagnostic, ...]] = {}

    def faults(each: WorkItem, faults_so_far: dict[str, tuple[Diagnostic, ...]] | None) -> set[str]:
        found = readiness(
            each, lookup=known.get, active_claims=(), freshness=lambda _: "fresh", known_faults=faults_so_far
        )
        # A circle may be drawn from another of its members; a missing key may not differ.
        return {
            fault.code if fault.code == "dependency_cycle" else f"{fault.code} {fault.work_item_key}"
            for fault in found
        }

    for each in known.values():
        assert faults(each, shared) == faults(each, None)
