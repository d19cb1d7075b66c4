"""`tally dead-letters`: what broke its contract, why, and the way back."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ops.cli.options import JsonOption
from ops.dead_letters import DeadLetterFilter, dead_letter, dead_letters
from ops.dead_letters import replay as replay_letter
from runtime.process.output import print_json
from runtime.records.dead_letter import DeadLetter
from schemas import loader
from tally.config.settings import Settings

_SHOWN_MESSAGE = 80


def register(app: typer.Typer) -> None:
    """Add the verb group to the command line."""
    group = typer.Typer(
        help="Messages that broke their contract: list, show, send again.", no_args_is_help=True
    )
    group.command("list")(list_letters)
    group.command("show")(show)
    group.command("replay")(replay)
    app.add_typer(group, name="dead-letters")


def list_letters(
    reason: Annotated[str, typer.Option(help="only this reason")] = "",
    topic: Annotated[str, typer.Option(help="only of this topic")] = "",
    since: Annotated[
        str, typer.Option(metavar="INSTANT", help="only from this instant or UTC day on")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Dead letters, oldest first.\f

    Raises BadParameter for a reason that there is not.
    """
    letters = _matching_letters(Settings.load(), reason, topic, since)
    if json:
        print_json({"dead_letters": [asdict(letter) for letter in letters]})
    else:
        _print_table(letters)


def show(
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="topic:partition:offset")],
    json: JsonOption = False,
) -> None:
    """One dead letter with the redacted bytes of its original."""
    letter = asdict(dead_letter(Settings.load(), letter_id))
    if json:
        print_json(letter)
        return
    # The values come from an unknown sender: no control character may reach the terminal.
    for name, value in letter.items():
        print(
            f"{name:10} {ascii(value) if value is None or not str(value).isprintable() else value}"
        )


def replay(
    letter_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID…]", help="topic:partition:offset; else all that are wanted"),
    ] = None,
    reason: Annotated[str, typer.Option(help="all of this reason")] = "",
    topic: Annotated[str, typer.Option(help="all of this topic")] = "",
    since: Annotated[
        str, typer.Option(metavar="INSTANT", help="all from this instant or UTC day on")
    ] = "",
    fix: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="send this file's content instead (one ID)"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Send originals to their raw topic again; what was stored already counts once.

    After an adapter, the stores file or a setting was corrected: all letters of a reason at once.
    \f
    Raises BadParameter for one correction of several letters, and where nothing says which.
    """
    is_wanted = bool(reason or topic or since)
    if is_wanted == bool(letter_ids):
        raise typer.BadParameter("give IDs, or which of all: --reason, --topic, --since")
    if fix is not None and len(letter_ids or ()) != 1:
        raise typer.BadParameter("--fix corrects one message: give one ID")
    settings = Settings.load()
    if is_wanted:
        letters = _matching_letters(settings, reason, topic, since)
    else:
        # All letters are looked up before the first is sent, so that a misspelt id sends none.
        letters = [dead_letter(settings, letter_id) for letter_id in letter_ids or ()]
    fixed = None if fix is None else fix.read_bytes()
    sent = [
        {"id": letter.id, "sent_as": replay_letter(settings, letter, fixed)} for letter in letters
    ]
    if json:
        print_json({"replayed": sent})
        return
    for replayed in sent:
        print(f"{replayed['id']} sent again as {replayed['sent_as']}")


def _matching_letters(settings: Settings, reason: str, topic: str, since: str) -> list[DeadLetter]:
    if reason and reason not in loader.dead_letter_reasons():
        raise typer.BadParameter(
            f"no reason {reason!r}; there are {', '.join(loader.dead_letter_reasons())}"
        )
    wanted = DeadLetterFilter(reason, topic, instant_option(since))
    return [letter for letter in dead_letters(settings).values() if wanted.matches(letter)]


def instant_option(text: str) -> datetime | None:
    """The instant of an option, in UTC if it names no offset; None for an empty one.

    Raises BadParameter.
    """
    try:
        instant = datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no instant; write for example 2017-09-19T22:48:03Z or 2017-09-19"
        ) from error
    return instant if instant is None or instant.tzinfo else instant.replace(tzinfo=UTC)


def _print_table(letters: Sequence[DeadLetter]) -> None:
    table = Table(
        Column("id", no_wrap=True),
        Column("reason", no_wrap=True),
        "attempts",
        "first seen",
        "message",
        title=f"{len(letters):,} dead letters",
    )
    for letter in letters:
        # Text, not markup, and on one line: the message comes from an unknown sender.
        message = Text(letter.message[:_SHOWN_MESSAGE].replace("\n", " "))
        table.add_row(letter.id, letter.reason, str(letter.attempts), letter.first_seen, message)
    Console().print(table)
