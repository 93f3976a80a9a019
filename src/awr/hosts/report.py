"""Report what compactions did, from the transcripts that hosts left on disk. Needs no project and writes nothing."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from awr.domain.report import (
    Compaction,
    CompactionCounts,
    Facts,
    Report,
    Session,
    SkippedFile,
    Totals,
    flags_of,
    occupancy_percent,
)
from awr.errors import AwrError, InvalidInput, NotFound
from awr.hosts.discovery import default_folders, find_transcripts, read_transcript
from awr.hosts.transcript import Boundary, Host, Progress, Thread, Transcript
from awr.hosts.window import WindowSources
from awr.operations.fields import described

__all__ = ["Chart", "ReportRequest", "ReportResult", "report"]

_MAX_WINDOW = 1_000_000_000
_RELATIVE = re.compile(r"(\d{1,6})([dhm])", re.ASCII)
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}
#: Claims that rows behind the boundary add; a copy may have been cut before them.
_LATE_CLAIMS = frozenset({"estimate_total_tokens"})

BoundaryKey = tuple[object, ...]


class ReportRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to report on. A date or time without a zone is local."""

    path: Annotated[
        tuple[str, ...],
        described(
            "Transcripts, or folders to search; left out, the places where the hosts keep theirs.", argument=True
        ),
    ] = ()
    host: Annotated[
        Literal["auto", "claude-code", "codex"], described("Which host wrote them; auto tells by their rows.")
    ] = "auto"
    window: Annotated[
        int | None, described("The tokens by which the host compacts, stated by you; it goes before every other.")
    ] = None
    since: Annotated[
        str | None, described("Only compactions since then: a date, a time, or an age such as 7d, 12h or 30m.")
    ] = None


class Chart(msgspec.Struct, frozen=True):
    """What the text view draws for the session at the same index, and the JSON body leaves out.

    `peaks` holds the highest footprint of each `stride` requests. `marks` are the numbers of requests before each
    boundary. `minutes_since_previous` goes with the session's compactions, one by one.
    """

    stride: int
    peaks: tuple[int, ...]
    marks: tuple[int, ...]
    minutes_since_previous: tuple[float | None, ...]


class ReportResult(msgspec.Struct, frozen=True):
    """The body to print, a chart for each of its sessions, and the errors of named paths that stay out of it.

    `report` is the public JSON. A caller prints it, then the first of `problems`, and exits with 1 if there is one.
    """

    report: Report
    charts: tuple[Chart, ...]
    problems: tuple[AwrError, ...]

    def public(self) -> Report:
        """Return the part that is JSON."""
        return self.report

    def problem(self) -> AwrError | None:
        """Return the first named path's error, or None."""
        return next(iter(self.problems), None)


class _Found(msgspec.Struct):
    """One file to read. `named` is true when the request names the file itself, so that its error is the caller's."""

    path: Path
    named: bool
    size: int


def report(
    request: ReportRequest,
    *,
    progress: Progress | None = None,
    environment: Mapping[str, str] | None = None,
    now: Callable[[], int] | None = None,
) -> ReportResult:
    """Read every transcript asked for and put the compactions together. `now` gives Unix milliseconds.

    `progress` gets bytes done and bytes in all. Raise InvalidInput for a bad request, NotFound when there is nothing
    to read, and a named path's error when there is no good one beside it.
    """
    environment = os.environ if environment is None else environment
    since = _since(request.since, now=now or _now)
    windows = WindowSources(environment, user_tokens=_window(request.window))
    host: Host | None = None if request.host == "auto" else request.host
    problems: list[AwrError] = []
    found = _find(request, host=host, environment=environment, problems=problems)
    transcripts, skipped = _read(found, host=host, problems=problems, progress=progress)
    if not transcripts and problems:
        raise problems[0]
    result = _assemble(transcripts, skipped=skipped, since=since, windows=windows)
    if request.path and not problems and not _boundaries(transcripts) and all(file.named for file in found):
        problems.append(_no_compaction(transcripts))
    elif not transcripts and not problems:
        problems.append(_nothing_readable(skipped))
    return ReportResult(report=result[0], charts=result[1], problems=tuple(problems))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _window(value: int | None) -> int | None:
    if value is None or 1 <= value <= _MAX_WINDOW:
        return value
    raise InvalidInput(
        "the window is out of range",
        got=value,
        expected=f"a number of tokens from 1 to {_MAX_WINDOW}",
        next_step="give the number of tokens by which the host compacts, or leave it out",
    )


def _since(text: str | None, *, now: Callable[[], int]) -> int | None:
    if text is None:
        return None
    age = _RELATIVE.fullmatch(text.strip())
    if age is not None:
        return now() - int(age[1]) * _UNIT_MS[age[2]]
    try:
        return round(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            "the start of the report is no time",
            got=f"{len(text)} characters",
            expected="an ISO date or time such as 2026-08-01 or 2026-08-01T09:30Z, or an age such as 7d, 12h or 30m",
            next_step="correct the time, or leave it out to report on everything",
        ) from error


def _find(
    request: ReportRequest, *, host: Host | None, environment: Mapping[str, str], problems: list[AwrError]
) -> list[_Found]:
    """List the files once each, whatever ways lead to them."""
    files: list[_Found] = []
    seen: set[tuple[int, int]] = set()
    if request.path:
        for text in request.path:
            path = Path(text)
            if not _is_folder(path):
                _add(files, (path,), named=True, seen=seen)
                continue
            try:
                inside = list(find_transcripts(path))
            except AwrError as error:
                problems.append(_located(error, path=path))
                continue
            _add(files, inside, named=False, seen=seen)
            if not inside:
                problems.append(_located(_nothing_found("that folder"), path=path))
        return files
    for folder, pattern in default_folders(environment, host=host):
        if _is_folder(folder):
            _add(files, find_transcripts(folder, pattern=pattern), named=False, seen=seen)
    if not files:
        problems.append(_nothing_found("the folders of " + (host or "claude-code and codex")))
    return files


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _add(files: list[_Found], paths: Iterable[Path], *, named: bool, seen: set[tuple[int, int]]) -> None:
    for path in paths:
        try:
            status = path.stat()
        except (OSError, ValueError):
            files.append(_Found(path=path, named=named, size=0))
            continue
        identity = (status.st_dev, status.st_ino)
        if identity not in seen:
            seen.add(identity)
            files.append(_Found(path=path, named=named, size=status.st_size))


def _located(error: AwrError, *, path: Path) -> AwrError:
    """Add to an error which of the named paths it is about."""
    error.details.setdefault("location", _shown(path))
    return error


def _nothing_found(where: str) -> NotFound:
    return NotFound(
        "there is no transcript to report on",
        got=f"no *.jsonl file in {where}",
        expected="transcripts of claude-code or codex",
        next_step="give the path of a transcript or of a folder with transcripts",
    )


def _nothing_readable(skipped: list[SkippedFile]) -> NotFound:
    return NotFound(
        "no file found is a transcript to report on",
        got=f"{len(skipped)} files, all skipped",
        expected="at least one transcript of claude-code or codex",
        next_step="look at the reasons in totals.skipped, or give the path of a transcript",
    )


def _no_compaction(transcripts: list[Transcript]) -> NotFound:
    requests = sum(thread.requests for transcript in transcripts for thread in transcript.threads)
    return NotFound(
        "the transcript records no compaction",
        got=f"0 compactions in {requests} requests",
        expected="at least one compaction",
        next_step="report on a longer session, or come back after its first compaction",
    )


def _boundaries(transcripts: list[Transcript]) -> int:
    return sum(len(thread.boundaries) for transcript in transcripts for thread in transcript.threads)


def _read(
    files: list[_Found], *, host: Host | None, problems: list[AwrError], progress: Progress | None
) -> tuple[list[Transcript], list[SkippedFile]]:
    transcripts: list[Transcript] = []
    skipped: list[SkippedFile] = []
    total, done = sum(file.size for file in files), 0
    for file in files:
        step = None if progress is None else _shifted(progress, done=done, size=file.size, total=total)
        try:
            transcripts.append(read_transcript(file.path, host=host, progress=step))
        except AwrError as error:
            if file.named:
                problems.append(_located(error, path=file.path))
            else:
                skipped.append(SkippedFile(path=_shown(file.path), code=error.code, reason=error.what))
        done += file.size
        if progress is not None:
            progress(done, total)
    return transcripts, skipped


def _shifted(progress: Progress, *, done: int, size: int, total: int) -> Progress:
    """Let one file's progress count within all files; a file that grows meanwhile never passes its share."""
    return lambda part, _: progress(done + min(part, size), total)


def _shown(path: str | os.PathLike[str]) -> str:
    """Return a path as text that any encoder takes."""
    return os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _key(thread: Thread, boundary: Boundary) -> BoundaryKey | None:
    """Identify a boundary over all files. Ids alone may collide between providers; the row's other facts may not."""
    if boundary.row_id is None:
        return None
    claims = sorted(claim for claim in boundary.host_claims.items() if claim[0] not in _LATE_CLAIMS)
    return (thread.host, boundary.row_id, boundary.trigger, *claims)


def _owners(transcripts: list[Transcript]) -> dict[BoundaryKey, int]:
    """Map each boundary to the index of the file it was made in: the one whose first row is the oldest.

    A copy may keep the times of its rows; what was copied is the shorter one.
    """

    def age(index: int) -> tuple[bool, int, int, int]:
        first_at = transcripts[index].first_at
        return (first_at is None, first_at or 0, transcripts[index].rows, index)

    owners: dict[BoundaryKey, int] = {}
    for index in sorted(range(len(transcripts)), key=age):
        for thread in transcripts[index].threads:
            for boundary in thread.boundaries:
                key = _key(thread, boundary)
                if key is not None:
                    owners.setdefault(key, index)
    return owners


def _assemble(
    transcripts: list[Transcript], *, skipped: list[SkippedFile], since: int | None, windows: WindowSources
) -> tuple[Report, tuple[Chart, ...]]:
    owners = _owners(transcripts)
    sessions: list[Session] = []
    charts: list[Chart] = []
    failed = 0
    copied = sum(transcript.copied_boundaries for transcript in transcripts)
    for index, transcript in enumerate(transcripts):
        for thread in transcript.threads:
            own = [b for b in thread.boundaries if owners.get(_key(thread, b) or (), index) == index]
            copied += len(thread.boundaries) - len(own)
            kept = [b for b in own if since is None or (b.observed_at is not None and b.observed_at >= since)]
            if since is not None and not kept:
                continue
            failed += thread.failed_after_last + sum(boundary.failed_attempts for boundary in kept)
            sessions.append(_session(thread, boundaries=kept, windows=windows))
            charts.append(_chart(thread, boundaries=kept))
    totals = _totals(transcripts, sessions=sessions, skipped=skipped, failed=failed, copied=copied)
    return Report(sessions=tuple(sessions), totals=totals), tuple(charts)


def _session(thread: Thread, *, boundaries: list[Boundary], windows: WindowSources) -> Session:
    return Session(
        host=thread.host,
        session_id=thread.session_id,
        path=_shown(thread.path),
        agent=thread.agent,
        model=thread.model,
        requests=thread.requests,
        compactions=tuple(_compaction(thread, boundary=boundary, windows=windows) for boundary in boundaries),
    )


def _compaction(thread: Thread, *, boundary: Boundary, windows: WindowSources) -> Compaction:
    window = windows.window(
        thread.host,
        row_tokens=boundary.window_tokens,
        cwd=thread.cwd,
        model=boundary.model or thread.model,
    )
    facts = Facts(
        trigger=boundary.trigger or "unknown",
        before_tokens=None if boundary.before is None else boundary.before.tokens,
        after_tokens=None if boundary.after is None else boundary.after.tokens,
        window_tokens=window.measured,
        requests_since_previous=boundary.requests_since_previous,
        host_after_tokens=boundary.host_after_tokens,
        failed_attempts=boundary.failed_attempts,
    )
    return Compaction(
        compaction_id=boundary.row_id,
        sequence=boundary.sequence,
        trigger=facts.trigger,
        observed_at=boundary.observed_at,
        before_tokens=facts.before_tokens,
        after_tokens=facts.after_tokens,
        context_window_tokens=window.tokens,
        window_source=window.source,
        occupancy_percent=occupancy_percent(facts.after_tokens, window_tokens=window.measured),
        host_before_tokens=boundary.host_before_tokens,
        host_after_tokens=boundary.host_after_tokens,
        duration_ms=boundary.duration_ms,
        requests_since_previous=boundary.requests_since_previous,
        flags=flags_of(facts),
    )


def _chart(thread: Thread, *, boundaries: list[Boundary]) -> Chart:
    times: dict[int, int | None] = {boundary.sequence: boundary.observed_at for boundary in thread.boundaries}
    minutes: list[float | None] = []
    for boundary in boundaries:
        before, at = times.get(boundary.sequence - 1), boundary.observed_at
        # Order is file position; a clock that went back proves no length of time.
        minutes.append(None if before is None or at is None or at < before else (at - before) / 60_000)
    return Chart(
        stride=thread.footprint.stride,
        peaks=thread.footprint.peaks,
        marks=tuple(boundary.position for boundary in boundaries),
        minutes_since_previous=tuple(minutes),
    )


def _totals(
    transcripts: list[Transcript], *, sessions: list[Session], skipped: list[SkippedFile], failed: int, copied: int
) -> Totals:
    compactions = [compaction for session in sessions for compaction in session.compactions]
    triggers = Counter(compaction.trigger for compaction in compactions)
    freed = [
        compaction.before_tokens - compaction.after_tokens
        for compaction in compactions
        if compaction.before_tokens is not None and compaction.after_tokens is not None
    ]
    return Totals(
        files=len(transcripts),
        sessions=sum(session.agent == "main" for session in sessions),
        subagents=sum(session.agent != "main" for session in sessions),
        requests=sum(session.requests for session in sessions),
        compactions=CompactionCounts(
            automatic=triggers["automatic"], manual=triggers["manual"], unknown=triggers["unknown"]
        ),
        measured=len(freed),
        tokens_freed=sum(freed) if freed else None,
        flags=dict(Counter(flag for compaction in compactions for flag in compaction.flags)),
        failed_attempts=failed,
        copied_compactions=copied,
        rows=sum(transcript.rows for transcript in transcripts),
        damaged_rows=sum(transcript.damaged_rows for transcript in transcripts),
        oversized_rows=sum(transcript.oversized_rows for transcript in transcripts),
        skipped=tuple(skipped),
    )
