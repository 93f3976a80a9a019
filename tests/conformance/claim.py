"""Write the conformance claim from a run of these tests: `python -m tests.conformance.claim [PAGE]`.

A row is exercised only if the tests that carry its mark ran and passed in this run. From a run in which a test
failed, no claim is made.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conformance.corpus import manifest
from tests.conformance.requirements import PROFILES, ROWS, Cell, Row
from tests.conformance.rules import Result

__all__ = ["Run", "main", "page"]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"
NOT_OBSERVED = "NOT ESTABLISHED (not-observed)"
NO_TEST = "NOT ESTABLISHED (no-test)"

WHAT_IT_IS = """\
`python -m tests.conformance.claim` writes this page from a run of `tests/conformance`, and a test of ours holds that
it is what the run comes to. A row is EXERCISED only if the tests named at the end ran and passed.
"""
TRUST = """\
## Trust topology

Guardian and client are two parts of one program. Whoever deploys them runs the Guardian; the agent is run by the same
person on the same machine, or by others whom the deployment gives the secret. Both hold that secret, so they have to
trust each other to keep it. In these tests one party runs both.
"""
CORPUS = """\
How a member is measured is decided by the shape of its payload, never by its id or by what it expects. A member that
rests on an open proposal is measured where that is possible, and required nowhere.
"""
END = """\
## Limits

- A key is shared by both parties. A signed head shows its holder that nobody on the way changed it; it does not prove
  to a third party who signed it, and a Guardian that is itself compromised can sign another history.
- The policy behind these tests is `observe`, which allows and records, or one that a test wrote. Nothing here says
  that a policy is strict, or that it is right.
- An agent is seen as far as it asks. A framework that leaves a hook out, and what a host does with an answer, are not
  seen by a Guardian, and not tested here.
- Provenance is recorded as it is stated. Whether code or a model wrote it cannot be seen on the wire.
- The Guardian is tested over HTTP on one machine. TLS, other machines and clocks that drift apart by themselves are
  not tested here.

## Self-assertion

This claim is made by those who wrote the program, from tests that they wrote and from a corpus that others wrote.
Nobody has certified it, and the standard names nobody who could. Run the command and see for yourself.
"""


class Run:
    """What one run of the tests found. It is a plugin of pytest's."""

    def __init__(self) -> None:
        self.marks: dict[str, list[tuple[str, str]]] = {}
        self.outcomes: dict[str, str] = {}
        self.properties: list[tuple[str, str, str]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which rows each test stands behind."""
        for item in session.items:
            self.marks[item.nodeid] = [
                (mark.args[0], mark.kwargs["party"]) for mark in item.iter_markers("requirement")
            ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of each test: it passed only if every phase of it did."""
        if report.when == "call" or report.outcome != "passed":
            known = self.outcomes.get(report.nodeid, "passed")
            self.outcomes[report.nodeid] = report.outcome if known == "passed" else known
            self.properties += [(report.nodeid, name, str(value)) for name, value in report.user_properties]

    def behind(self, row: Row, party: str) -> list[str]:
        """Return the tests behind a row, in order."""
        return sorted(test for test, marks in self.marks.items() if (row.name, party) in marks)

    def stated(self, name: str) -> list[str]:
        """Return what passing or skipped tests stated under a name."""
        return [value for test, found, value in self.properties if found == name and self.outcomes[test] != "failed"]


def page(run: Run) -> str:
    """Return the page that a run comes to."""
    return "\n".join([*_head(), *_profiles(run), *_postures(run), *_corpus(run), END, *_tests(run)]) + "\n"


def status(run: Run, row: Row, party: str) -> str:
    """Return what is said of a row, in the words of the standard's claim template."""
    cell: Cell = getattr(row, party)
    if cell.reason:
        return f"NOT CLAIMED ({cell.reason}): {cell.why}"
    tests = run.behind(row, party)
    if tests and all(run.outcomes.get(test) == "passed" for test in tests):
        return "EXERCISED"
    return NO_TEST


def _head() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = manifest()
    text = known.texts["specification-0.1.4"]
    yield "# Conformance claim: the Agent Control Standard"
    yield ""
    yield WHAT_IT_IS
    yield from _table(
        ("what", "claimed"),
        [
            ("Implementation", f"{project['name'].upper()} {project['version']}"),
            ("Standard", f"Agent Control Standard {known.spec_version}, as in the text of its release 0.1.4"),
            ("Its repository and commit", f"`{known.repository}`, `{text.upstream_commit}`"),
            ("SHA-256 of the specification", f"`{text.sha256}`"),
            (
                "Corpus",
                f"`agent-evidence-vectors` {version('agent-evidence-vectors')}, ACS-Core suite, "
                f"digest `{known.digest}`",
            ),
            ("Date", "that of the commit which holds this page"),
            ("Claimant", project["authors"][0]["name"]),
            ("Where it is found", "`docs/conformance.md` in the sources of this version"),
        ],
    )
    yield ""
    yield TRUST


def _profiles(run: Run) -> Iterator[str]:
    yield "## Profiles"
    yield ""
    yield from _table(
        ("profile", "Guardian", "Observed Agent"),
        [(f"`{name}`", *(_summary(run, name, party) for party in ("guardian", "agent"))) for name in PROFILES],
    )
    for profile in PROFILES:
        yield ""
        yield f"### {profile}"
        yield ""
        yield from _table(
            ("requirement", "Guardian", "Observed Agent"),
            [
                (f"{row.title} (`{row.name}`)", status(run, row, "guardian"), status(run, row, "agent"))
                for row in ROWS
                if row.profile == profile
            ],
        )
    yield ""


def _summary(run: Run, profile: str, party: str) -> str:
    said = Counter(status(run, row, party).partition(":")[0] for row in ROWS if row.profile == profile)
    return ", ".join(f"{number} {words}" for words, number in sorted(said.items()))


def _postures(run: Run) -> Iterator[str]:
    hellos = {json.loads(stated)["on_decision_failure"] for stated in run.stated("server_hello")}
    agents = {name: value for stated in run.stated("agent_posture") for name, value in json.loads(stated).items()}
    yield "## Core posture"
    yield ""
    yield from _table(
        ("posture", "claimed"),
        [
            ("`on_decision_failure`", f"`{hellos.pop()}` in the ServerHello" if len(hellos) == 1 else NO_TEST),
            ("Start-up posture", agents.get("startup", NO_TEST)),
            ("Sessions", f"{NOT_OBSERVED}: tests are counted here, and no deployment is"),
            ("Undecided steps", f"{NOT_OBSERVED}: the same"),
            ("Unguarded sessions", f"{NOT_OBSERVED}: the same"),
            ("Where a decision is recorded", "the Guardian's database, with the entry of its step"),
            ("Where an undecided step is recorded", agents.get("audit", NO_TEST)),
        ],
    )
    yield ""


def _corpus(run: Run) -> Iterator[str]:
    results = [msgspec.json.decode(stated, type=Result) for stated in run.stated("member")]
    yield "## The community's corpus"
    yield ""
    yield f"`vectors-acs-core` has {len(results)} members."
    yield CORPUS
    families: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        families[result.family].append(result)
    rows = []
    for family in sorted(families, key=lambda name: int(name.rpartition("-")[2])):
        rows.append((f"`{family}`", *_counts(families[family])))
    yield from _table(
        ("family", "members", "exercised", "not established", "not claimed", "of them proposals"),
        [*rows, ("all", *_counts(results))],
    )
    yield ""
    exercised = [result for result in results if result.status == "exercised"]
    partly = [result for result in exercised if result.compared == "verdict"]
    yield "Exercised, verdict and code compared where a code is named:"
    yield _ids(result for result in exercised if result.compared != "verdict")
    yield ""
    yield "Exercised, the verdict compared; each is about a record or an outcome, where no code is sent:"
    yield _ids(partly)
    yield ""
    yield "Not exercised:"
    yield ""
    reasons: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.status != "exercised":
            reasons[result.status, result.reason, result.why].append(result)
    for (said, reason, why), found in reasons.items():
        yield f"- {said.replace('_', ' ').upper()} ({reason}), {len(found)}: {why}."
        yield f"  {_ids(found)}"
    yield ""


def _counts(results: Sequence[Result]) -> tuple[str, ...]:
    said = Counter(result.status for result in results)
    numbers = (len(results), said["exercised"], said["not_established"], said["not_claimed"])
    return (*map(str, numbers), str(sum(result.proposal for result in results)))


def _ids(results: Iterable[Result]) -> str:
    return ", ".join(f"`{result.id}`" for result in results) + "."


def _tests(run: Run) -> Iterator[str]:
    yield "## Tests behind each row"
    yield ""
    for row in ROWS:
        for party in ("guardian", "agent"):
            tests = Counter(
                test.partition("[")[0].removeprefix("tests/conformance/") for test in run.behind(row, party)
            )
            if tests:
                yield f"- `{row.name}`, {'Guardian' if party == 'guardian' else 'Observed Agent'}:"
                yield from (f"  - `{name}`{f' ({number} cases)' * (number > 1)}" for name, number in tests.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cells) + " |"


def ran() -> tuple[Run, int]:
    """Run the tests in this process. Return what they found and pytest's exit code."""
    run = Run()
    arguments: list[Any] = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", ROOT]
    code = pytest.main([*map(str, arguments), "-c", str(ROOT / "pyproject.toml"), str(Path(__file__).parent)], [run])
    return run, int(code)


def main(arguments: Sequence[str]) -> int:
    """Run the tests and write the page, into docs/ or to the place that is named."""
    run, code = ran()
    if code != 0:
        sys.stderr.write("a test failed, and from such a run no claim is made\n")
        return 1
    target = Path(arguments[0]) if arguments else PAGE
    target.write_text(page(run))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
