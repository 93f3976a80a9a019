"""Timing in pairs, and printing it the same way everywhere."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

__all__ = ["Figures", "interleaved", "machine", "paired", "print_figures", "process_ms"]


class Figures:
    """Measured values of one thing, in one unit."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = sorted(values)

    @property
    def median(self) -> float:
        """Return the middle value."""
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        """Return the value that 95 of 100 do not exceed."""
        return self.values[min(len(self.values) - 1, int(len(self.values) * 0.95))]


def machine() -> str:
    """Say what this was measured on."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def process_ms(command: Sequence[str]) -> float:
    """Run a whole process and return its milliseconds. Raise CalledProcessError if it fails."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def paired(one: Callable[[], float], other: Callable[[], float], *, runs: int) -> tuple[Figures, Figures, Figures]:
    """Run two things in turn after a warm-up. Return both and the ratios pair by pair."""
    one(), other()
    pairs = [(one(), other()) for _ in range(runs)]
    return (
        Figures([first for first, _ in pairs]),
        Figures([second for _, second in pairs]),
        Figures([first / second for first, second in pairs]),
    )


def interleaved(one: Callable[[], float], other: Callable[[], float], *, runs: int, blocks: int) -> list[Figures]:
    """Run two rates in short turns, so that a machine whose speed drifts slows both alike.

    A run is `blocks` turns of each. Return both and the ratios run by run.
    """
    one(), other()
    totals = []
    for _ in range(runs):
        turns = [(1 / one(), 1 / other()) for _ in range(blocks)]
        totals.append((blocks / sum(turn[0] for turn in turns), blocks / sum(turn[1] for turn in turns)))
    return [
        Figures([first for first, _ in totals]),
        Figures([second for _, second in totals]),
        Figures([first / second for first, second in totals]),
    ]


def print_figures(name: str, *, unit: str, measured: Figures, baseline: Figures, ratio: Figures, budget: str) -> None:
    """Print one line: the ratio first, for absolute figures depend on the machine."""
    print(
        f"{name:<34} ratio {ratio.median:6.2f} (p95 {ratio.p95:6.2f})   budget {budget:<12}"
        f" median {measured.median:9.1f} {unit}, p95 {measured.p95:9.1f}; baseline {baseline.median:9.1f} {unit}"
    )
