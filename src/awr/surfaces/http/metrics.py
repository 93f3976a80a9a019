"""What the service counts, in the text format that Prometheus reads. Labels come from lists of our own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from awr import errors

__all__ = ["BUCKETS", "CONTENT_TYPE", "OUTCOMES", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Upper bounds of the durations that are counted, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: What a call may come to: it was answered, AWR has a fault, it was no valid call, or the code of a refusal.
OUTCOMES = frozenset({"ok", "fault", "invalid_params", *(name for name in errors.__all__ if name[0].isupper())})

_HELP = (
    ("awr_mcp_calls_total", "counter", "Tool calls that were carried out or refused, by tool and outcome."),
    ("awr_mcp_protocol_errors_total", "counter", "JSON-RPC errors that were answered, by code."),
    ("awr_http_refusals_total", "counter", "HTTP answers of 400 and above, by status."),
    ("awr_mcp_calls_in_flight", "gauge", "Tool calls under way now."),
    ("awr_mcp_call_duration_seconds", "histogram", "How long tool calls took, waiting for the project included."),
    ("awr_acs_requests_total", "counter", "Requests to the Guardian that were answered, by method and outcome."),
)


class Metrics:
    """Counters for one process. They begin at nothing when it starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[str] = Counter()
        self._refusals: Counter[int] = Counter()
        self._acs: Counter[tuple[str, str]] = Counter()
        self._in_flight = 0
        self._durations: dict[str, list[int]] = {kind: [0] * (len(BUCKETS) + 1) for kind in ("read", "write")}
        self._sums = dict.fromkeys(self._durations, 0.0)

    def begin(self) -> None:
        """Count one more call under way."""
        with self._lock:
            self._in_flight += 1

    def end(self, tool: str, *, outcome: str, access: str, seconds: float) -> None:
        """Count a call that has ended. `access` is read or write."""
        slot = next((index for index, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
        with self._lock:
            self._in_flight -= 1
            self._calls[tool, outcome if outcome in OUTCOMES else "other"] += 1
            self._durations[access][slot] += 1
            self._sums[access] += seconds

    def protocol_error(self, code: int) -> None:
        """Count a JSON-RPC error."""
        with self._lock:
            self._errors[str(code) if -32768 <= code <= -32000 else "other"] += 1

    def refusal(self, status: int) -> None:
        """Count an HTTP answer that is an error."""
        with self._lock:
            self._refusals[status] += 1

    def acs(self, method: str, outcome: str) -> None:
        """Count a request to the Guardian. Both words come from the Guardian's own lists."""
        with self._lock:
            self._acs[method, outcome] += 1

    def text(self) -> str:
        """Return everything that was counted."""
        with self._lock:
            lines = {name: list(found) for name, found in self._samples()}
        shown = []
        for name, kind, text in _HELP:
            shown += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines[name]]
        return "\n".join(shown) + "\n"

    def _samples(self) -> Iterator[tuple[str, list[str]]]:
        name = "awr_mcp_calls_total"
        calls = sorted(self._calls.items())
        yield name, [f'{name}{{tool="{tool}",outcome="{outcome}"}} {count}' for (tool, outcome), count in calls]
        name = "awr_mcp_protocol_errors_total"
        yield name, [f'{name}{{code="{code}"}} {count}' for code, count in sorted(self._errors.items())]
        name = "awr_http_refusals_total"
        yield name, [f'{name}{{status="{status}"}} {count}' for status, count in sorted(self._refusals.items())]
        name = "awr_mcp_calls_in_flight"
        yield name, [f"{name} {self._in_flight}"]
        name = "awr_mcp_call_duration_seconds"
        yield name, [line for access in sorted(self._durations) for line in self._histogram(name, access)]

        name = "awr_acs_requests_total"
        asked = sorted(self._acs.items())
        yield name, [f'{name}{{method="{method}",outcome="{outcome}"}} {count}' for (method, outcome), count in asked]

    def _histogram(self, name: str, access: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._durations[access], strict=True):
            total += count
            yield f'{name}_bucket{{access="{access}",le="{bound}"}} {total}'
        yield f'{name}_sum{{access="{access}"}} {self._sums[access]:.6f}'
        yield f'{name}_count{{access="{access}"}} {total}'
