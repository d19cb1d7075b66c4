"""`tally query METRIC`: the API's answer, as a table or unchanged for a program."""

from collections.abc import Iterator, Mapping
from functools import reduce
from http import HTTPStatus
from typing import Annotated, Any

import typer
from rich.table import Column

from ops.cli.shared import NOTHING, PLAIN, print_table
from runtime.process.output import print_json, print_note
from tally.config.settings import Settings
from tally.errors import ApiError, TallyError
from tally.events.identity import describe_conflicts

# How often a question of several pages is asked when rebuilds publish in between.
TRIES = 5
# The fields that are equal on every page of an answer, and the lists of which each page has a part.
EQUAL_FIELDS = ("metric", "unit", "currency", "store", "from", "to", "grain", "tz", "by", "as_of")
LISTED = ("gaps", "numbering")
WITHHELD = "withheld"
NUMBERS = ("value", "events")
# A narrow terminal can do without some fields: a row ends where the next begins, and a ratio is its
# value without numerator and denominator.
SHOWN = ("start", "value", "events", "source", "status")

QueryAnswer = dict[str, Any]
group = typer.Typer()


@group.command()
def query(
    metric: Annotated[
        str,
        typer.Argument(metavar="METRIC", help="e.g. revenue; the API lists them at /v1/metrics"),
    ],
    store: Annotated[
        str, typer.Option("--store", help="store id, comma between several, or `all`")
    ],
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            help="inclusive: YYYY-MM-DD, the begin of that day in --tz, or an instant with offset",
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="exclusive, as --from")],
    grain: Annotated[str, typer.Option("--grain", help="15m, 1h, 1d or 1w")] = "15m",
    tz: Annotated[
        str, typer.Option("--tz", help="IANA time zone, or `store` for each store's own")
    ] = "UTC",
    by: Annotated[str, typer.Option("--by", help="dimensions, comma between, e.g. currency")] = "",
    as_of: Annotated[str, typer.Option("--as-of", help="an instant: what was published then")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="the API's answer as one JSON object on standard output")
    ] = False,
) -> None:
    """Ask the API for a metric; every page of the answer."""
    span = {"store": store, "from": from_, "to": to, "grain": grain}
    parameters = {**span, "tz": tz, "by": by, "as_of": as_of}
    given = {name: value for name, value in parameters.items() if value}
    answer = fetch_answer(Settings.load().api, metric, given)
    if as_json:
        print_json(answer)
    else:
        _show(answer)


def fetch_answer(api: str, metric: str, parameters: Mapping[str, str]) -> QueryAnswer:
    """The API's answer by field, with the rows of all pages joined, and their weakest state.

    Raises ApiError with the API's own words, TallyError for pages that do not fit together, such as
    those of two generations after several tries.
    """
    from web.client import ApiClient

    # The largest page: the fewer pages, the less likely a rebuild comes in between.
    question = {"limit": "10000", **parameters}
    with ApiClient(api, "query") as client:
        for _ in range(TRIES):
            try:
                return reduce(_join, client.pages(f"/v1/metrics/{metric}", question))
            except ApiError as error:
                # A page of another generation than those before it: not an error.
                if error.status != HTTPStatus.CONFLICT:
                    raise
    raise TallyError(
        f"query: a rebuild published between the pages {TRIES} times; ask again, or for less"
    )


def _join(whole: QueryAnswer, page: QueryAnswer) -> QueryAnswer:
    """Add a page to those before it, so that the fields of the whole hold for every page."""
    # Euros of one page were once added up under the dollars of another (seen).
    for name in EQUAL_FIELDS:
        if page[name] != whole[name]:
            raise TallyError(
                f"query: a page has {name} {page[name]!r}, those before it {whole[name]!r}:"
                " they do not add up; ask again"
            )
    if "rows" in whole:
        whole["rows"] += page["rows"]
    else:
        last = whole["series"][-1]
        for series in page["series"]:
            # A page may end in the middle of a store.
            if series["store"] == last["store"]:
                last["rows"] += series["rows"]
            else:
                whole["series"].append(series)
    whole["complete"] = whole["complete"] and page["complete"]
    # The coverage of one page is not that of the whole.
    whole.pop("coverage", None)
    whole["source"] = whole["source"] if whole["source"] == page["source"] else "mixed"
    statuses = whole["status"], page["status"]
    weak = (status for status in ("provisional", "restated") if status in statuses)
    whole["status"] = next(weak, "final")
    # The texts have one form and one zone, so the smaller is the earlier.
    through = whole["through"], page["through"]
    whole["through"] = min(through) if all(through) else None
    for name in LISTED:
        whole[name] += [entry for entry in page[name] if entry not in whole[name]]
    behind = filter(None, (whole["master_behind_since"], page["master_behind_since"]))
    whole["master_behind_since"] = min(behind, default=None)
    whole["next"] = page["next"]
    return whole


def _show(answer: QueryAnswer) -> None:
    unit = f"{answer['currency']}, {answer['unit']}" if answer["currency"] else answer["unit"]
    whole = {"store": answer["store"], "rows": answer.get("rows")}
    for series in answer.get("series") or [whole]:
        _print_rows(f"{answer['name']} ({unit}), store {series['store']}", series["rows"])
    through = (
        f"every record that had arrived by {answer['through']} is counted"
        if answer["through"]
        else "not every day has been rebuilt"
    )
    print_note(f"{answer['status']}, from {answer['source']}; {through}")
    for caveat in _caveats(answer):
        print_note(caveat)


def _caveats(answer: QueryAnswer) -> Iterator[str]:
    if behind := answer["master_behind_since"]:
        yield f"the master has not said since {behind} that it holds everything: nothing is final"
    for gap in answer["gaps"]:
        count = gap["until_offset"] - gap["from_offset"]
        yield f"{count} records of {gap['topic']}-{gap['partition']} are gone: {gap['reason']}"
    for till in answer["numbering"]:
        found = describe_conflicts(till["records"], till["conflicts"])
        yield f"store {till['store']}, till {till['till']}, {till['day']}: {found}"
    series = answer.get("series", [answer])
    rows = [row for part in series for row in part.get("rows", ())]
    if hidden := sum(row.get("suppressed", False) for row in rows):
        yield f"{hidden} values are withheld: of too few devices, or of days not settled"
    if silent := sum(row.get("estimated", False) or "withheld" in row for row in rows):
        yield (
            f"{silent} values are of sensors that were silent for a part of the open hours;"
            " `coverage` with --json, who it was: GET /v1/stores/<store>/sensors"
        )


def _print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    shown = (name for name in SHOWN if any(name in row for row in rows))
    by = dict.fromkeys(name for row in rows for name in row.get("by", {}))
    names = [*shown, *by]
    columns = (
        Column(
            name, justify="right" if name in NUMBERS else "left", no_wrap=name in ("start", "value")
        )
        for name in names
    )
    cells = ([_text(row, name) for name in names] for row in rows)
    print_table(columns, cells, title=title, **PLAIN)


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name, row.get("by", {}).get(name))
    if name == "value" and (row.get("suppressed") or row.get("withheld")):
        return WITHHELD
    if value is None:
        return NOTHING
    return f"{value:,}" if isinstance(value, int | float) else str(value)
