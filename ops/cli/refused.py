"""`tally refused` and `tally dead-letters`: what does not count, why, and the way back."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.shared import JsonOption, build_table, one_line, print_answer, whole_column
from ops.dead_letters import DeadLetterFilter, dead_letter, dead_letters
from ops.dead_letters import replay as replay_letter
from runtime.records.dead_letter import DeadLetter
from schemas import loader
from tally.config.settings import Settings

_SHOWN_MESSAGE, _SHOWN_LETTER = 120, 80

_SINCE = typer.Option(metavar="INSTANT", help="only from this instant or UTC day on")

group = typer.Typer()
letter_group = typer.Typer(
    name="dead-letters",
    help="Messages that broke their contract: list, show, send again.",
    no_args_is_help=True,
)
group.add_typer(letter_group)


@group.command("refused")
def list_refused(
    store: Annotated[str, typer.Option(help="only of this store")] = "",
    reason: Annotated[str, typer.Option(help="only for this reason, or `waits`, `unmapped`")] = "",
    since: Annotated[str, _SINCE] = "",
    json: JsonOption = False,
) -> None:
    """What was refused or waits, by store and reason, with the fix.

    What a gateway has answered with 422 is with its sender and not here.
    """
    from ops.audit.refused import list_refused_events
    from runtime.connect import cassandra_session

    settings, chosen = Settings.load(), DeadLetterFilter(reason, "", _instant(since))
    with cassandra_session(settings) as session:
        found = list_refused_events(settings, session, chosen, store)
    columns = (whole_column("store"), whole_column("reason"), "events", "last", "message")
    rows = []
    for events in found:
        place = events.store or "not known", events.reason, f"{events.events:,}", events.last[:16]
        rows.append((*place, _cut(events.message, _SHOWN_MESSAGE), events.fix))
    count = sum(events.events for events in found)
    table = build_table((*columns, "what to do"), rows, title=f"{count:,} events do not count")
    print_answer(json, {"refused": [events._asdict() for events in found]}, table)


@letter_group.command("list")
def list_letters(
    reason: Annotated[str, typer.Option(help="only this reason")] = "",
    topic: Annotated[str, typer.Option(help="only of this topic")] = "",
    since: Annotated[str, _SINCE] = "",
    json: JsonOption = False,
) -> None:
    """Dead letters, oldest first.\f

    Raises BadParameter for a reason that there is not.
    """
    letters = _matching_letters(Settings.load(), reason, topic, since)
    columns = (whole_column("id"), whole_column("reason"), "attempts", "first seen", "message")
    rows = []
    for letter in letters:
        place = letter.id, letter.reason, str(letter.attempts), letter.first_seen
        rows.append((*place, _cut(letter.message, _SHOWN_LETTER)))
    table = build_table(columns, rows, title=f"{len(letters):,} dead letters")
    print_answer(json, {"dead_letters": [asdict(letter) for letter in letters]}, table)


@letter_group.command()
def show(
    letter_id: Annotated[str, typer.Argument(metavar="ID", help="topic:partition:offset")],
    json: JsonOption = False,
) -> None:
    """One dead letter with the redacted bytes of its original."""
    letter = asdict(dead_letter(Settings.load(), letter_id))
    lines = (f"{name:10} {one_line(str(value))}" for name, value in letter.items())
    print_answer(json, letter, lines)


@letter_group.command()
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

    After an adapter, the stores file or a setting was corrected: all letters of a reason at once.\f
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
    corrected = None if fix is None else fix.read_bytes()
    sent = [
        {"id": letter.id, "sent_as": replay_letter(settings, letter, corrected)}
        for letter in letters
    ]
    lines = (f"{message['id']} sent again as {message['sent_as']}" for message in sent)
    print_answer(json, {"replayed": sent}, lines)


def _matching_letters(settings: Settings, reason: str, topic: str, since: str) -> list[DeadLetter]:
    if reason and reason not in loader.dead_letter_reasons():
        raise typer.BadParameter(
            f"no reason {reason!r}; there are {', '.join(loader.dead_letter_reasons())}"
        )
    chosen = DeadLetterFilter(reason, topic, _instant(since))
    return [letter for letter in dead_letters(settings).values() if chosen.matches(letter)]


def _instant(text: str) -> datetime | None:
    """The instant of an option, in UTC if it names no offset; None for an empty one."""
    try:
        instant = datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is no instant; write for example 2017-09-19T22:48:03Z or 2017-09-19"
        ) from error
    return instant if instant is None or instant.tzinfo else instant.replace(tzinfo=UTC)


def _cut(message: str, length: int) -> str:
    return message[:length].replace("\n", " ")
