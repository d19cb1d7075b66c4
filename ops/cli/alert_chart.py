"""A simulated rule for people: a line of time for each store, and one line for each episode."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

RAISED, UNKNOWN, CALM = "█", "░", "·"
_COLUMNS = ("store", "start", "end", "value", "threshold", "")
_LABEL = 12
_NOTHING = "–"
TimeSpan = tuple[datetime, datetime]


def print_simulation(answer: Mapping[str, Any]) -> None:
    """The answer of /v1/rules/{id}/simulate, on stdout."""
    console = Console()
    episodes, stores = answer["episodes"], answer["stores"]
    begin, end = answer["from"][:16], answer["to"][:16]
    console.print(Text(f"{answer['rule_id']}, {begin}Z to {end}Z, {len(stores):,} stores"))
    raised = {one["store_id"] for one in episodes}
    width = max(10, min(console.width, 120) - _LABEL - 1)
    # Of hundreds of stores most are calm, and their lines would all be the same.
    for store in (one for one in stores if one in raised):
        line = time_line(answer, store, width)
        console.print(Text(f"{store[:_LABEL]:{_LABEL}} {line}"), no_wrap=True)
    if raised:
        console.print(Text(f"{RAISED} raised   {UNKNOWN} not served complete   {CALM} calm"))
    # Every one, however many: this is the answer, and the lines above are a look at it.
    console.print(_table(episodes))
    if answer["against"] is not None:
        _print_against(console, answer["against"])


def time_line(answer: Mapping[str, Any], store: str, width: int) -> str:
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

    draw(UNKNOWN, _spans(answer, "incomplete", store))
    draw(RAISED, _spans(answer, "episodes", store))
    return "".join(signs)


def _spans(
    answer: Mapping[str, Any],
    name: str,
    store: str,
) -> Iterator[TimeSpan]:
    """Begin and end of each entry of a list that is of the store."""
    for one in answer[name]:
        if one["store_id"] == store:
            # What is open goes on to the end.
            yield _instant(one["start"]), _instant(one["end"] or answer["to"])


def _table(episodes: Iterable[Mapping[str, Any]]) -> Table:
    found = [*episodes]
    columns = [Column(name, no_wrap=name in ("start", "end")) for name in _COLUMNS]
    title = f"{len(found):,} episodes"
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD)
    for one in found:
        # Minutes are enough for people.
        end = f"{one['end'][:16]}Z" if one["end"] else "open"
        # Text and not markup: a store's id is a stranger's.
        numbers = _number(one["value"]), _number(one["threshold"])
        sure = "" if one["complete"] else "not complete"
        shown = (one["store_id"], f"{one['start'][:16]}Z", end, *numbers, sure)
        table.add_row(*map(Text, shown))
    return table


def _print_against(console: Console, told: Mapping[str, Any]) -> None:
    differences = told["differences"]
    count = f"{told['compared']:,} compared with what was told, {len(differences):,} differ"
    console.print(Text(f"{count}; {told['left_out']:,} left out, not settled"))
    for one in differences:
        kind = one["kind"].replace("_", " ")
        own = f" ({one['alert_id'][:12]})" if one["alert_id"] else ""
        console.print(Text(f"store {one['store_id']} {one['window']} {one['edge']}: {kind}{own}"))


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,g}"


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
