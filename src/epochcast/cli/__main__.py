"""`python -m epochcast.cli`: the same as `epochcast`."""

from epochcast.cli import main

main()
