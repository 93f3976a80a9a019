"""Run every measurement, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys

from bench.measure import machine

NAMES = (
    "journal_append",
    "journal_verify",
    "cold_start",
    "context_compile",
    "transcript_scan",
    "tool_calls",
    "guardian_requests",
    "guardian_decisions",
)


def main() -> None:
    """Print all figures. Each measurement is a process of its own, so that none inherits another's memory."""
    print(f"Measured on {machine()}. Ratios are to the baseline of the same run.\n", flush=True)
    for name in NAMES:
        subprocess.run([sys.executable, "-m", f"bench.{name}"], check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
