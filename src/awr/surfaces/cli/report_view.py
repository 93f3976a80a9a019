"""Draw a compaction report as text: a table and a chart for each session, then the totals and a legend.

Colours appear on a terminal only, and plain ASCII stands in where the stream's encoding has no better signs.
A value that the transcripts do not prove prints as `unknown`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec

from awr.domain.report import FLAG_RULES, Compaction, Report, Session, Totals

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from awr.hosts.report import Chart, ReportResult

__all__ = ["print_report"]

_CHART_WIDTH = 60
_CHART_HEIGHT = 6
_COLUMNS_PER_REQUEST = 6
_PIPED_WIDTH = 120
_SHOWN_SKIPPED = 5
_UNKNOWN = "unknown"


class _Signs(msgspec.Struct, frozen=True):
    """The characters to draw with; `levels` go from empty to a full cell."""

    arrow: str
    mark: str
    levels: str
    encoding: str = "utf-8"

    def show(self, text: str) -> str:
        """Return text from a transcript with a `?` for what a terminal would obey or the stream cannot write."""
        printable = "".join(sign if sign.isprintable() else "?" for sign in text)
        return printable.encode(self.encoding, "replace").decode(self.encoding)


_UNICODE = _Signs(arrow="→", mark="▲", levels=" ▁▂▃▄▅▆▇█")
_ASCII = _Signs(arrow="->", mark="^", levels=" #", encoding="ascii")


def print_report(result: ReportResult, *, stream: TextIO | None = None, home: str | None = None) -> None:
    """Print the report, by default to standard output.

    `home` is the folder to write as `~`, by default the user's own.
    """
    from rich.console import Console

    stream = sys.stdout if stream is None else stream
    # Colours go by the stream alone: rich would also colour a pipe when FORCE_COLOR is set.
    on_terminal = stream.isatty()
    console = Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=on_terminal,
        width=None if on_terminal else _PIPED_WIDTH,
    )
    signs = _signs(stream)
    sessions = result.report.sessions
    home = str(Path.home()) if home is None else home
    for session, chart in zip(sessions, result.charts, strict=True):
        if session.compactions or len(sessions) == 1:
            _print_session(console, session, chart=chart, signs=signs, home=home)
    _print_quiet(console, sessions)
    _print_totals(console, result.report, home=home, signs=signs)
    _print_legend(console, result.report.totals)


def _signs(stream: TextIO) -> _Signs:
    try:
        (_UNICODE.arrow + _UNICODE.mark + _UNICODE.levels).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return msgspec.structs.replace(_UNICODE, encoding=stream.encoding or "ascii")


def _print_session(console: Console, session: Session, *, chart: Chart, signs: _Signs, home: str) -> None:
    from rich.text import Text

    model = _UNKNOWN if session.model is None else signs.show(session.model)
    name = f"{session.host}  {signs.show(_short(session.session_id))}  {signs.show(session.agent)}"
    heading = Text(name, style="bold")
    heading.append(f"  model {model}, {_plural(session.requests, 'request')}", style="not bold")
    console.print(heading, soft_wrap=True)
    console.print(Text(_path(session.path, home=home, signs=signs), style="dim"), soft_wrap=True)
    if session.compactions:
        console.print(_table(session, chart=chart, signs=signs))
    else:
        console.print("No compaction in this session.")
    for line in chart_lines(chart, signs=signs):
        console.print(Text(line), soft_wrap=True)
    console.print()


def _table(session: Session, *, chart: Chart, signs: _Signs) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right")
    for name in ("when", "trigger", f"before {signs.arrow} after", "window", "full", "since the last one", "flags"):
        table.add_column(name)
    minutes = chart.minutes_since_previous
    for compaction, since in zip(session.compactions, minutes, strict=True):
        table.add_row(
            str(compaction.sequence),
            _when(compaction.observed_at),
            compaction.trigger,
            _change(compaction, signs=signs),
            _window(compaction),
            _percent(compaction.occupancy_percent),
            _since(compaction, minutes=since),
            Text(", ".join(compaction.flags), style="yellow"),
        )
    return table


def _change(compaction: Compaction, *, signs: _Signs) -> str:
    change = f"{_number(compaction.before_tokens)} {signs.arrow} {_number(compaction.after_tokens)}"
    if compaction.after_tokens is None and compaction.host_after_tokens is not None:
        change += f"\nhost's estimate: {compaction.host_after_tokens:,}"
    return change


def _window(compaction: Compaction) -> str:
    if compaction.context_window_tokens is None:
        return _UNKNOWN
    return f"{compaction.context_window_tokens:,} ({compaction.window_source})"


def _since(compaction: Compaction, *, minutes: float | None) -> str:
    if compaction.sequence == 1:
        return "first"
    requests = compaction.requests_since_previous
    shown = f"{_UNKNOWN} requests" if requests is None else _plural(requests, "request")
    if minutes is None:
        return f"{shown}, {_UNKNOWN} min"
    return f"{shown}, {'<1' if minutes < 1 else f'{minutes:,.0f}'} min"


def _when(observed_at: int | None) -> str:
    if observed_at is None:
        return _UNKNOWN
    try:
        return datetime.fromtimestamp(observed_at / 1000, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return _UNKNOWN


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.1f} %"


def _plural(value: int, noun: str) -> str:
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def _short(session_id: str | None) -> str:
    return _UNKNOWN if session_id is None else session_id[:8]


def _path(path: str, *, home: str, signs: _Signs) -> str:
    """Write the home folder as `~`."""
    inside = home not in ("", os.sep) and path.startswith(home.rstrip(os.sep) + os.sep)
    shown = "~" + path[len(home.rstrip(os.sep)) :] if inside else path
    return signs.show(shown)


def chart_lines(chart: Chart, *, signs: _Signs = _UNICODE) -> list[str]:
    """Return the footprint over the requests, six lines high, and a line with a mark at each boundary."""
    if not chart.peaks:
        return []
    buckets = len(chart.peaks)
    wide = max(1, min(_COLUMNS_PER_REQUEST, _CHART_WIDTH // buckets))
    width = min(buckets * wide, _CHART_WIDTH)
    columns = [0] * width
    for index in range(max(buckets, width)):
        column, bucket = index * width // max(buckets, width), index * buckets // max(buckets, width)
        columns[column] = max(columns[column], chart.peaks[bucket])
    highest = max(columns)
    label = f"{highest:,}"
    steps = len(signs.levels) - 1
    lines = []
    for row in range(_CHART_HEIGHT):
        floor = (_CHART_HEIGHT - 1 - row) * steps
        cells = (round(value * _CHART_HEIGHT * steps / highest) - floor for value in columns)
        bar = "".join(signs.levels[max(0, min(steps, cell))] for cell in cells)
        side = label if row == 0 else "0" if row == _CHART_HEIGHT - 1 else ""
        lines.append(f"{side:>{len(label)}} |{bar}".rstrip())
    marks = [" "] * width
    for position in chart.marks:
        marks[min(position // chart.stride * width // buckets, width - 1)] = signs.mark
    if chart.marks:
        lines.append(" " * len(label) + "  " + "".join(marks).rstrip() + f"   ({signs.mark} marks a compaction)")
    return lines


def _print_quiet(console: Console, sessions: Sequence[Session]) -> None:
    quiet = [session for session in sessions if not session.compactions]
    if quiet and len(sessions) > 1:
        requests = sum(session.requests for session in quiet)
        console.print(f"{_plural(len(quiet), 'session')} without a compaction ({_plural(requests, 'request')}).\n")


def _print_totals(console: Console, report: Report, *, home: str, signs: _Signs) -> None:
    from rich.text import Text

    totals = report.totals
    triggers = totals.compactions
    every = triggers.automatic + triggers.manual + triggers.unknown
    console.print(Text("Totals", style="bold"))
    console.print(
        f"  {_plural(totals.files, 'file')}, {_plural(totals.sessions, 'session')}, "
        f"{_plural(totals.subagents, 'subagent')}, {_plural(totals.requests, 'request')}"
    )
    console.print(
        f"  {_plural(every, 'compaction')}: {triggers.automatic:,} automatic, {triggers.manual:,} manual, "
        f"{triggers.unknown:,} with an unknown trigger"
    )
    console.print(f"  tokens freed: {_number(totals.tokens_freed)} ({totals.measured:,} measured on both sides)")
    notes = (
        (totals.failed_attempts, "failed or refused attempt"),
        (totals.copied_compactions, "compaction copied by the host, counted once"),
        (totals.damaged_rows, "damaged row passed over"),
        (totals.oversized_rows, "oversized row passed over"),
    )
    for value, noun in notes:
        if value:
            console.print(f"  {noun}: {value:,}")
    if totals.skipped:
        console.print(f"  {_plural(len(totals.skipped), 'file')} skipped:")
        for skipped in totals.skipped[:_SHOWN_SKIPPED]:
            console.print(
                Text(f"    {_path(skipped.path, home=home, signs=signs)}: {skipped.reason}"), soft_wrap=True
            )
        if len(totals.skipped) > _SHOWN_SKIPPED:
            console.print(f"    and {len(totals.skipped) - _SHOWN_SKIPPED:,} more")


def _print_legend(console: Console, totals: Totals) -> None:
    from rich.text import Text

    if not totals.flags:
        return
    console.print(Text("Flags", style="bold"))
    for flag, rule in FLAG_RULES.items():
        if flag in totals.flags:
            console.print(f"  {flag} ({totals.flags[flag]:,}): {rule}", soft_wrap=True)
