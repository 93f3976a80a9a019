"""Where the `awr` program starts, before anything else is imported."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run one command and leave with its exit code."""
    from awr.surfaces.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
