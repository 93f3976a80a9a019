"""What it costs to decide whether entries may be folded, by how many they are and how long their session is.

In process: no wire, no signature. One question is one transaction with its commit. The parts are timed apart: the
facts out of the labels, Cedar, and all the rest, which is the check for replay, the chain and the commit.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from awr.domain.lineage import Datum
from awr.domain.provenance import TrustMap
from awr.guardian.decision import Decision
from awr.guardian.envelope import read_envelope, rfc3339
from awr.guardian.judge import Judge
from awr.guardian.policies.engine import CedarPolicy, Judgement
from awr.guardian.policies.facts import Facts
from awr.guardian.policies.packs import chosen
from awr.guardian.store import Store
from awr.guardian.verdict import Step, Verdict
from awr.ids import new_id, system_clock
from bench.guardian_requests import lengthen
from bench.measure import Figures

SESSIONS = (100, 10_000, 100_000)
FOLDS = (1, 100, 1_000, 10_000)
PACKS = ("observe", "trust-boundary")
WARM_RUNS = 40
#: A cold one reads its session, so the runs are fewer the longer that is.
COLD_RUNS = {100: 20, 10_000: 8, 100_000: 3}
BUDGETS = {(1_000, 10_000, "warm"): "p50 <= 1 ms", (1_000, 10_000, "cold"): "p50 <= 3 ms"}
MEANING = (
    "The decision is facts and Cedar; the budget is about that. Warm, the labels of the session are in memory: the\n"
    "cost is linear in the fold, and that of a large one up to double in a session of 100,000 steps. Under\n"
    "trust-boundary, 1,000 entries miss the budget. Cold, a Guardian that has just begun reads the\n"
    "whole session once, so its first question of a session is linear in that session's length, whatever is folded,\n"
    "and misses its budget; no later one does. The rest is the check for replay, the chain, and a commit to disk."
)


class TimedPolicy(CedarPolicy):
    """A policy that remembers how long its last answer took, in seconds."""

    seconds = 0.0

    def judge(self, action: str, facts: Facts) -> Judgement:
        """Answer as the policy does."""
        began = time.perf_counter()
        found = super().judge(action, facts)
        self.seconds = time.perf_counter() - began
        return found


class TimedJudge(Judge):
    """A judge that remembers how long its last verdict took, in seconds."""

    seconds = 0.0

    def decide(self, step: Step) -> Verdict:
        """Decide as the judge does."""
        began = time.perf_counter()
        found = super().decide(step)
        self.seconds = time.perf_counter() - began
        return found


def begun(store: Store, session_id: str) -> None:
    """Begin a session that may ask for folds."""
    with store.turn():
        store.add_session(
            session_id,
            agent_id="bench",
            key_id="default",
            provenance_producer="deterministic",
            server_hello={"methods_evaluated": ["steps/preCompact"]},
            now=0,
        )


def carried(number: int) -> tuple[Datum, ...]:
    """Return the data of an entry: of three, one is a user's and two are a tool's."""
    origin: Any = "user_input" if number % 3 == 0 else "tool_output"
    return (Datum(provenance_id=f"p-{number}", origin=origin, source_id="bench", derived_from=()),)


def question(session_id: str, *, entries: int, of: int) -> dict[str, Any]:
    """Return a request to fold entries that lie all over their session."""
    request_id = str(uuid.uuid4())
    steps = [str(uuid.UUID(int=number * of // entries)) for number in range(entries)]
    return {
        "jsonrpc": "2.0",
        "method": "steps/preCompact",
        "id": request_id,
        "params": {
            "acs_version": "0.1.0",
            "request_id": request_id,
            "timestamp": rfc3339(time.time_ns() // 1_000_000),
            "metadata": {"agent_id": "bench", "session_id": session_id},
            "payload": {"entries_to_compact": steps, "triggered_by": "size_threshold"},
        },
    }


def measured(
    judge_of: Callable[[], TimedJudge], ask: Callable[[], dict[str, Any]], *, runs: int
) -> list[list[float]]:
    """Return the milliseconds of each run's facts, Cedar and rest. `judge_of` gives the judge of each run."""
    found = []
    for run in range(runs + 1):
        judge, value = judge_of(), ask()
        policy = judge._policy
        assert isinstance(policy, TimedPolicy)
        decision = Decision(
            judge._store,
            transports=("http",),
            policy=judge,
            posture="proceed",
            clock=system_clock,
            make_id=new_id,
        )
        envelope = read_envelope(value)
        began = time.perf_counter()
        decision.of(envelope, value["params"], key_id="default")
        whole = time.perf_counter() - began
        if run:
            parts = (judge.seconds - policy.seconds, policy.seconds, whole - judge.seconds)
            found.append([part * 1000 for part in parts])
    return found


def main() -> None:
    """Print each pack's figures for every fold that fits into every session, warm and cold."""
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
        path = Path(name) / "guardian.db"
        store = Store.open(path, now=0, create=True)
        names = {steps: str(uuid.uuid4()) for steps in SESSIONS}
        for steps, session_id in names.items():
            begun(store, session_id)
            lengthen(path, session_id, entries=steps, carrying=carried)
        for pack in PACKS:
            policy = TimedPolicy(chosen(pack, root=Path(name)))
            for steps, session_id in names.items():
                warm = TimedJudge(policy, store, trust_map=TrustMap())
                for entries in [entries for entries in FOLDS if entries <= steps]:
                    _compare(pack, policy, warm, session_id, entries=entries, steps=steps)
        store.close()
    print(MEANING)


def _compare(pack: str, policy: TimedPolicy, warm: TimedJudge, session_id: str, *, entries: int, steps: int) -> None:
    def ask() -> dict[str, Any]:
        return question(session_id, entries=entries, of=steps)

    def cold() -> TimedJudge:
        return TimedJudge(policy, warm._store, trust_map=TrustMap())

    kinds: list[tuple[str, Callable[[], TimedJudge], int]] = [
        ("warm", lambda: warm, WARM_RUNS),
        ("cold", cold, COLD_RUNS[steps]),
    ]
    for kind, judge_of, runs in kinds:
        times = measured(judge_of, ask, runs=runs)
        decided = Figures([facts + cedar for facts, cedar, _ in times])
        whole = sum(map(sum, times))
        shares = [sum(part) / whole for part in zip(*times, strict=True)]
        budget = BUDGETS.get((entries, steps, kind))
        print(
            f"{pack:<14} {kind}, {entries:>6,} of {steps:>7,}  decision p50 {decided.median:8.2f} ms,"
            f" p95 {decided.p95:8.2f} ms; with the rest p50 {Figures([sum(one) for one in times]).median:8.2f} ms:"
            f" facts {shares[0]:4.0%}, Cedar {shares[1]:4.0%}, chain and commit {shares[2]:4.0%}"
            + (f"   budget {budget}" if budget else ""),
            flush=True,
        )


if __name__ == "__main__":
    main()
