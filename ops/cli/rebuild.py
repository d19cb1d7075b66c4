"""`tally rebuild`: becomes the process `python -m batch_layer.views.rebuild`."""

import typer

from ops.cli.job import PASS_ARGUMENTS, replace_process


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("rebuild", **PASS_ARGUMENTS)(rebuild)


def rebuild(context: typer.Context) -> None:
    """Rebuild the batch views and publish them; see `tally rebuild --help`."""
    replace_process("batch_layer.views.rebuild", context)
