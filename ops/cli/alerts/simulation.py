"""`tally alerts simulate`: the alerts that a rule would have sent over past days, as a chart."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Column
from rich.text import Text

from ops.cli.shared import NOTHING, PLAIN, JsonOption, api_client, print_table
from runtime.process.output import print_json, print_note

RAISED, UNKNOWN, CALM = "█", "░", "·"
_WHOLE_STORE = "none"
_LABEL, _LONG_LABEL = 12, 28
# There may be hundreds of articles, and the table has each of their episodes anyway.
_MAX_LINES = 50
# Lists of which each page has the part of its own stores, and the count that is added up.
_ADDED = ("stores", "episodes", "incomplete", "begun_before", "articles")
# Store and subject.
StoreSubject = tuple[str, str]


def simulate(
    rule: Annotated[
        str, typer.Argument(metavar="RULE", help="id of a rule that was applied, or a rule's file")
    ],
    from_: Annotated[
        str, typer.Option("--from", help="inclusive: YYYY-MM-DD (UTC) or an instant with offset")
    ],
    to: Annotated[str, typer.Option("--to", help="exclusive, as --from; at most 400 days on")],
    store: Annotated[
        str, typer.Option("--store", help="store ids, comma between; of them the rule's")
    ] = "all",
    json: JsonOption = False,
) -> None:
    """What RULE would have published over past days, as generations serve them now.

    As if it had always been in force.\f
    Raises BadParameter for a file that is no rule, TallyError with the API's own words.
    """
    rule_id, draft = _read_rule(rule)
    body = {"from": from_, "to": to, "store": [store], "rule": draft}
    path = f"/v1/rules/{quote(rule_id, safe='')}/simulate"
    with api_client("alerts") as api:
        whole = _join_pages(api.pages(path, body=body))
    if json:
        print_json(whole)
    else:
        print_simulation(whole)
    # On stderr, also with --json: a program that reads only the numbers has `complete`.
    for line in _caveats(whole):
        print_note(line)


def _read_rule(rule: str) -> tuple[str, dict[str, Any] | None]:
    """The rule's id, and the rule of the file if one was named."""
    from alerting.rules.rule import rule_to_fields
    from alerting.rules.rule_file import parse_rule_yaml
    from tally.errors import BadRule

    file = Path(rule)
    # No id has a dot or a slash, so a text that looks like a file must be one.
    if not (file.suffix in (".yaml", ".yml") or "/" in rule):
        return rule, None
    try:
        parsed_rule = parse_rule_yaml(file.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{rule}: cannot be read: {error.strerror}") from error
    except BadRule as error:
        problems = (f"{rule}: {problem}" for problem in error.problems)
        raise typer.BadParameter("; ".join(problems)) from error
    return parsed_rule.rule_id, rule_to_fields(parsed_rule)


def _join_pages(pages: Iterator[dict[str, Any]]) -> dict[str, Any]:
    # There is always a first page, if only to say that no store is asked for.
    whole = page = next(pages)
    while page["next"]:
        # Only the last page shows how many stores there are.
        print_note(f"alerts: {len(whole['stores']):,} stores simulated")
        page = next(pages)
        for name in _ADDED:
            whole[name] += page[name]
        whole["complete"] = whole["complete"] and page["complete"]
    del whole["next"]
    return whole


def _caveats(whole: dict[str, Any]) -> Iterator[str]:
    if not whole["stores"]:
        yield "alerts: no store that was asked for is the rule's, and has sent all that it reads"
    days: dict[tuple[str, ...], list[str]] = {}
    for store in sorted({entry["store_id"] for entry in whole["incomplete"]}):
        entries = [entry for entry in whole["incomplete"] if entry["store_id"] == store]
        days.setdefault(tuple(map(_day_text, entries)), []).append(store)
    # Usually all stores miss the same days, so stores with the same days share a line.
    for texts, stores in days.items():
        yield f"alerts: not served complete: {_first_four(texts, 'days')}, of {_stores(stores)}"
    if whole["begun_before"]:
        yield (
            "alerts: what was before --from does not show where the rule stood in"
            f" {_stores(whole['begun_before'])}: an episode may have begun earlier"
        )


def _day_text(entry: dict[str, Any]) -> str:
    part = f" ({entry['windows']} of {entry['of']} quarters)"
    return f"{entry['day']}{'' if entry['windows'] == entry['of'] else part}"


def _stores(stores: list[str]) -> str:
    return f"{'store' if len(stores) == 1 else 'stores'} {_first_four(stores, 'stores')}"


def _first_four(texts: Sequence[str], word: str) -> str:
    more = f" and {len(texts) - 4:,} more {word}" if len(texts) > 4 else ""
    return f"{', '.join(texts[:4])}{more}"


def print_simulation(answer: Mapping[str, Any]) -> None:
    """Print a timeline for each store, or subject in it, that has an episode, and the episodes."""
    console = Console()
    begin, end = answer["from"][:16], answer["to"][:16]
    stores = len(answer["stores"])
    console.print(Text(f"{answer['rule_id']}, {begin}Z to {end}Z, {stores:,} stores"))
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
    # The table has all episodes: it is the answer, and the lines above are only an overview.
    _print_episodes(answer["episodes"], is_whole)


def time_line(
    answer: Mapping[str, Any], store: str, width: int, subject: str = _WHOLE_STORE
) -> str:
    """`width` signs from `from` to `to`: raised wins over unknown, and unknown over calm.

    A sign covers a span of time, and shows what happens anywhere in it.
    """
    start, end = map(datetime.fromisoformat, (answer["from"], answer["to"]))
    step = (end - start) / width
    signs = [CALM] * width

    def draw(sign: str, name: str, place: StoreSubject) -> None:
        for entry in answer[name]:
            if _place(entry) != place:
                continue
            # An open episode goes on to the end.
            ends = (entry["start"], entry["end"] or answer["to"])
            since, until = map(datetime.fromisoformat, ends)
            first = max(0, int((since - start) / step))
            last = min(width - 1, -int(-(until - start) // step) - 1)
            for at in range(first, max(first, last) + 1):
                signs[at] = sign

    # Later drawing covers earlier drawing, so that raised is never hidden.
    draw(UNKNOWN, "incomplete", (store, _WHOLE_STORE))
    draw(RAISED, "episodes", (store, subject))
    return "".join(signs)


def _place(entry: Mapping[str, Any]) -> StoreSubject:
    # An incomplete window has no subject: it concerns everything in the store.
    return entry["store_id"], entry.get("subject", _WHOLE_STORE)


def _print_episodes(episodes: Sequence[Mapping[str, Any]], is_whole: bool) -> None:
    place = ["store"] if is_whole else ["store", "subject"]
    # A subject is a word that may be longer than the screen is wide.
    columns = [
        Column(name, no_wrap=name in ("start", "end"), overflow="fold")
        for name in (*place, "start", "end", "value", "threshold", "")
    ]
    rows = []
    for episode in episodes:
        # Minutes are enough for people.
        end = f"{episode['end'][:16]}Z" if episode["end"] else "open"
        numbers = _number(episode["value"]), _number(episode["threshold"])
        sure = "" if episode["complete"] else "not complete"
        where = _place(episode)[: len(place)]
        rows.append((*where, f"{episode['start'][:16]}Z", end, *numbers, sure))
    print_table(columns, rows, title=f"{len(episodes):,} episodes", **PLAIN)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,g}"
