"""Commands that become a job of another layer, with its options: ops imports no layer."""

import os
import sys

import typer

from runtime.process.files import python_path

# By command the module that runs, and the line of `tally --help`.
JOBS = {
    "replay": ("ingest.senders.replay", "Send real receipts, disturbed by seed"),
    "simulate": ("ingest.senders.twin", "Let twin stores send what their sensors see"),
    "check": ("ingest.check", "What a file would count as, line by line; nothing is sent"),
    "drop": ("ingest.senders.drop", "Send the files of a folder to the gateway, and file them"),
    "rebuild": ("batch_layer.views.rebuild", "Rebuild the batch views and publish them"),
    "rules baselines": ("batch_layer.views.baselines", "Fix what is usual from tomorrow on"),
}
group = typer.Typer()


def add_job(app: typer.Typer, name: str) -> None:
    """Add a command of JOBS to its verb group."""
    module, text = JOBS[name]

    @app.command(
        name.split()[-1],
        help=f"{text}; see `tally {name} --help`.",
        # All arguments are passed on to the job, --help too.
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        # The process is replaced so that a signal or a kill meant for the job reaches it.
        command = [sys.executable, "-m", module, *context.args]
        environment = {**os.environ, "PYTHONPATH": python_path(os.environ)}
        os.execve(sys.executable, command, environment)


for job in JOBS:
    # Of the other commands each is added by its own verb group.
    if " " not in job:
        add_job(group, job)
