"""What a person may say when starting a Guardian, and what is said to a person who says something else."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.signature import Keys
from tests.support.acs import SECRET, Agent
from tests.support.cli import Outcome, spawn
from tests.support.doors import agent_of, guarding, secret_file

OTHER = b"another secret of tests, also long enough"


def refused(*words: str | Path, code: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the error of both commands, which is the same one."""
    found = []
    for command in ("serve", "stdio"):
        outcome: Outcome = spawn("--json", "guardian", command, *words, environment=environment)
        found.append(outcome.error(code))
    assert found[0] == found[1]
    return found[0]


def test_a_guardian_without_a_secret_says_how_to_make_one(tmp_path: Path) -> None:
    error = refused("--database", tmp_path / "acs.db", code="InvalidInput")
    assert "chmod 600 FILE; give --secret-file FILE" in error["details"]["next_step"]
    assert not (tmp_path / "acs.db").exists()


def test_without_a_project_a_database_has_to_be_named(tmp_path: Path) -> None:
    words = ("--project", tmp_path, "--secret-file", secret_file(tmp_path))
    error = refused(*words, code="NotFound")
    assert "--database FILE" in error["details"]["next_step"]
    assert [path.name for path in tmp_path.iterdir()] == ["acs.secret"]


def test_a_policy_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    words = ("--secret-file", secret_file(tmp_path), "--database", tmp_path / "acs.db", "--policy", "windmill")
    error = refused(*words, code="NotFound")
    assert "observe, trust-boundary, strict, open-work" in error["details"]["expected"]
    assert "windmill" not in json.dumps(error)


def test_a_folder_without_policies_is_no_policy(tmp_path: Path) -> None:
    words = ("--secret-file", secret_file(tmp_path), "--database", tmp_path / "acs.db", "--policy", tmp_path)
    error = refused(*words, code="InvalidInput")
    assert str(tmp_path) not in json.dumps(error)


def test_a_trust_map_that_is_not_there_is_not_taken_for_none(tmp_path: Path) -> None:
    words = (
        "--secret-file",
        secret_file(tmp_path),
        "--database",
        tmp_path / "acs.db",
        "--trust",
        tmp_path / "no.toml",
    )
    refused(*words, code="NotFound")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--secret-file", "a", "--secret-file", "b"), "InvalidInput"),
        (("--secret-file", "a", "--secret-file", "b", "--key-id", "one"), "InvalidInput"),
        (("--secret-file", "a", "--key-id", "one", "--key-id", "two"), "InvalidInput"),
        (("--secret-file", "a", "--secret-file", "b", "--key-id", "one", "--key-id", "one"), "InvalidInput"),
        (("--secret-file", "a", "--secret-env", "B", "--key-id", "one", "--key-id", "two"), "InvalidInput"),
        (("--secret-file", "missing"), "NotFound"),
        (("--secret-env", "MISSING"), "NotFound"),
        (("--secret-env", "SHORT"), "InvalidInput"),
        (("--secret-file", "open"), "RuleViolation"),
    ],
)
def test_secrets_and_labels_that_do_not_fit_are_refused(tmp_path: Path, words: tuple[str, ...], code: str) -> None:
    for name in ("a", "b", "open"):
        secret_file(tmp_path, name=name)
    (tmp_path / "open").chmod(0o644)
    named = [tmp_path / word if before == "--secret-file" else word for before, word in pairwise(("", *words))]
    environment = {"SHORT": "sh0rt-s3cret", "B": SECRET.decode()}
    error = refused(*named, "--database", tmp_path / "acs.db", code=code, environment=environment)
    assert not (tmp_path / "acs.db").exists()
    assert "sh0rt" not in json.dumps(error)
    assert SECRET.decode() not in json.dumps(error)


def test_a_database_that_is_not_ours_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "acs.db").write_bytes(b"a text of somebody's" * 100)
    refused("--secret-file", secret_file(tmp_path), "--database", tmp_path / "acs.db", code="Storage")
    refused("--secret-file", secret_file(tmp_path), "--database", tmp_path / "no" / "acs.db", code="Io")
    assert (tmp_path / "acs.db").read_bytes() == b"a text of somebody's" * 100


def test_an_address_that_is_taken_ends_with_one_error(tmp_path: Path) -> None:
    with guarding(tmp_path) as door:
        host, port = door.running.address
        words = ("--secret-file", tmp_path / "acs.secret", "--database", tmp_path / "other.db")
        spawn("--json", "guardian", "serve", *words, "--listen", f"{host}:{port}").error("Io")
        spawn("--json", "guardian", "serve", *words, "--listen", "nonsense").error("InvalidInput")


def test_a_relative_database_counts_from_the_project_folder(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    words = [
        "--project",
        str(tmp_path / "place"),
        "--secret-file",
        str(secret_file(tmp_path)),
        "--database",
        "acs.db",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "awr", "guardian", "stdio", *words], input=b"", capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "place" / "acs.db").is_file()


def test_during_a_rotation_sessions_of_both_secrets_are_answered_each_under_its_own(tmp_path: Path) -> None:
    files: list[str | Path] = [
        "--secret-file", secret_file(tmp_path, OTHER, name="new"), "--key-id", "2026-12",
        "--secret-file", secret_file(tmp_path, name="old"), "--key-id", "2026-11",
    ]  # fmt: skip
    keys = Keys({"2026-12": OTHER, "2026-11": SECRET})
    with guarding(tmp_path, *files) as door, door.client() as client:
        for label in ("2026-12", "2026-11"):
            agent = Agent(client.send, keys=keys, key_id=label)
            agent.begin()
            answer = agent.step("steps/toolCallRequest")
            assert answer["result"]["decision"] == "allow"
            assert answer["result"]["signature"]["key_id"] == label
        crossed = Agent(client.send, keys=Keys({"2026-12": SECRET}), key_id="2026-12")
        answer = crossed.post(crossed.request("handshake/hello", {}))
        assert answer["error"]["data"]["reason"] == "signature_mismatch"


def test_a_secret_may_come_from_the_environment_and_the_posture_is_what_clients_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACS_SECRET", SECRET.decode())
    with guarding(tmp_path, "--secret-env", "ACS_SECRET", "--on-decision-failure", "deny") as door:
        with door.client() as client:
            assert agent_of(client).begin()["result"]["on_decision_failure"] == "deny"
        assert SECRET.decode() not in door.running.errors()


def test_the_help_of_the_whole_program_does_not_load_a_door() -> None:
    loaded = modules("from awr.surfaces.cli.app import run", "assert run(['--help']) == 0")
    assert "awr.surfaces.cli.app" in loaded
    assert not loaded & {"awr.guardian.guardian", "awr.surfaces.acs", "asyncio", "uvicorn"}


def test_a_guardian_over_http_does_not_pay_for_the_protocol_of_the_other_surface() -> None:
    loaded = modules("import awr.surfaces.acs.main")
    assert "uvicorn" in loaded
    assert not loaded & {"mcp", "mcp_types", "pydantic", "starlette", "ruamel", "rich"}


def modules(*lines: str) -> set[str]:
    """Return what a fresh process has loaded after some lines of Python."""
    script = "\n".join(["import sys", *lines, "print(*sys.modules, file=sys.stderr)"])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())
