"""Prints a simulated rule: a timeline for each store, and a line for each episode."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Column
from rich.text import Text

from ops.cli.shared import NOTHING, PLAIN, print_table

RAISED, UNKNOWN, CALM = "█", "░", "·"
_COLUMNS = ("store", "subject", "start", "end", "value", "threshold", "")
_WHOLE_STORE = "none"
_LABEL, _LONG_LABEL = 12, 28
# There may be hundreds of articles, and the table has each of their episodes anyway.
_MAX_LINES = 50
TimeSpan = tuple[datetime, datetime]
# Store and subject.
StoreSubject = tuple[str, str]


def print_simulation(answer: Mapping[str, Any]) -> None:
    """Print the answer of /v1/rules/{id}/simulate to stdout."""
    console = Console()
    episodes, stores = answer["episodes"], answer["stores"]
    begin, end = answer["from"][:16], answer["to"][:16]
    console.print(Text(f"{answer['rule_id']}, {begin}Z to {end}Z, {len(stores):,} stores"))
    _print_lines(console, answer)
    # The table has all episodes: it is the answer, and the lines above are only an overview.
    _print_episodes(episodes)


def _print_lines(console: Console, answer: Mapping[str, Any]) -> None:
    """Print a line for each store, or subject in it, that has an episode."""
    # Most of hundreds of stores are calm, and their lines would all be the same.
    places = [*dict.fromkeys(map(_place, answer["episodes"]))]
    is_whole = all(subject == _WHOLE_STORE for _, subject in places)
    label, most = (_LABEL, None) if is_whole else (_LONG_LABEL, _MAX_LINES)
    width = max(10, min(console.width, 120) - label - 1)
    for store, subject in places[:most]:
        line = time_line(answer, store, width, subject)
        name = store if subject == _WHOLE_STORE else f"{store} {subject}"
        console.print(Text(f"{name[:label]:{label}} {line}"), no_wrap=True)
    if most is not None and len(places) > most:
        console.print(Text(f"and {len(places) - most:,} more"))
    if places:
        console.print(Text(f"{RAISED} raised   {UNKNOWN} not served complete   {CALM} calm"))


def time_line(
    answer: Mapping[str, Any], store: str, width: int, subject: str = _WHOLE_STORE
) -> str:
    """`width` signs from `from` to `to`: raised wins over unknown, and unknown over calm.

    A sign covers a span of time, and shows what happens anywhere in it.
    """
    start, end = _instant(answer["from"]), _instant(answer["to"])
    step = (end - start) / width
    signs = [CALM] * width
    # Later drawing covers earlier drawing, so that raised is never hidden.

    def draw(sign: str, spans: Iterable[tuple[datetime, datetime]]) -> None:
        for since, until in spans:
            first = max(0, int((since - start) / step))
            last = min(width - 1, -int(-(until - start) // step) - 1)
            for place in range(first, max(first, last) + 1):
                signs[place] = sign

    draw(UNKNOWN, _spans(answer, "incomplete", (store, _WHOLE_STORE)))
    draw(RAISED, _spans(answer, "episodes", (store, subject)))
    return "".join(signs)


def _spans(
    answer: Mapping[str, Any],
    name: str,
    place: StoreSubject,
) -> Iterator[TimeSpan]:
    """Begin and end of each entry of the list `name` that belongs to the place."""
    for entry in answer[name]:
        if _place(entry) == place:
            # An open episode goes on to the end.
            yield _instant(entry["start"]), _instant(entry["end"] or answer["to"])


def _place(entry: Mapping[str, Any]) -> StoreSubject:
    # An incomplete window has no subject: it concerns everything in the store.
    return entry["store_id"], entry.get("subject", _WHOLE_STORE)


def _print_episodes(episodes: Sequence[Mapping[str, Any]]) -> None:
    is_whole = all(episode["subject"] == _WHOLE_STORE for episode in episodes)
    names = [name for name in _COLUMNS if not (is_whole and name == "subject")]
    # A subject is a word that may be longer than the screen is wide.
    instants = ("start", "end")
    columns = [Column(name, no_wrap=name in instants, overflow="fold") for name in names]
    rows = []
    for episode in episodes:
        # Minutes are enough for people.
        end = f"{episode['end'][:16]}Z" if episode["end"] else "open"
        numbers = _number(episode["value"]), _number(episode["threshold"])
        sure = "" if episode["complete"] else "not complete"
        place = (episode["store_id"],) if is_whole else (episode["store_id"], episode["subject"])
        rows.append((*place, f"{episode['start'][:16]}Z", end, *numbers, sure))
    print_table(columns, rows, title=f"{len(episodes):,} episodes", **PLAIN)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,g}"


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
