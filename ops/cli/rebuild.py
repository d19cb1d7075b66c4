"""`tally rebuild`: becomes the process `python -m batch_layer.views.rebuild`."""

import typer

from ops.cli.job import PASSED_ON, become


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("rebuild", **PASSED_ON)(rebuild)


def rebuild(context: typer.Context) -> None:
    """Rebuild the batch views and publish them; see `tally rebuild --help`."""
    become("batch_layer.views.rebuild", context)
