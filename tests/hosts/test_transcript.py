"""The engine: any cut, any damage, flat memory, and nothing but regular files."""

from __future__ import annotations

import json
import os
import random
import socket
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awr.errors import InvalidInput, Io, NotFound
from awr.hosts import claude_code, codex
from awr.hosts.claude_code import ClaudeCodeReader, read_transcript
from awr.hosts.discovery import read_transcript as read_any
from awr.hosts.transcript import Transcript, read_rows

Write = Callable[..., Path]
FOLDER = Path(__file__).parent.parent / "fixtures" / "hosts"
NAMES = sorted(json.loads((FOLDER / "expected.json").read_text()))


def without_snapshot(transcript: Transcript) -> Transcript:
    return msgspec.structs.replace(transcript, snapshot=b"")


def reader_of(name: str) -> Any:
    return codex.read_transcript if "codex" in name else claude_code.read_transcript


def answer(identity: str, tokens: int, **fields: Any) -> dict[str, Any]:
    message = {"id": identity, "model": "m", "usage": {"input_tokens": tokens}}
    return {"type": "assistant", "sessionId": "s-1", "uuid": identity, "message": message, **fields}


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_file_cut_at_any_bytes_gives_the_result_of_one_pass(name: str, data: st.DataObject) -> None:
    content = (FOLDER / name).read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), min_size=1, max_size=4)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        whole = reader_of(name)(path)
        snapshot = None
        for cut in [*cuts, len(content)]:
            path.write_bytes(content[:cut])
            found = reader_of(name)(path, snapshot=snapshot)
            snapshot = found.snapshot
    assert without_snapshot(found) == without_snapshot(whole)


def test_file_cut_at_every_byte_gives_the_result_of_one_pass(tmp_path: Path) -> None:
    content = (FOLDER / "public-claude-boundary-synthetic-zero-then-real-usage.jsonl").read_bytes()
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    whole = without_snapshot(read_transcript(path))
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        snapshot = read_transcript(path).snapshot
        path.write_bytes(content)
        assert without_snapshot(read_transcript(path, snapshot=snapshot)) == whole


@settings(max_examples=60, deadline=None)
@given(order=st.permutations([0] * 6 + [1] * 6), seed=st.integers(0, 1000))
def test_threads_in_any_interleaving_give_what_each_gives_alone(order: list[int], seed: int) -> None:
    choose = random.Random(seed)

    def rows_of(agent: int) -> list[dict[str, Any]]:
        side = {"isSidechain": True, "agentId": "a1"} if agent else {"isSidechain": False}
        rows = [answer(f"{agent}-{n}", choose.randint(10, 90_000), **side) for n in range(5)]
        mark = {"type": "system", "subtype": "compact_boundary", "uuid": f"b{agent}", **side}
        rows.insert(choose.randint(0, 5), {**mark, "compactMetadata": {"trigger": "auto", "preTokens": agent}})
        return rows

    def facts(transcript: Transcript, agent: str) -> list[tuple[Any, ...]]:
        (thread,) = (thread for thread in transcript.threads if thread.agent == agent)
        found = [
            (b.row_id, b.before and b.before.tokens, b.after and b.after.tokens, b.position)
            for b in thread.boundaries
        ]
        return [(thread.requests, thread.footprint.peaks), *found]

    both = [rows_of(0), rows_of(1)]
    with tempfile.TemporaryDirectory() as folder:

        def read(rows: list[dict[str, Any]]) -> Transcript:
            path = Path(folder, "a.jsonl")
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            return read_transcript(path)

        alone = [facts(read(both[0]), "main"), facts(read(both[1]), "a1")]
        queues = [iter(rows) for rows in both]
        together = read([next(queues[agent]) for agent in order])
    assert [facts(together, "main"), facts(together, "a1")] == alone


def test_whole_last_line_without_line_end_counts_once_and_stays_out_of_the_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(answer("m1", 5)).encode())
    first = read_transcript(path)
    with path.open("ab") as file:
        file.write(b"\n" + json.dumps(answer("m2", 7)).encode() + b"\n")
    second = read_transcript(path, snapshot=first.snapshot)

    assert (first.threads[0].requests, first.rows) == (1, 1)
    assert (second.threads[0].requests, second.rows, second.threads[0].footprint.peaks) == (2, 2, (5, 7))


def test_half_last_line_is_left_for_the_next_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(answer("m1", 5)).encode() + b"\n" + json.dumps(answer("m2", 7)).encode()[:-9])
    found = read_transcript(path)

    assert (found.threads[0].requests, found.rows, found.damaged_rows) == (1, 1, 0)


def test_scan_goes_on_without_reading_the_beginning_again(write_rows: Write) -> None:
    path = write_rows([answer(f"m{n}", 5) for n in range(200)])
    first = read_transcript(path)
    content = path.read_bytes()
    path.write_bytes(
        content[:2000] + b"x" * (len(content) - 2001) + b"\n" + json.dumps(answer("n", 9)).encode() + b"\n"
    )

    found = read_transcript(path, snapshot=first.snapshot)
    assert (found.threads[0].requests, found.damaged_rows) == (201, 0)


@pytest.mark.parametrize("change", ["shorter", "other", "garbage", "other host"])
def test_snapshot_that_does_not_fit_is_ignored(write_rows: Write, change: str) -> None:
    path = write_rows([answer("m1", 5), answer("m2", 6)])
    snapshot = read_transcript(path).snapshot
    if change == "shorter":
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    elif change == "other":
        write_rows([answer("x1", 50), answer("x2", 60), answer("x3", 70)])
    elif change == "garbage":
        snapshot = b"\xff not a snapshot"
    else:
        snapshot = codex.read_transcript(path).snapshot

    assert without_snapshot(read_transcript(path, snapshot=snapshot)) == without_snapshot(read_transcript(path))


def test_too_long_line_is_skipped_and_counted_wherever_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = b'{"type":"assistant","message":{"id":"big","usage":{"input_tokens":9}},"x":"' + b"y" * 5000 + b'"}'
    small = [json.dumps(answer(f"m{n}", 5)).encode() for n in range(2)]
    path.write_bytes(b"\n".join([long, small[0], long, small[1], long]) + b"\n" + long)
    found = read_rows(path, make_reader=lambda: ClaudeCodeReader(path=path), max_line_bytes=1000)

    assert (found.threads[0].requests, found.rows, found.oversized_rows) == (2, 5, 3)


def test_scan_goes_on_behind_a_too_long_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def read(snapshot: bytes | None = None) -> Transcript:
        make = lambda: ClaudeCodeReader(path=path)  # noqa: E731
        return read_rows(path, make_reader=make, snapshot=snapshot, max_line_bytes=1000)

    path.write_bytes(b'{"x":"' + b"y" * 5000 + b'"}\n' + json.dumps(answer("m1", 5)).encode() + b"\n")
    first = read()
    with path.open("ab") as file:
        file.write(json.dumps(answer("m2", 6)).encode() + b"\n")

    assert without_snapshot(read(first.snapshot)) == without_snapshot(read())


def test_rows_that_are_no_objects_are_counted_as_damaged(write_rows: Write) -> None:
    path = write_rows([b"[1]", b"null", b'"text"', b"{broken", b"", b"   ", answer("m1", 5), b"[" * 100_000])

    assert read_transcript(path).damaged_rows == 5


def test_memory_stays_flat_while_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    filler = json.dumps({"type": "user", "message": {"content": "z" * 20_000}}).encode() + b"\n"

    def peak(megabytes: int) -> int:
        with path.open("wb") as file:
            for number in range(megabytes * 48):
                file.write(json.dumps(answer(f"m{number}", number + 1)).encode() + b"\n" + filler)
        tracemalloc.start()
        read_transcript(path)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    small, large = peak(3), peak(30)
    assert path.stat().st_size > 29_000_000
    assert large - small < 200_000
    assert large < 4_000_000


def test_progress_ends_at_the_size_of_the_file(write_rows: Write) -> None:
    path = write_rows([{"type": "user", "message": {"content": "z" * 500_000}} for _ in range(6)])
    steps: list[tuple[int, int]] = []
    read_transcript(path, progress=lambda done, total: steps.append((done, total)))

    size = path.stat().st_size
    assert steps[-1] == (size, size)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert len(steps) > 2


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_any(tmp_path / "nothing.jsonl")


def test_folder_pipe_socket_and_device_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        for path in (tmp_path, tmp_path / "pipe", tmp_path / "s", Path("/dev/zero")):
            with pytest.raises(InvalidInput) as refusal:
                read_any(path)
            assert set(refusal.value.details) == {"got", "expected", "next_step"}


def test_path_with_a_zero_byte_is_invalid_input() -> None:
    with pytest.raises(InvalidInput):
        read_any("a\0b")


def test_file_that_the_system_refuses_is_an_io_error(write_rows: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows([answer("m1", 5)])

    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Io) as refusal:
        read_any(path)
    assert refusal.value.details["got"] == "Permission denied"


def test_disk_that_fails_while_reading_is_an_io_error(write_rows: Write) -> None:
    path = write_rows([answer("m1", 5)])

    class Failing(ClaudeCodeReader):
        def read_row(self, line: bytes, *, row: int) -> bool:
            raise OSError(5, "Input/output error")

    with pytest.raises(Io):
        read_rows(path, make_reader=lambda: Failing(path=path))
