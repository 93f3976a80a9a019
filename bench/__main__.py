"""Run every measurement, one after the other: `make bench`."""

from __future__ import annotations

from importlib import import_module

from bench.measure import machine

NAMES = ("journal_append", "journal_verify", "cold_start", "context_compile", "transcript_scan")


def main() -> None:
    """Print all figures."""
    print(f"Measured on {machine()}. Ratios are to the baseline of the same run.\n")
    for name in NAMES:
        import_module(f"bench.{name}").main()
        print()


if __name__ == "__main__":
    main()
