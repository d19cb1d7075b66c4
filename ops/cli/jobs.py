"""Commands that become a job of another layer.

The job has the options, so that ops imports no layer.
"""

import os
import sys
from typing import Any, NoReturn

import typer

from runtime.process.repository import python_path

# All arguments are passed on to the job, --help too.
PASS_ARGUMENTS: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True, "allow_extra_args": True},
    "add_help_option": False,
}
# By command the module that runs, and the line of `tally --help`.
JOBS = {
    "replay": ("ingest.senders.replay", "Send real receipts, disturbed by seed"),
    "simulate": ("ingest.senders.twin", "Let twin stores send what their sensors see"),
    "check": ("ingest.check", "What a file would count as, line by line; nothing is sent"),
    "drop": ("ingest.senders.drop", "Send the files of a folder to the gateway, and file them"),
    "rebuild": ("batch_layer.views.rebuild", "Rebuild the batch views and publish them"),
}


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for name, (module, text) in JOBS.items():
        _register_job(app, name, module, text)


def replace_process(module: str, context: typer.Context) -> NoReturn:
    """Replace this process by `python -m module`, with the arguments of the command."""
    # The process is replaced so that a signal or a kill meant for the job reaches it.
    os.execve(
        sys.executable,
        [sys.executable, "-m", module, *context.args],
        {**os.environ, "PYTHONPATH": python_path(os.environ)},
    )


def _register_job(app: typer.Typer, name: str, module: str, text: str) -> None:
    @app.command(name, help=f"{text}; see `tally {name} --help`.", **PASS_ARGUMENTS)
    def run(context: typer.Context) -> None:
        replace_process(module, context)
