"""What data were made of, and what follows for their labels: lineage is closed under folding, and trust only falls.

The label of a piece of data is the join of its own class and of all that it derives from. Only an endorsement of the
operator's raises one, and then whatever derives from it is worked out again.

Re-grounding is the answer to "has a person spoken since?". By default, a later step in which a trusted user speaks
re-grounds the session: the person was there, and the work goes on. It changes no label: untrusted data stay untrusted
in every lineage. Under `strict` no step re-grounds, and only an endorsement takes an entry off the list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from awr.domain.provenance import UNKNOWN, Label, Origin, Readers, TrustMap, join, rank
from awr.domain.secrets import refuse_secrets
from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = [
    "Datum",
    "Endorsement",
    "Entry",
    "Lineage",
    "Step",
    "closure",
    "depths",
    "disagreements",
    "effective",
    "endorsed",
    "lineage_union",
    "summarize",
    "untrusted_since_grounding",
    "validate_endorsement",
]

MAX_WHO_BYTES = 256
MAX_WHY_BYTES = 4096

LabelOf = Callable[[str], Label | None]
DerivedFromOf = Callable[[str], tuple[str, ...] | None]


class Datum(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one piece of data: its id in the session, its channel, and the ids that it was made of."""

    provenance_id: str
    origin: Origin
    source_id: str | None = None
    derived_from: tuple[str, ...] = ()


class Endorsement(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's word that named data may be trusted more, or read by more, than their lineage says.

    It names the data one by one, whatever was asked for. `scope` says what was: `session` is all that the session
    held at that moment, `named` is a choice. What comes later is never covered, not even under the same id. Readers
    that are not set stay as they are; None lets everyone read, and others are added to those who may.
    """

    provenance_ids: tuple[str, ...]
    trust: Literal["unknown", "trusted"]
    who: str
    why: str
    scope: Literal["session", "named"]
    readers: Readers | msgspec.UnsetType = msgspec.UNSET


class Entry(NamedTuple):
    """One step of a session in its order, with the join of its data's labels and the origins that came in with it.

    `origins` are those of data that the step brought in. An argument of a tool call may repeat a user's words, and no
    user speaks with it: leave it out, or any call would re-ground the session.
    """

    position: int
    label: Label
    origins: tuple[Origin, ...]


class Step(NamedTuple):
    """One step of a region with the data that it carries."""

    step_id: str
    data: tuple[Datum, ...]


def effective(datum: Datum, label_of: LabelOf, *, trust_map: TrustMap) -> Label:
    """Return the label of a piece of data: its own class joined with all that it derives from.

    What derives from something that nobody knows joins unknown, and so does what an agent generated out of nothing
    that it names. It never exceeds the lowest of its lineage, whatever the origin.
    """
    own = trust_map.classify(datum.origin, datum.source_id, derived=bool(datum.derived_from)).label
    return join([own, *(label_of(name) or UNKNOWN for name in datum.derived_from)])


def endorsed(label: Label, endorsement: Endorsement) -> Label:
    """Return a label as an endorsement raises it. One that allows more already stays as it is."""
    readers = label.readers
    if not isinstance(endorsement.readers, msgspec.UnsetType) and readers is not None:
        readers = None if endorsement.readers is None else (*readers, *endorsement.readers)
    return Label(max(label.trust, endorsement.trust, key=rank), readers)


def validate_endorsement(endorsement: Endorsement) -> None:
    """Raise InvalidInput for an endorsement that names nothing or nobody, RuleViolation for one with a secret."""
    if not endorsement.provenance_ids:
        raise InvalidInput(
            "an endorsement names the data that it raises",
            got="none",
            expected="at least one provenance id",
            next_step="name the data that were looked at",
        )
    bounded_text("who", endorsement.who, limit=MAX_WHO_BYTES)
    bounded_text("why", endorsement.why, limit=MAX_WHY_BYTES)
    for reader in endorsement.readers or ():
        bounded_text("a reader", reader, limit=MAX_WHO_BYTES)
    refuse_secrets(endorsement, what="an endorsement")


class Lineage:
    """The data of one session and their labels, whatever the order in which they become known.

    A label is the one fixpoint of `effective` that starts from nothing known, so that what rests only on itself stays
    unknown. An id of which several things are said is bound by each of them. Give data and endorsements in the order
    of the record: an endorsement covers what was said before it.
    """

    def __init__(self, trust_map: TrustMap) -> None:
        self.trust_map = trust_map
        self._said: dict[str, dict[Datum, list[Endorsement]]] = {}
        self._numbers: dict[str, int] = {}
        self._deriving: dict[str, list[str]] = {}
        self._labels: dict[str, Label] = {}

    def add(self, datum: Datum) -> Label:
        """Take in what is said of a piece of data. Return its label."""
        said = self._said.setdefault(datum.provenance_id, {})
        self._numbers.setdefault(datum.provenance_id, len(self._numbers))
        if datum not in said:
            said[datum] = []
            for name in datum.derived_from:
                self._deriving.setdefault(name, []).append(datum.provenance_id)
            if len(said) > 1:
                self._work_out_again([datum.provenance_id])
            else:
                # Until now it was unknown, which is where the search for the fixpoint starts: it goes on from here.
                self._work_out([datum.provenance_id])
        return self._labels[datum.provenance_id]

    def endorse(self, endorsement: Endorsement) -> None:
        """Raise what is named and work out what derives from it. Raise InvalidInput for data that are not there."""
        unknown = [name for name in endorsement.provenance_ids if name not in self._said]
        if unknown:
            raise InvalidInput(
                "an endorsement names data that the session does not have",
                got=f"{len(unknown)} unknown ids",
                expected="provenance ids of the session",
                next_step="name data that the session has already recorded",
            )
        for name in endorsement.provenance_ids:
            for covering in self._said[name].values():
                covering.append(endorsement)
        self._work_out_again(endorsement.provenance_ids)

    def datum_of(self, provenance_id: str) -> Datum | None:
        """Return what was first said of a piece of data, or None when nothing is."""
        said = self._said.get(provenance_id)
        return None if said is None else next(iter(said))

    def label_of(self, provenance_id: str) -> Label | None:
        """Return the effective label of a piece of data, or None when nothing is said of it."""
        return self._labels.get(provenance_id)

    def derived_from_of(self, provenance_id: str) -> tuple[str, ...] | None:
        """Return all that a piece of data is said to derive from, or None when nothing is said of it."""
        said = self._said.get(provenance_id)
        if said is None or len(said) == 1:
            return None if said is None else next(iter(said)).derived_from
        return lineage_union(datum.derived_from for datum in said)

    def _work_out_again(self, changed: Iterable[str]) -> None:
        """Forget the labels of what changed and of all that derives from it, and find them again."""
        affected = closure(changed, lambda name: tuple(self._deriving.get(name, ())))
        for name in affected:
            del self._labels[name]
        # In the order in which they became known, most are worked out once, after what they rest on.
        self._work_out(sorted(affected, key=self._numbers.__getitem__))

    def _work_out(self, names: Iterable[str]) -> None:
        """Find the labels of these, and go on to what derives from them as long as a label changes."""
        pending = deque(names)
        waiting = set(pending)
        while pending:
            name = pending.popleft()
            waiting.discard(name)
            label = join(self._labels_said(name))
            if label == self._labels.get(name):
                continue
            self._labels[name] = label
            for following in self._deriving.get(name, ()):
                if following not in waiting:
                    waiting.add(following)
                    pending.append(following)

    def _labels_said(self, provenance_id: str) -> Iterable[Label]:
        for datum, covering in self._said[provenance_id].items():
            label = effective(datum, self.label_of, trust_map=self.trust_map)
            for endorsement in covering:
                label = endorsed(label, endorsement)
            yield label


def lineage_union(entries: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the lineage of what entries are folded into: all their provenance ids, in order, each once."""
    return tuple(sorted({name for names in entries for name in names}))


def closure(ids: Iterable[str], derived_from_of: DerivedFromOf) -> frozenset[str]:
    """Return these and all that they derive from, however far back; a name that nothing is said of is one too."""
    found = set(ids)
    pending = list(found)
    while pending:
        for name in derived_from_of(pending.pop()) or ():
            if name not in found:
                found.add(name)
                pending.append(name)
    return frozenset(found)


def depths(ids: Iterable[str], derived_from_of: DerivedFromOf) -> dict[str, int | None]:
    """Return how many derivations lie under each of these and under all that they derive from.

    It is None where a part of the lineage is not known, or leads back to itself.
    """
    found: dict[str, int | None] = {}
    opened: set[str] = set()
    for start in ids:
        path = [] if start in found else [start]
        while path:
            name = path[-1]
            under = derived_from_of(name)
            if name in found:
                path.pop()
            elif not under:
                found[path.pop()] = None if under is None else 0
            elif name not in opened:
                opened.add(name)
                path += [each for each in under if each not in found]
            else:
                # What is still not found under it is where the lineage leads back to itself.
                reached = [depth for each in under if (depth := found.get(each)) is not None]
                found[path.pop()] = None if len(reached) < len(under) else max(reached) + 1
    return found


def untrusted_since_grounding(entries: Iterable[Entry], *, strict: bool) -> tuple[Entry, ...]:
    """Return the entries, in their order, that are not trusted and came after the last re-grounding.

    A step re-grounds when a user speaks with it and all of it is trusted: a message with a stranger's text in it, or
    a user whom the operator's map does not trust, does not. Under `strict` no step does.
    """
    found: list[Entry] = []
    for entry in entries:
        if entry.label.trust != "trusted":
            found.append(entry)
        elif not strict and "user_input" in entry.origins:
            found.clear()
    return tuple(found)


def summarize(
    steps: Iterable[Step],
    depth_of: Callable[[str], int | None],
    *,
    counting: Literal["steps", "data"] = "steps",
) -> dict[str, Any]:
    """Return the facts of a region, under the standard's names, for its steps in their order.

    The standard counts entries over a session and provenance objects in an entry, and leaves open which in a region.
    `max_lineage_depth` is left out where a depth is not known, and where there are no data.
    """
    by_origin: dict[Origin, int] = {}
    earliest: dict[Origin, str] = {}
    counted: dict[Origin, int] = {}
    steps_seen = data_seen = 0
    deepest: int | None = -1
    for step_id, data in steps:
        steps_seen += 1
        for datum in data:
            data_seen += 1
            origin = datum.origin
            if origin not in earliest:
                earliest[origin] = step_id
                by_origin[origin] = 1
            elif counting == "data" or counted[origin] != steps_seen:
                by_origin[origin] += 1
            counted[origin] = steps_seen
            if deepest is not None:
                depth = depth_of(datum.provenance_id)
                if depth is None or depth > deepest:
                    deepest = depth
    summary: dict[str, Any] = {
        "origins_seen": list(by_origin),
        "entry_count": data_seen if counting == "data" else steps_seen,
        "entry_count_by_origin": by_origin,
        "earliest_step_id_by_origin": earliest,
    }
    if deepest is not None and data_seen:
        summary["max_lineage_depth"] = deepest
    return summary


def disagreements(stated: Mapping[str, Any], *computed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members that a client states and that no way to count comes to, in order.

    Nothing is said of a member that was not stated, or that could not be computed.
    """
    return tuple(
        sorted(
            name
            for name, value in stated.items()
            if any(name in each for each in computed)
            and all(_comparable(value) != _comparable(each[name]) for each in computed if name in each)
        )
    )


def _comparable(value: Any) -> Any:
    """Return a member so that order, a count of none and the case of a step's id make no difference."""
    if isinstance(value, Mapping):
        return {key: _comparable(each) for key, each in value.items() if each != 0}
    if isinstance(value, list | tuple):
        return frozenset(value)
    return value.lower() if isinstance(value, str) else value
