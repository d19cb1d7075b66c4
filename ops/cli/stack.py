"""tally up, down, status, doctor: the local stack."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.output import note, print_json

if TYPE_CHECKING:
    from ops.stack.service import Site

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="services; all if none is named")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


def register(app: typer.Typer) -> None:
    """Adds up, down and status."""
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(names: Names = None) -> None:
    """Start what does not run, with all it needs, and return when it is ready."""
    from ops.stack import catalogue, control

    chosen = catalogue.with_needs(catalogue.named(names or ()))
    control.up(_site(), chosen, note)


def down(names: Names = None) -> None:
    """Stop what `up` started; data stays."""
    from ops.stack import catalogue, control

    control.down(_site(), catalogue.named(names or ()), note)


def status(as_json: AsJson = False) -> None:
    """State, process and address of each service; exit code 0 only if all run."""
    from dataclasses import asdict

    from ops.stack import catalogue, control

    states = control.status(_site(), catalogue.named(()))
    if as_json:
        print_json({"services": {name: asdict(state) for name, state in states.items()}})
    else:
        for name, state in states.items():
            print(f"{name:<11} {state.state:<9} {state.pid or '-':>8}  {state.address or '-'}")
    if any(state.state != "running" for state in states.values()):
        raise typer.Exit(1)


def _site() -> "Site":
    from ops.stack.addresses import settings_with_addresses
    from ops.stack.service import Site

    return Site.of(settings_with_addresses(os.environ), os.environ)
