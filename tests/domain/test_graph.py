"""What a work item stands on, what waits for it, and where the graph is broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from awr.domain.graph import Closure, Link, closure_of
from awr.domain.work import Dependency, WorkItem


def items(**needs: str) -> dict[str, WorkItem]:
    return {
        key: WorkItem(
            external_key=key,
            title=key,
            status="planned",
            line=1,
            depends_on=tuple(Dependency(each.rstrip("?"), not each.endswith("?")) for each in stated.split()),
        )
        for key, stated in needs.items()
    }


def closure(graph: dict[str, WorkItem], *roots: str) -> Closure:
    return closure_of(graph, roots=roots)


def test_a_root_brings_its_dependents_and_what_they_all_require() -> None:
    graph = items(a="", b="a", c="b d", d="", e="d", f="")
    found = closure(graph, "b")
    assert found.keys == ("a", "b", "c", "d")
    assert found.affected == ("c",)
    assert found.links == (Link("b", "a", True), Link("c", "b", True), Link("c", "d", True))


def test_an_optional_dependency_pulls_nothing_in_and_is_drawn_between_what_is_there() -> None:
    graph = items(a="", b="a?", c="a b?")
    assert closure(graph, "b").keys == ("b",)
    assert closure(graph, "b", "a").links == (Link("b", "a", False), Link("c", "a", True), Link("c", "b", False))


def test_a_missing_reference_is_named_with_who_needs_it() -> None:
    found = closure(items(a="gone other?", b="a"), "b")
    assert found.missing == (Link("a", "gone", True),)
    assert found.keys == ("a", "b")


def test_every_circle_is_named_once_in_its_own_order() -> None:
    graph = items(a="b", b="c", c="a", d="d", e="a", x="y", y="x")
    assert closure(graph, *graph).cycles == (("a", "b", "c"), ("d",), ("x", "y"))


def test_the_shortest_circle_of_a_knot_is_drawn() -> None:
    graph = items(a="b c", b="c", c="a")
    assert closure(graph, "a").cycles == (("a", "c"),)


def test_a_root_in_a_circle_is_not_affected_by_itself() -> None:
    found = closure(items(a="b", b="a"), "a")
    assert found.affected == ("b",)


def test_a_chain_longer_than_pythons_stack_is_walked() -> None:
    graph = items(**{f"k{n:05}": f"k{n + 1:05}" if n < 19_999 else "k00000" for n in range(20_000)})
    found = closure(graph, "k00000")
    assert len(found.keys) == 20_000
    assert len(found.cycles[0]) == 20_000


names = st.sampled_from("abcdefgh")


@given(st.dictionaries(names, st.lists(names, max_size=4, unique=True), max_size=8), st.data())
def test_the_closure_is_closed_and_its_circles_are_real(needs: dict[str, list[str]], data: st.DataObject) -> None:
    graph = items(**{key: " ".join(targets) for key, targets in needs.items()})
    roots = data.draw(st.lists(st.sampled_from(sorted(graph)), unique=True)) if graph else []
    found = closure(graph, *roots)
    assert set(roots) | set(found.affected) <= set(found.keys)
    for key in found.keys:
        for target in needs[key]:
            assert Link(key, target, True) in found.links
            assert target in found.keys or target not in graph
    for key, targets in needs.items():
        if set(targets) & (set(roots) | set(found.affected)):
            assert key in {*found.affected, *roots}
    for circle in found.cycles:
        for key, target in zip(circle, (*circle[1:], circle[0]), strict=True):
            assert target in needs[key]
    assert bool(found.cycles) == _has_circle({key: needs[key] for key in found.keys})


def _has_circle(needs: dict[str, list[str]]) -> bool:
    left = dict(needs)
    while free := [key for key, targets in left.items() if not set(targets) & left.keys()]:
        for key in free:
            del left[key]
    return bool(left)
