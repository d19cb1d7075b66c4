"""`tally simulate`: becomes the process `python -m ingest.twin`."""

import typer

from ops.cli.job import PASSED_ON, become


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("simulate", **PASSED_ON)(simulate)


def simulate(context: typer.Context) -> None:
    """Let twin stores send what their sensors see; see `tally simulate --help`."""
    become("ingest.twin", context)
