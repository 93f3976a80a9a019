"""Random sessions of steps, questions and folds, before two Guardians on one record, against a model of the rules."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from awr.domain.provenance import TrustMap
from awr.guardian.guardian import Guardian
from awr.guardian.judge import Judge
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.packs import chosen
from tests.support.acs import KEYS, Agent, guardian_at, provenance

FOLD, FOLDED = "steps/preCompact", "steps/postCompact"
USER, RESULT, CALL, ANSWER = (
    "steps/userMessage",
    "steps/toolCallResult",
    "steps/toolCallRequest",
    "steps/agentResponse",
)


class Said(NamedTuple):
    """What a step says of one piece of data."""

    id: str
    origin: str
    derived: tuple[str, ...] = ()


class Event(NamedTuple):
    """One entry of the session. `judged` is not so for a step that a wrong chain_hash had denied."""

    step: str
    method: str
    data: tuple[Said, ...] = ()
    denied: bool = False
    judged: bool = True
    stands_for: frozenset[str] = frozenset()
    about: frozenset[str] = frozenset()


# The model: every rule worked out again from the whole list of events. Trusts are numbers, the lowest is the worst.
UNTRUSTED, UNKNOWN, TRUSTED = 0, 1, 2
OF_ORIGIN = {"user_input": TRUSTED, "system": TRUSTED, "agent_generated": UNKNOWN}
OF_METHOD = {USER: TRUSTED, RESULT: UNTRUSTED, CALL: UNKNOWN, ANSWER: UNKNOWN, FOLD: TRUSTED, FOLDED: UNKNOWN}


def own(said: Said) -> int:
    return TRUSTED if said.origin == "agent_generated" and said.derived else OF_ORIGIN.get(said.origin, UNTRUSTED)


def trusts_of_data(events: list[Event]) -> dict[str, int]:
    """Return the trust of every id: of all that is said of it, and of all that it was made of, the lowest."""
    found: dict[str, int] = {}
    while True:
        again: dict[str, int] = {}
        for said in (said for event in events for said in event.data):
            trust = min([own(said), *(found.get(name, UNKNOWN) for name in said.derived)])
            again[said.id] = min(trust, again.get(said.id, TRUSTED))
        if again == found:
            return found
        found = again


def trusts_of_steps(events: list[Event]) -> dict[str, int]:
    data, found = trusts_of_data(events), dict[str, int]()
    plain = {event.step for event in events if not event.data or event.denied}
    for event in events:
        said = [data[one.id] for one in event.data] or [OF_METHOD[event.method]]
        below = [found[step] for step in event.stands_for & plain]
        found[event.step] = TRUSTED if event.denied else min(said + below)
    return found


def untrusted_since(events: list[Event], pack: str) -> set[str]:
    trusts, found = trusts_of_steps(events), set()
    for event in events:
        speaks = event.method == USER and (not event.data or any(one.origin == "user_input" for one in event.data))
        if trusts[event.step] == UNTRUSTED:
            found.add(event.step)
        elif trusts[event.step] == TRUSTED and speaks and not event.denied:
            found = set() if pack == "trust-boundary" else found
    return found


def denials(events: list[Event]) -> int:
    began = max((number for number, event in enumerate(events) if event.method == FOLDED), default=0)
    return sum(event.method == FOLD and event.denied and event.judged for event in events[began:])


def judged_fold(events: list[Event], pack: str, named: list[str], foreign: str) -> tuple[set[str], dict[str, int]]:
    """Return the reason codes of a denial, none for a fold that is allowed, and the facts that the answer states."""
    trusts, since, before = trusts_of_steps(events), untrusted_since(events, pack), denials(events)
    ids = {step_id.lower() for step_id in named}
    region = [trusts[step_id] for step_id in ids & trusts.keys()]
    folded = {step_id for event in events for step_id in event.stands_for}
    reasons = {
        "aarm_cumulative_taint": bool(ids & since) and before < 1
        if pack == "trust-boundary"
        else UNTRUSTED in region,
        "unknown_trust": pack == "strict" and UNKNOWN in region,
        "unknown_step": bool(ids - trusts.keys() - {foreign}),
        "foreign_step": foreign in ids,
        "already_folded": bool(ids & folded),
    }
    facts = {
        "untrusted_entries": region.count(UNTRUSTED),
        "untrusted_since_grounding": len(ids & since),
        "denials_of_boundary": before,
        "integrity": min(region, default=TRUSTED),
    }
    return {code for code, holds in reasons.items() if holds and before < 3}, facts


def findings_of_fold(events: list[Event], named: list[str], derived: set[str], *, honest: bool) -> list[str]:
    """Return what is wrong with a finished fold. `honest` says that its origin and its head are right."""
    latest = next((event for event in reversed(events) if event.method in {FOLD, FOLDED}), None)
    found = [] if latest is not None and latest.method == FOLD else ["ungoverned_fold"]
    ids = {step_id.lower() for step_id in named}
    if not found and latest is not None and latest.denied:
        found = ["deny_not_honoured"]
    elif not found and latest is not None and latest.about != ids:
        found = ["fold_differs"]
    union = {said.id for event in events if event.step in ids for said in event.data}
    known = ids <= {event.step for event in events}
    return found if honest and known and derived == union else [*found, "lineage_mismatch"]


def judging(path: Path, pack: str) -> Guardian:
    """Return a Guardian that decides by a pack and remembers nothing but the record."""
    store = guardian_at(path / "acs.db").store
    judge = Judge(CedarPolicy(chosen(pack, root=path)), store, trust_map=TrustMap())
    return Guardian(store, keys=KEYS, transports=("http",), policy=judge)


def value(said: Said) -> dict[str, Any]:
    return {"type": "text", "value": "x", "provenance": provenance(said.id, said.origin, *said.derived)}


def payload_of(method: str, data: tuple[Said, ...]) -> dict[str, Any]:
    parts = [value(said) for said in data] or [{"type": "text", "value": "x"}]
    if method == RESULT:
        return {"tool": {"name": "fetch"}, "exit_status": "success", "outputs": parts}
    if method == CALL:
        return {"tool": {"name": "send"}, "arguments": {f"a{n}": part for n, part in enumerate(parts)}}
    return {"content": parts}


doors = st.integers(0, 1)
names = st.sampled_from([f"p{number}" for number in range(10)])
data_said = st.lists(
    st.builds(
        Said,
        names,
        st.sampled_from(["user_input", "user_input", "tool_output", "retrieved", "system", "agent_generated"]),
        st.lists(names, max_size=2, unique=True).map(tuple),
    ),
    max_size=2,
    unique_by=lambda said: said.id,
).map(tuple)
#: How a step is named: the place of an entry from the end, or a text that is none of the session's.
named_steps = st.lists(st.integers(0, 11) | st.sampled_from(["foreign", "unknown"]), min_size=1, max_size=6)


class Judging(RuleBasedStateMachine):
    """Decisions, reason codes, stated facts and findings are those of the model."""

    pack: str

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.guardians = [judging(self.folder, self.pack) for _ in range(2)]
        self.door = 0
        self.agent, other = Agent(self.send), Agent(self.send)
        self.agent.begin()
        other.begin()
        self.foreign = str(other.ask(USER, payload_of(USER, ()))["result"]["request_id"])
        self.events: list[Event] = []
        self.head = "0" * 64

    def send(self, body: bytes) -> bytes:
        return self.guardians[self.door].answer(body)

    def teardown(self) -> None:
        if hasattr(self, "guardians"):
            for guardian in self.guardians:
                guardian.store.close()
            shutil.rmtree(self.folder)

    def ask(self, door: int, method: str, payload: Any, **parts: Any) -> dict[str, Any]:
        self.door = door
        result: dict[str, Any] = self.agent.ask(method, payload, **parts)["result"]
        self.head = result["chain_hash"]
        return result

    def ids(self, named: list[int | str], *, upper: bool) -> list[str]:
        texts = {"foreign": self.foreign, "unknown": str(uuid.UUID(int=7))}
        taken = [each for each in named if isinstance(each, str) or self.events]
        found = [
            texts[each] if isinstance(each, str) else self.events[-1 - each % len(self.events)].step for each in taken
        ]
        return [each.upper() if upper else each for each in found] or [self.foreign]

    @rule(door=doors)
    def restart(self, door: int) -> None:
        self.guardians[door].store.close()
        self.guardians[door] = judging(self.folder, self.pack)

    @rule(door=doors, method=st.sampled_from([USER, USER, RESULT, RESULT, ANSWER, CALL]), data=data_said)
    def take_a_step(self, door: int, method: str, data: tuple[Said, ...]) -> None:
        after = trusts_of_data([*self.events, Event("", method, data)])
        untrusted = any(after[said.id] == UNTRUSTED for said in data)
        denied = (
            self.pack == "strict" and method == CALL and untrusted and bool(untrusted_since(self.events, self.pack))
        )
        result = self.ask(door, method, payload_of(method, data))
        assert result["decision"] == ("deny" if denied else "allow")
        assert result.get("reason_codes", []) == (["untrusted_into_consequential"] if denied else [])
        self.events.append(Event(result["request_id"], method, data, denied))

    @rule(door=doors, method=st.sampled_from([USER, RESULT, CALL, FOLD]), data=data_said)
    def take_a_step_with_a_wrong_head(self, door: int, method: str, data: tuple[Said, ...]) -> None:
        data = () if method == FOLD else data
        payload = {"entries_to_compact": [self.foreign], "triggered_by": "manual"}
        wrong = {"session_state": {"chain_hash": "f" * 64}}
        result = self.ask(door, method, payload if method == FOLD else payload_of(method, data), metadata=wrong)
        assert (result["decision"], result["reason_codes"]) == ("deny", ["chain_mismatch"])
        self.events.append(Event(result["request_id"], method, data, denied=True, judged=False))

    @rule(
        door=doors,
        named=named_steps,
        upper=st.booleans(),
        states=st.sampled_from(["nothing", "steps", "data", "a lie"]),
    )
    def ask_to_fold(self, door: int, named: list[int | str], upper: bool, states: str) -> None:
        ids = self.ids(named, upper=upper)
        payload: dict[str, Any] = {"entries_to_compact": ids, "triggered_by": "size_threshold"}
        region = [event for event in self.events if event.step in {each.lower() for each in ids}]
        data = [said for event in region if not event.denied for said in event.data]
        if states != "nothing":
            count = {"steps": len(region), "data": len(data), "a lie": 99}[states]
            origins = sorted({said.origin for said in data})
            payload["pre_compact_provenance_summary"] = {"origins_seen": origins, "entry_count": count}
        codes, facts = judged_fold(self.events, self.pack, ids, self.foreign)
        result = self.ask(door, FOLD, payload)
        assert result["decision"] == ("deny" if codes else "allow")
        codes |= {"provenance_summary_mismatch"} if states == "a lie" else set()
        assert set(result.get("reason_codes", [])) == codes
        aarm = result["policy_data"]["aarm"]
        stated = {name: aarm[name] for name in facts if name != "integrity"}
        trust = ["untrusted", "unknown", "trusted"].index(result["policy_data"]["fides"]["integrity"])
        assert {**stated, "integrity": trust} == facts
        about = frozenset(each.lower() for each in ids)
        self.events.append(Event(result["request_id"], FOLD, denied=result["decision"] == "deny", about=about))

    @rule(
        door=doors,
        named=named_steps,
        upper=st.booleans(),
        summary=names,
        lie=st.sampled_from(["none", "none", "none", "less", "more", "origin", "head"]),
    )
    def fold(self, door: int, named: list[int | str], upper: bool, summary: str, lie: str) -> None:
        ids = self.ids(named, upper=upper)
        ids += [ids[0].lower()] if ids[0].lower() not in ids else []
        steps = {each.lower() for each in ids}
        derived = {said.id for event in self.events if event.step in steps for said in event.data}
        derived = {"less": set(sorted(derived)[1:]), "more": derived | {"made up"}}.get(lie, derived)
        said = Said(summary, "user_input" if lie == "origin" else "agent_generated", tuple(sorted(derived)))
        honest = lie not in {"origin", "head"} and bool(self.events)
        expected = findings_of_fold(self.events, ids, derived, honest=honest)
        payload = {
            "summary": value(said),
            "entries_compacted": ids,
            "pre_compact_chain_hash": "e" * 64 if lie == "head" else self.head,
            "post_compact_chain_hash": "0" * 64,
        }
        result = self.ask(door, FOLDED, payload)
        assert result["decision"] == "allow", "it has happened"
        assert ("lineage_mismatch" in result.get("reason_codes", [])) == ("lineage_mismatch" in expected)
        store = self.guardians[door].store
        session = store.session(self.agent.session_id)
        assert session is not None
        [entry] = store.entries(session, after=session.entries - 1)
        assert entry["findings"] == expected
        stands_for = frozenset(steps & {event.step for event in self.events})
        # Whatever its sender says, a summary rests on all that it stands for.
        below = {
            one.id for event in self.events if event.step in stands_for and not event.denied for one in event.data
        }
        rests = said._replace(derived=tuple(sorted((below | derived) - ({summary} - derived))))
        self.events.append(Event(result["request_id"], FOLDED, (rests,), stands_for=stands_for))


class JudgingAtTheBoundary(Judging):
    pack = "trust-boundary"


class JudgingStrictly(Judging):
    pack = "strict"


for machine in (JudgingAtTheBoundary, JudgingStrictly):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestJudgingAtTheBoundary = JudgingAtTheBoundary.TestCase
TestJudgingStrictly = JudgingStrictly.TestCase
