"""A simulated rule for people: a line of time for each store, and one line for each episode."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

RAISED, UNKNOWN, CALM = "█", "░", "·"
_COLUMNS = ("store", "subject", "start", "end", "value", "threshold", "")
_WHOLE_STORE = "none"
_LABEL, _LONG_LABEL = 12, 28
# Of articles there may be hundreds, and the table has each of their episodes.
_MOST_LINES = 50
_NOTHING = "–"
TimeSpan = tuple[datetime, datetime]
# Store and subject.
StoreSubject = tuple[str, str]


def print_simulation(answer: Mapping[str, Any]) -> None:
    """The answer of /v1/rules/{id}/simulate, on stdout."""
    console = Console()
    episodes, stores = answer["episodes"], answer["stores"]
    begin, end = answer["from"][:16], answer["to"][:16]
    console.print(Text(f"{answer['rule_id']}, {begin}Z to {end}Z, {len(stores):,} stores"))
    _print_lines(console, answer)
    # Every one, however many: this is the answer, and the lines above are a look at it.
    console.print(_table(episodes))
    if answer["against"] is not None:
        _print_against(console, answer["against"])


def _print_lines(console: Console, answer: Mapping[str, Any]) -> None:
    """One for each store, or thing in it, that has an episode."""
    # Of hundreds of stores most are calm, and their lines would all be the same.
    places = [*dict.fromkeys(map(_place, answer["episodes"]))]
    is_whole = all(subject == _WHOLE_STORE for _, subject in places)
    label, most = (_LABEL, None) if is_whole else (_LONG_LABEL, _MOST_LINES)
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
    """So many signs from `from` to `to`: raised before not known before calm.

    A sign is a stretch of time; whatever is anywhere in it is shown.
    """
    start, end = _instant(answer["from"]), _instant(answer["to"])
    each = (end - start) / width
    signs = [CALM] * width
    # What is drawn later lies above: that it was raised is never hidden.

    def draw(sign: str, spans: Iterable[tuple[datetime, datetime]]) -> None:
        for since, until in spans:
            first = max(0, int((since - start) / each))
            last = min(width - 1, -int(-(until - start) // each) - 1)
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
    """Begin and end of each entry of a list that is of the place."""
    for one in answer[name]:
        if _place(one) == place:
            # What is open goes on to the end.
            yield _instant(one["start"]), _instant(one["end"] or answer["to"])


def _place(one: Mapping[str, Any]) -> StoreSubject:
    # What is not served complete is so of all that is in the store.
    return one["store_id"], one.get("subject", _WHOLE_STORE)


def _table(episodes: Iterable[Mapping[str, Any]]) -> Table:
    found = [*episodes]
    is_whole = all(one["subject"] == _WHOLE_STORE for one in found)
    names = [name for name in _COLUMNS if not (is_whole and name == "subject")]
    # A subject is a word that may be longer than the screen is wide.
    fixed = "start", "end"
    columns = [Column(name, no_wrap=name in fixed, overflow="fold") for name in names]
    title = f"{len(found):,} episodes"
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD)
    for one in found:
        # Minutes are enough for people.
        end = f"{one['end'][:16]}Z" if one["end"] else "open"
        # Text and not markup: a store's id is a stranger's.
        numbers = _number(one["value"]), _number(one["threshold"])
        sure = "" if one["complete"] else "not complete"
        place = (one["store_id"],) if is_whole else (one["store_id"], one["subject"])
        shown = (*place, f"{one['start'][:16]}Z", end, *numbers, sure)
        table.add_row(*map(Text, shown))
    return table


def _print_against(console: Console, told: Mapping[str, Any]) -> None:
    differences = told["differences"]
    count = f"{told['compared']:,} compared with what was told, {len(differences):,} differ"
    console.print(Text(f"{count}; {told['left_out']:,} left out, not settled"))
    for one in differences:
        kind = one["kind"].replace("_", " ")
        own = f" ({one['alert_id'][:12]})" if one["alert_id"] else ""
        of = "" if one["subject"] == _WHOLE_STORE else f" {one['subject']}"
        when = f"{one['window']} {one['edge']}"
        console.print(Text(f"store {one['store_id']}{of} {when}: {kind}{own}"))


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,g}"


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
