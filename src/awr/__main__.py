"""Lets `python -m awr` stand in for the `awr` program."""

from awr.surfaces.entry import main

main()
