"""The graph of required dependencies: what a work item stands on, what waits for it, and where it is broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import msgspec

from awr.domain.work import WorkItem

__all__ = ["Closure", "Link", "closure_of"]


class Link(msgspec.Struct, frozen=True):
    """One stated dependency: `source` depends on `target`."""

    source: str
    target: str
    required: bool


class Closure(msgspec.Struct, frozen=True):
    """Some work with everything it needs and everything that needs it. All keys are sorted.

    `affected` has what depends on a root, directly or not. `missing` has required links to keys that no source
    names. Each of `cycles` is one circle of required dependencies, in the order they depend on each other.
    """

    keys: tuple[str, ...]
    affected: tuple[str, ...]
    links: tuple[Link, ...]
    missing: tuple[Link, ...]
    cycles: tuple[tuple[str, ...], ...]


def closure_of(items: Mapping[str, WorkItem], *, roots: Iterable[str]) -> Closure:
    """Return the closure of known roots: their dependents, and the required ancestors of them all."""
    needed_by: dict[str, list[str]] = {}
    for key, item in items.items():
        for dependency in item.depends_on:
            if dependency.required:
                needed_by.setdefault(dependency.key, []).append(key)
    starts = set(roots)
    dependents = _reached(starts, needed_by)
    needs = {key: [each.key for each in item.depends_on if each.required] for key, item in items.items()}
    keys = {key for key in _reached(starts | dependents, needs) | starts | dependents if key in items}
    links = [
        Link(key, dependency.key, dependency.required)
        for key in sorted(keys)
        for dependency in items[key].depends_on
        if dependency.key in keys or (dependency.required and dependency.key not in items)
    ]
    return Closure(
        keys=tuple(sorted(keys)),
        affected=tuple(sorted(dependents - starts)),
        links=tuple(links),
        missing=tuple(link for link in links if link.target not in items),
        cycles=_cycles({key: [target for target in needs[key] if target in keys] for key in sorted(keys)}),
    )


def _reached(starts: set[str], following: Mapping[str, list[str]], *, outside: Set[str] = frozenset()) -> set[str]:
    """Return what can be reached from the starts outside of a set; a start only where a way leads back to it."""
    found: set[str] = set()
    pending = sorted(starts)
    while pending:
        for key in following.get(pending.pop(), ()):
            if key not in found and key not in outside:
                found.add(key)
                pending.append(key)
    return found


def _cycles(needs: Mapping[str, list[str]]) -> tuple[tuple[str, ...], ...]:
    """Return one circle for each strongly connected component that has one, by their first keys."""
    found = []
    for component in _components(needs):
        start = min(component)
        if len(component) > 1 or start in needs[start]:
            found.append(_circle(start, component, needs))
    return tuple(sorted(found))


def _circle(start: str, component: set[str], needs: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return a shortest way from `start` back to itself within its component."""
    came_from: dict[str, str] = {}
    frontier = [start]
    while start not in came_from:
        following = []
        for key in frontier:
            for target in needs[key]:
                if target in component and target not in came_from:
                    came_from[target] = key
                    following.append(target)
        frontier = following
    way = [came_from[start]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))


def _components(needs: Mapping[str, list[str]]) -> list[set[str]]:
    """Return the strongly connected components: two passes with own stacks, because a chain may be long."""
    order: list[str] = []
    seen: set[str] = set()
    for first in needs:
        if first in seen:
            continue
        seen.add(first)
        path = [(first, iter(needs[first]))]
        while path:
            key, targets = path[-1]
            target = next((each for each in targets if each not in seen), None)
            if target is None:
                order.append(key)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(needs[target])))
    needed_by: dict[str, list[str]] = {key: [] for key in needs}
    for key in needs:
        for target in needs[key]:
            needed_by[target].append(key)
    components: list[set[str]] = []
    placed: set[str] = set()
    for first in reversed(order):
        if first in placed:
            continue
        component = {first} | _reached({first}, needed_by, outside=placed)
        placed |= component
        components.append(component)
    return components
