"""Where hosts keep their transcripts, and to which host a file belongs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from awr.errors import InvalidInput, Io, Unsupported
from awr.hosts import claude_code, codex
from awr.hosts.rows import lenient_row
from awr.hosts.transcript import Host, Progress, Transcript, open_regular
from awr.hosts.window import claude_folder, home_folder

__all__ = ["codex_folder", "default_folders", "find_transcripts", "host_of", "read_transcript"]

#: How far into a file its host must show. Transcripts of a known host do so in their first row.
_HEAD_ROWS = 200
_HEAD_BYTES = 4 * 1024 * 1024

_CODEX_TYPES = frozenset(
    {"session_meta", "event_msg", "response_item", "compacted", "turn_context", "token_usage_record", "world_state"}
)
_CLAUDE_MESSAGE_TYPES = frozenset({"user", "assistant"})
_SESSION_KEYS = ("sessionId", "session_id")


def codex_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Codex keeps its settings and rollouts."""
    configured = environment.get("CODEX_HOME")
    return Path(configured) if configured else home_folder(environment) / ".codex"


def default_folders(environment: Mapping[str, str], *, host: Host | None = None) -> tuple[tuple[Path, str], ...]:
    """Return the folders that a host's transcripts live in, each with the pattern of a transcript's name."""
    folders: list[tuple[Path, str]] = []
    if host != "codex":
        folders.append((claude_folder(environment) / "projects", "*.jsonl"))
    if host != "claude-code":
        home = codex_folder(environment)
        folders += [(home / "sessions", "rollout-*.jsonl"), (home / "archived_sessions", "rollout-*.jsonl")]
    return tuple(folders)


def find_transcripts(folder: Path, *, pattern: str = "*.jsonl") -> Iterator[Path]:
    """Yield files of that name in the folder and below, in a fixed order. Links to folders are not followed.

    Raise Io when the folder itself cannot be listed; what cannot be listed below it is passed over.
    """
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise Io(
            "the folder cannot be listed",
            got=error.strerror or type(error).__name__,
            expected="a readable folder",
            next_step="check the folder's permissions, or give the path of one transcript",
        ) from error
    for parent, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(files):
            found = Path(parent, name)
            if found.match(pattern):
                yield found


def host_of(path: str | os.PathLike[str]) -> Host:
    """Return the host that wrote a transcript, told by the shape of its first rows.

    Raise NotFound, InvalidInput (not a file, empty, no JSON object a line), Unsupported (another host) or Io.
    """
    objects = 0
    with open_regular(path) as file:
        budget = _HEAD_BYTES
        for _ in range(_HEAD_ROWS):
            line = file.readline(_HEAD_BYTES)
            if not line or budget < 0:
                break
            budget -= len(line)
            row = lenient_row(line)
            if row is None:
                continue
            objects += 1
            host = _host_of_row(row)
            if host is not None:
                return host
        size = file.seek(0, os.SEEK_END)
    if objects:
        raise Unsupported(
            "this is no transcript of a host that AWR reads",
            got="JSON rows of another host",
            expected="a transcript of claude-code or a rollout of codex",
            next_step="give the host's own transcript, not its hook, request or event log",
        )
    raise InvalidInput(
        "the transcript holds no row" if size else "the transcript is empty",
        got=f"{size} bytes without a JSON object" if size else "0 bytes",
        expected="one JSON object a line",
        next_step="check that this is the file the host wrote, or wait for its first whole row",
    )


def read_transcript(
    path: str | os.PathLike[str],
    *,
    host: Host | None = None,
    snapshot: bytes | None = None,
    progress: Progress | None = None,
) -> Transcript:
    """Read a transcript with the reader of its host.

    With `host` the file must be that host's. Raise what `host_of` raises; `snapshot` is that of `read_rows`.
    """
    found = host_of(path)
    if host is not None and host != found:
        raise Unsupported(
            "the transcript is of another host",
            got=found,
            expected=host,
            next_step=f"repeat with host {found}, or let the host be found",
        )
    read = claude_code.read_transcript if found == "claude-code" else codex.read_transcript
    return read(path, snapshot=snapshot, progress=progress)


def _host_of_row(row: dict[str, Any]) -> Host | None:
    kind = row.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _CODEX_TYPES and isinstance(row.get("payload"), dict):
        return "codex"
    message = row.get("message")
    # Hosts derived from another one write the same outer rows with `parts` in the message.
    if isinstance(message, dict) and "parts" in message:
        return None
    if kind in _CLAUDE_MESSAGE_TYPES:
        return "claude-code" if isinstance(message, dict) else None
    if kind == "system" and isinstance(row.get("subtype"), str):
        return "claude-code"
    if kind == "summary":
        return "claude-code" if "leafUuid" in row else None
    has_session = any(isinstance(row.get(key), str) for key in _SESSION_KEYS)
    return "claude-code" if has_session or kind == "file-history-snapshot" else None
