"""Where data came from, how far it may be trusted, who may read it, and the operator's map that says so.

A label has two axes: integrity (trust) and confidentiality (readers). Labels form a lattice: joining two gives what
holds for something made of both, so trust takes the lower and readers those of both. Nothing here raises a label
except an override of the operator's on a channel; what happens to a label along a lineage is in `lineage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.secrets import find_secret
from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = [
    "DEFAULTS",
    "IDENTITY",
    "MAX_SOURCE_ID",
    "ORIGINS",
    "TRUSTS",
    "UNKNOWN",
    "Classified",
    "Label",
    "Origin",
    "Readers",
    "Trust",
    "TrustMap",
    "TrustRule",
    "common_readers",
    "join",
    "rank",
]

Origin = Literal["user_input", "system", "tool_output", "retrieved", "agent_generated", "a2a_inbound", "external"]
ORIGINS: tuple[Origin, ...] = (
    "user_input",
    "system",
    "tool_output",
    "retrieved",
    "agent_generated",
    "a2a_inbound",
    "external",
)

Trust = Literal["untrusted", "unknown", "trusted"]
#: Lowest first.
TRUSTS: tuple[Trust, ...] = ("untrusted", "unknown", "trusted")
_RANK: dict[Trust, int] = {trust: number for number, trust in enumerate(TRUSTS)}

#: Principals in order, each once; None is everyone, and an empty one is nobody.
Readers = tuple[str, ...] | None

#: The standard's own map (specification, section 7.2). What an agent writes has the trust of what it rests on; of
#: what says nothing about that, nothing is known.
DEFAULTS: dict[Origin, Trust] = {
    "user_input": "trusted",
    "system": "trusted",
    "tool_output": "untrusted",
    "retrieved": "untrusted",
    "agent_generated": "unknown",
    "a2a_inbound": "untrusted",
    "external": "untrusted",
}

#: A longer source id is kept as its hash, so a longer rule would never meet one.
MAX_SOURCE_ID = 256
MAX_READER_BYTES = 256
#: Classes that are kept, because a session's data come from few places. A client chooses source ids, so not more.
KEPT_CLASSES = 4096


class Label(msgspec.Struct, frozen=True):
    """What holds for a piece of data. `readers` is put in order, each once."""

    trust: Trust
    readers: Readers = None

    def __post_init__(self) -> None:
        if self.readers is not None:
            msgspec.structs.force_setattr(self, "readers", _ordered(self.readers))


#: Joins with any label to that label.
IDENTITY = Label("trusted")
#: What is known of data of which nothing is known. It restricts no reader, because nobody named any.
UNKNOWN = Label("unknown")


def rank(trust: Trust) -> int:
    """Return the place of a trust among all, 0 for the lowest."""
    return _RANK[trust]


def join(labels: Iterable[Label]) -> Label:
    """Return the label of what is made of all of these: the lowest trust, and the readers of every one.

    Of no labels it is the identity, which says trusted: whoever asks about an empty lineage asks `effective` instead.
    """
    found = IDENTITY
    for label in labels:
        if label is found or label is IDENTITY:
            continue
        trust = label.trust if _RANK[label.trust] < _RANK[found.trust] else found.trust
        readers = common_readers(found.readers, label.readers)
        if trust != found.trust or readers != found.readers:
            found = label if (trust, readers) == (label.trust, label.readers) else Label(trust, readers)
    return found


def common_readers(one: Readers, other: Readers) -> Readers:
    """Return who may read both."""
    if one is None or other is None or one is other:
        return other if one is None else one
    return tuple(sorted(set(one) & set(other)))


class TrustRule(msgspec.Struct, frozen=True, kw_only=True):
    """One override of the operator's: about an origin, a source, or both; None is any.

    `source_id` is exact, or a beginning that ends in `*`; data without a source id match only a rule without one.
    `readers` that are not set say nothing, and None says everyone.
    """

    origin: Origin | None = None
    source_id: str | None = None
    trust: Trust | None = None
    readers: Readers | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if isinstance(self.readers, tuple):
            msgspec.structs.force_setattr(self, "readers", _ordered(self.readers))

    def matches(self, origin: Origin, source_id: str | None) -> bool:
        """Tell whether the rule is about data of this channel."""
        if self.origin not in {None, origin}:
            return False
        if self.source_id is None:
            return True
        if source_id is None:
            return False
        if self.source_id.endswith("*"):
            return source_id.startswith(self.source_id[:-1])
        return source_id == self.source_id


class Classified(msgspec.Struct, frozen=True):
    """What the map says of a channel. `rules` are the numbers, from 1, of the overrides that decided; often none."""

    label: Label
    rules: tuple[int, ...]


class TrustMap:
    """The standard's defaults with the operator's overrides before them.

    The first rule that matches and states a trust decides the trust; the first that matches and states readers
    decides the readers. The order of the file is all there is to know, where the most specific of several rules would
    have to be worked out between an origin and a source; and a rule about readers never hides one about trust.
    """

    def __init__(self, rules: Sequence[TrustRule] = ()) -> None:
        """Take the rules in order. Raise InvalidInput, naming the rule, for one that is unsafe or says nothing."""
        self.rules = tuple(rules)
        for number, rule in enumerate(self.rules, start=1):
            _require_sound(rule, number)
        _require_reachable(self.rules)
        self._kept: dict[tuple[Origin, str | None, bool], Classified] = {}

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the rules as the journal would encode them, for a decision to cite."""
        return digest(journal_bytes(self.rules))

    def classify(self, origin: Origin, source_id: str | None, *, derived: bool = False) -> Classified:
        """Return the class of a channel alone. `derived` tells that the data say what they were made of.

        Only then is the class of what an agent generated no bound of its own, and the lineage is all that counts.
        """
        # What any other channel brings is bounded by that channel, whatever it was made of.
        derived = derived and origin == "agent_generated"
        found = self._kept.get((origin, source_id, derived))
        if found is None:
            if len(self._kept) >= KEPT_CLASSES:
                self._kept.clear()
            found = self._kept[origin, source_id, derived] = self._classified(origin, source_id, derived=derived)
        return found

    def _classified(self, origin: Origin, source_id: str | None, *, derived: bool) -> Classified:
        trust: Trust = "trusted" if derived else DEFAULTS[origin]
        readers: Readers = None
        matching = [(n, rule) for n, rule in enumerate(self.rules, start=1) if rule.matches(origin, source_id)]
        decided = set()
        for number, rule in matching:
            if rule.trust is not None:
                trust = rule.trust
                decided.add(number)
                break
        for number, rule in matching:
            if not isinstance(rule.readers, msgspec.UnsetType):
                readers = rule.readers
                decided.add(number)
                break
        return Classified(Label(trust, readers), tuple(sorted(decided)))


def _ordered(readers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(readers)))


def _require_sound(rule: TrustRule, number: int) -> None:
    if rule.trust is None and rule.readers is msgspec.UNSET:
        raise _refused(number, "says nothing", got="neither", expected="trust, readers or both")
    if rule.trust == "trusted" and rule.origin in {None, "agent_generated"}:
        raise _refused(
            number,
            "would trust what an agent generated beyond what it rests on",
            got="no origin" if rule.origin is None else "agent_generated",
            expected="trust for a named origin other than agent_generated",
        )
    if rule.source_id is not None:
        bounded_text(f"source_id of rule {number}", rule.source_id, limit=4 * MAX_SOURCE_ID)
        if "*" in rule.source_id[:-1]:
            raise _refused(number, "has a * that is not the end", got="another pattern", expected="text, or text*")
        if len(rule.source_id.removesuffix("*")) > MAX_SOURCE_ID or find_secret(rule.source_id) is not None:
            raise _refused(
                number,
                "never meets a source id, because one that is so long or looks like a secret is kept as its hash",
                got=f"{len(rule.source_id)} characters",
                expected=f"at most {MAX_SOURCE_ID} characters that are no secret",
            )
    for reader in rule.readers or ():
        bounded_text(f"a reader of rule {number}", reader, limit=MAX_READER_BYTES)


def _require_reachable(rules: Sequence[TrustRule]) -> None:
    """Refuse a rule of which a part never decides, because an earlier one takes all that it is about."""
    earlier: dict[str, dict[tuple[Origin | None, str | None], int]] = {"trust": {}, "readers": {}}
    for number, rule in enumerate(rules, start=1):
        stated = {"trust": rule.trust is not None, "readers": rule.readers is not msgspec.UNSET}
        for axis in [name for name, is_stated in stated.items() if is_stated]:
            taken = earlier[axis]
            by = [taken[key] for key in _covering(rule) if key in taken]
            if by:
                raise _refused(
                    number,
                    f"states {axis} that never count, because rule {min(by)} decides them",
                    got=f"{axis} after a rule that is about the same or more",
                    expected="the narrower rule first",
                )
            taken[rule.origin, rule.source_id] = number


def _covering(rule: TrustRule) -> Iterable[tuple[Origin | None, str | None]]:
    """Yield what a rule is about that takes all that this one is about."""
    source = rule.source_id
    sources: list[str | None] = [None]
    if source is not None:
        beginning = source.removesuffix("*")
        sources += [source, *(beginning[:length] + "*" for length in range(len(beginning) + 1))]
    for origin in {None, rule.origin}:
        for each in sources:
            yield origin, each


def _refused(number: int, problem: str, *, got: str, expected: str) -> InvalidInput:
    return InvalidInput(
        f"rule {number} of the trust map {problem}",
        got=got,
        expected=expected,
        next_step=f"correct rule {number}, or take it out",
        location=f"rule {number}",
    )
