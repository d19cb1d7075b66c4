"""`tally replay`: becomes the process `python -m ingest.replay`."""

import typer

from ops.cli.job import PASSED_ON, become


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("replay", **PASSED_ON)(replay)


def replay(context: typer.Context) -> None:
    """Send real receipts, disturbed by seed; see `tally replay --help`."""
    become("ingest.replay", context)
