"""What a session's entries carry: their data, labels and lineage, in memory and brought up to date from the record.

Nothing here is written. A Guardian that has answered a session all along reads only what came since its last
question; another one reads the session once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from awr.domain.lineage import Datum, Endorsement, Lineage, Step, disagreements, effective, summarize
from awr.domain.provenance import IDENTITY, UNKNOWN, Label, Origin, TrustMap, join
from awr.guardian.store import Carrying, Session, Store

__all__ = ["Carried", "Region", "SessionLabels"]

#: What a hook carries by its nature, where a client states no provenance. A hook that is not here carries no data.
CHANNELS: dict[str, Origin] = {
    "steps/userMessage": "user_input",
    "steps/agentResponse": "agent_generated",
    "steps/knowledgeRetrieval": "retrieved",
    "steps/memoryContextRetrieval": "retrieved",
    "steps/memoryStore": "agent_generated",
    "steps/toolCallRequest": "agent_generated",
    "steps/toolCallResult": "tool_output",
    "steps/postCompact": "agent_generated",
}
#: The one hook through which a user speaks, whatever another one says of the data that it carries.
USER_HOOK = "steps/userMessage"


class Carried(msgspec.Struct, kw_only=True):
    """One entry: its place, its data and the join of their labels. `depth` is None where a lineage has gaps.

    `plain` are steps without provenance that a summary stands for.
    """

    position: int
    step_id: str
    step_type: str
    data: tuple[Datum, ...]
    label: Label
    depth: int | None
    denied: bool
    plain: tuple[str, ...] = ()


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of entries that are to be folded, and of ids that name none."""

    entries: int
    label: Label
    untrusted: tuple[Carried, ...]
    unknown_entries: int
    untrusted_since_grounding: int
    origins: frozenset[Origin]
    max_depth: int | None
    unknown_steps: tuple[str, ...]
    folded_steps: int


class SessionLabels:
    """The labels of one session. Give it the store before each question."""

    def __init__(self, trust_map: TrustMap, *, strict: bool) -> None:
        self._strict = strict
        #: The data of all entries, with what each summary stands for in its lineage. It is read, never added to.
        self.lineage = Lineage(trust_map)
        self._steps: dict[str, Carried] = {}
        self._referenced: set[str] = set()
        self._folded: set[str] = set()
        self._loaded = 0
        self._endorsements = 0
        self._head: bytes | None = None
        self._stale = False
        #: The position of the step that last re-grounded the session; 0 before the first.
        self._grounded = 0
        #: How many untrusted entries came since then.
        self.untrusted_since_grounding = 0
        #: Denials of the present boundary by the policy; a fold ends it.
        self.denials = 0

    def is_of(self, store: Store, session: Session) -> bool:
        """Tell whether all that was read is still on record.

        What requests of one group wrote was read before the group's commit, and that may have failed.
        """
        return self._loaded == 0 or store.link_at(session, self._loaded) == self._head

    def catch_up(self, store: Store, session: Session) -> None:
        """Read what the record has beyond what was read before."""
        words = store.endorsements(session, after=self._endorsements)
        self._endorsements += len(words)
        if session.entries > self._loaded:
            folds = store.folds_since(session, after=self._loaded)
            for carrying in store.carrying(session, after=self._loaded):
                while words and words[0][0] < carrying.position:
                    self._endorse(words.pop(0)[1])
                self._take(carrying, folded=folds.get(carrying.position, ()))
            self._loaded, self._head = session.entries, session.head
        for _, endorsement in words:
            self._endorse(endorsement)
        if self._stale:
            self._grounded = self.untrusted_since_grounding = 0
            for carried in self._steps.values():
                carried.label = self._joined(carried)
                self._ground(carried)
            self._stale = False

    def call_label(self, data: Iterable[Datum]) -> tuple[Label, int]:
        """Return the joined label of data that are about to leave, and how many of them are untrusted."""
        labels = [self._stated(datum) for datum in data]
        return join(labels) if labels else UNKNOWN, sum(label.trust == "untrusted" for label in labels)

    def region(self, step_ids: Sequence[str]) -> Region:
        """Return the facts of the entries that these ids name, each counted once."""
        found: dict[str, Carried] = {}
        unknown = []
        for step_id in step_ids:
            carried = self._steps.get(step_id) or self._steps.get(step_id.lower())
            if carried is None:
                unknown.append(step_id)
            else:
                found[carried.step_id] = carried
        entries = found.values()
        # There are few different labels and depths, so each is looked at once.
        labels = {id(carried.label): carried.label for carried in entries}
        depths = {carried.depth for carried in entries if carried.data}
        untrusted = tuple([carried for carried in entries if carried.label.trust == "untrusted"])
        return Region(
            entries=len(found),
            label=join(labels.values()),
            untrusted=untrusted,
            unknown_entries=len([carried for carried in entries if carried.label.trust == "unknown"]),
            untrusted_since_grounding=len([carried for carried in untrusted if carried.position > self._grounded]),
            origins=frozenset({datum.origin for carried in entries for datum in carried.data}),
            max_depth=None if None in depths else max((depth for depth in depths if depth is not None), default=None),
            unknown_steps=tuple(unknown),
            folded_steps=len(self._folded & found.keys()),
        )

    def disagreements(self, stated: dict[str, object], step_ids: Sequence[str]) -> tuple[str, ...]:
        """Return the members of a client's summary of a region that are not what the record comes to."""
        chosen = [
            self._steps[step_id.lower()] for step_id in dict.fromkeys(step_ids) if step_id.lower() in self._steps
        ]
        steps = [Step(carried.step_id, carried.data) for carried in sorted(chosen, key=lambda one: one.position)]
        depths = {datum.provenance_id: carried.depth for carried in chosen for datum in carried.data}
        return disagreements(
            stated, summarize(steps, depths.get, counting="steps"), summarize(steps, depths.get, counting="data")
        )

    def _endorse(self, endorsement: Endorsement) -> None:
        self.lineage.endorse(endorsement)
        self._stale = True

    def _take(self, carrying: Carrying, *, folded: Sequence[str]) -> None:
        self._folded.update(folded)
        standing_for = [self._steps[step_id] for step_id in folded if step_id in self._steps]
        under = {datum.provenance_id for carried in standing_for for datum in carried.data}
        for stated in carrying.data:
            # A summary rests on everything that it stands for, whatever its sender says of it.
            more = sorted(under - {stated.provenance_id, *stated.derived_from})
            datum = msgspec.structs.replace(stated, derived_from=(*stated.derived_from, *more)) if more else stated
            before = self.lineage.label_of(datum.provenance_id) or UNKNOWN
            # A label that was joined before rests on this one, if it names its id.
            if self.lineage.add(datum) != before and datum.provenance_id in self._referenced:
                self._stale = True
            self._referenced.add(datum.provenance_id)
            self._referenced.update(datum.derived_from)
        carried = Carried(
            position=carrying.position,
            step_id=carrying.step_id,
            step_type=carrying.step_type,
            data=() if carrying.denied else carrying.data,
            label=IDENTITY,
            depth=carrying.depth,
            denied=carrying.denied,
            plain=tuple(carried.step_id for carried in standing_for if not carried.data),
        )
        carried.label = self._joined(carried)
        self._steps[carrying.step_id] = carried
        self._ground(carried)
        if carrying.step_type == "steps/preCompact":
            self.denials += carrying.denied_by_policy
        elif carrying.step_type == "steps/postCompact":
            self.denials = 0

    def _ground(self, carried: Carried) -> None:
        """Count a step that came after all others, or begin to count anew behind it."""
        if carried.label.trust == "trusted" and not self._strict and self._speaks(carried):
            self._grounded = carried.position
            self.untrusted_since_grounding = 0
        else:
            self.untrusted_since_grounding += carried.label.trust == "untrusted"

    def _joined(self, carried: Carried) -> Label:
        """Return the label of what a step brought. A denied one brought nothing: it never reached the agent."""
        if carried.denied:
            return IDENTITY
        if carried.data:
            # Steps without provenance lend their summary the label of their channel.
            below = (self._steps[step_id].label for step_id in carried.plain)
            said = (self.lineage.label_of(datum.provenance_id) or UNKNOWN for datum in carried.data)
            return join([*said, *below])
        channel = CHANNELS.get(carried.step_type)
        if channel is None:
            return IDENTITY if carried.step_type.startswith("steps/") else UNKNOWN
        return self.lineage.trust_map.classify(channel, None).label

    def _stated(self, datum: Datum) -> Label:
        """Return the label of a datum that is not on record yet, bound by what the record says of its id."""
        label = effective(datum, self.lineage.label_of, trust_map=self.lineage.trust_map)
        known = self.lineage.label_of(datum.provenance_id)
        return label if known is None else join([known, label])

    def _speaks(self, carried: Carried) -> bool:
        """Tell whether a user speaks with a step. A denied one never reached the agent."""
        if carried.denied or carried.step_type != USER_HOOK:
            return False
        return not carried.data or any(datum.origin == "user_input" for datum in carried.data)
