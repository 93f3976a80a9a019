"""The audit file: one line for one record, for its owner's eyes, durable."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from awr.client.acs.audit import AuditFile, AuditRecord
from awr.errors import AwrError, Io, RuleViolation

RECORD = AuditRecord(
    time="2026-09-21T14:13:20.000Z", session_id="s", event="decision_failure", applied="deny", failure="timeout"
)


def test_a_record_is_one_line_of_json_without_what_does_not_apply(tmp_path: Path) -> None:
    sink = AuditFile(tmp_path / "audit.jsonl")
    sink(RECORD)
    sink(RECORD)
    sink.close()
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "time": "2026-09-21T14:13:20.000Z",
            "session_id": "s",
            "event": "decision_failure",
            "applied": "deny",
            "class": "timeout",
        }
    ] * 2


def test_the_file_is_its_owners_alone_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        sink = AuditFile(path)
        sink(RECORD)
        sink.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().splitlines()) == 2


def test_the_lines_of_many_writers_do_not_mix(tmp_path: Path) -> None:
    def write(number: int) -> None:
        sink = AuditFile(tmp_path / "audit.jsonl")
        for _ in range(20):
            sink(RECORD)
        sink.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert len(lines) == 160
    assert len({tuple(json.loads(line)) for line in lines}) == 1


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o644)
    path.chmod(0o644)
    with pytest.raises(RuleViolation):
        AuditFile(path)


def test_a_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuleViolation):
        AuditFile(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(AwrError):
        AuditFile(tmp_path / "pipe")


def test_a_folder_that_is_not_there_is_told_by_its_error(tmp_path: Path) -> None:
    with pytest.raises(Io):
        AuditFile(tmp_path / "absent" / "audit.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_record_that_cannot_be_kept_is_told_by_its_error(tmp_path: Path) -> None:
    sink = AuditFile(tmp_path / "audit.jsonl")
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), sink._descriptor)
    with pytest.raises(Io):
        sink(RECORD)
    sink.close()
