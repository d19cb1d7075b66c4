"""The `tally` command: collects the verb groups; turns errors into one line and an exit code."""

import os
import sys
from importlib import import_module

import typer

from tally.errors import TallyError

# One module of ops/cli each, with `register(app)`. They import what they need inside their
# commands, so that --help is quick.
VERBS = ("stack", "replay", "rebuild", "audit", "backfill", "query", "dead_letters", "gaps", "demo")

DONE, FAILED = 0, 1


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
        import_module(f"ops.cli.{verb}").register(app)
    return app


def main() -> int:
    """Exit code: 0 done, 1 failed or differs, 2 wrong use."""
    # Receipts pass through what the verbs write and start: their owner's alone.
    os.umask(0o077)
    try:
        build_app()()
    except TallyError as error:
        print(f"tally: {error}", file=sys.stderr)
        return FAILED
    return DONE
