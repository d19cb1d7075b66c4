"""`tally drop`: becomes the process `python -m ingest.drop`."""

import typer

from ops.cli.job import PASSED_ON, become


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("drop", **PASSED_ON)(drop)


def drop(context: typer.Context) -> None:
    """Send the files of a folder to the gateway, and file them; see `tally drop --help`."""
    become("ingest.drop", context)
