"""The `tally` command: collects the verb groups; turns errors into one line and an exit code."""

import os
from importlib import import_module

import typer

from runtime.process.job import run_command

# One module of ops/cli each, with a `group`; the commands of a group without a name are verbs
# themselves. They import what they need inside their commands, so that --help is quick.
# What follows \f in a verb's docstring is for its caller: --help stops there.
VERBS = (
    "stack",
    "jobs",
    "audit",
    "query",
    "demo",
    "refused",
    "decisions",
    "stores",
    "alerts.alerts",
    "alerts.rules",
    "alerts.channels",
)


def build_app() -> typer.Typer:
    """The application with every verb group registered."""
    app = typer.Typer(
        name="tally",
        help=(
            "Exactly-once retail analytics:"
            " run the local stack, replay receipts, rebuild, audit and ask."
        ),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for verb in VERBS:
        app.add_typer(import_module(f"ops.cli.{verb}").group)
    return app


def main() -> int:
    """Exit code: 0 done, 1 failed or differs, 2 wrong use."""
    # The verbs write and start things that hold receipts, which only their owner may read.
    os.umask(0o077)
    return run_command("tally", lambda: build_app()())
