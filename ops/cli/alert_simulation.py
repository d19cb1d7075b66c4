"""`tally alerts simulate`: what a rule would have told over days that have been."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ops.cli.api import api_client, post, refused
from runtime.output import note, print_json

if TYPE_CHECKING:
    import httpx

_VERB = "alerts"
# Lists of which each page has its own stores' part, and what of them is one text for people.
_LISTED = ("stores", "episodes", "incomplete", "begun_before")
_COUNTED = ("articles",)
_COMPARED = ("compared", "left_out")
_FILES = (".yaml", ".yml")
# One of the API's answers by field.
SimulationPage = dict[str, Any]


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
    against: Annotated[
        Literal["live"] | None,
        typer.Option(help="compare with what was told; exit code 1 if that differs"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """What RULE would have told over days that have been, as generations serve them now.

    As if it had always been in force; with --against live from when it came into force.
    \f
    Raises BadParameter for a file that is no rule, TallyError with the API's own words, Exit with 1
    where what was told differs.
    """
    rule_id, draft = _asked_rule(rule)
    body = {
        "from": from_,
        "to": to,
        "store": [store],
        "rule": draft,
        "against": against,
    }
    with closing(api_client()) as client:
        whole = _joined(_pages(client, rule_id, body))
    if json:
        print_json(whole)
    else:
        from ops.cli.alert_chart import print_simulation

        print_simulation(whole)
    # On stderr, also with --json: who reads the numbers alone has `complete`.
    for line in _caveats(whole):
        note(line)
    told = whole["against"]
    if told is not None and told["differences"]:
        raise typer.Exit(1)


def _asked_rule(rule: str) -> tuple[str, dict[str, Any] | None]:
    """The rule's id, and what the file says where one was named. Raises BadParameter."""
    from runtime.rules.files import parse_rule
    from tally.alerts.rule import told_rule
    from tally.errors import BadRule

    file = Path(rule)
    # No id has a dot or a slash: what looks like a file and is none is a slip.
    if not (file.suffix in _FILES or "/" in rule):
        return rule, None
    try:
        found = parse_rule(file.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{rule}: cannot be read: {error.strerror}") from error
    except BadRule as error:
        raise typer.BadParameter("; ".join(f"{rule}: {one}" for one in error.problems)) from error
    return found.rule_id, told_rule(found)


def _pages(
    client: "httpx.Client",
    rule_id: str,
    body: dict[str, Any],
) -> Iterator[SimulationPage]:
    """Every page: some stores each. Raises TallyError with the API's own words."""
    from urllib.parse import quote

    address: str | None = f"/v1/rules/{quote(rule_id, safe='')}/simulate"
    done = 0
    while address:
        answer = post(_VERB, client, address, body)
        if not answer.is_success:
            raise refused(_VERB, answer)
        page: SimulationPage = answer.json()
        yield page
        address, done = page["next"], done + len(page["stores"])
        if address:
            # How many there are is known to the last page alone.
            note(f"alerts: {done:,} stores simulated")


def _joined(pages: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The answer of all stores."""
    # There is always a first one, if only to say that no store is asked for.
    whole = next(pages)
    for page in pages:
        for name in (*_LISTED, *_COUNTED):
            whole[name] += page[name]
        whole["complete"] = whole["complete"] and page["complete"]
        if page["against"] is not None:
            _join_against(whole["against"], page["against"])
    del whole["next"]
    return whole


def _join_against(whole: dict[str, Any], page: dict[str, Any]) -> None:
    for name in _COMPARED:
        whole[name] += page[name]
    whole["differences"] += page["differences"]
    whole["unjudged"] = sorted({*whole["unjudged"], *page["unjudged"]})


def _caveats(whole: dict[str, Any]) -> Iterator[str]:
    """What keeps the answer from being the whole truth, a line each."""
    if not whole["stores"]:
        yield "alerts: no store that was asked for is the rule's, and has sent all that it reads"
    days: dict[tuple[str, ...], list[str]] = {}
    for store in sorted({one["store_id"] for one in whole["incomplete"]}):
        own = [one for one in whole["incomplete"] if one["store_id"] == store]
        days.setdefault(tuple(_day_text(one) for one in own), []).append(store)
    # Most often all stores miss the same days: one line for these.
    for texts, stores in days.items():
        shown = f"{', '.join(texts[:4])}{_more(texts[4:], 'days')}"
        yield f"alerts: not served complete: {shown}, of {_stores(stores)}"
    if whole["begun_before"]:
        yield (
            "alerts: what was before --from does not show where the rule stood in"
            f" {_stores(whole['begun_before'])}: an episode may have begun earlier"
        )
    if whole["against"] is not None and whole["against"]["unjudged"]:
        unjudged = whole["against"]["unjudged"]
        shown = f"{', '.join(unjudged[:4])}{_more(unjudged[4:], 'days')}"
        yield f"alerts: not judged yet by the generation that serves: {shown}; ask again later"


def _day_text(one: dict[str, Any]) -> str:
    whole = one["windows"] == one["of"]
    return str(one["day"]) if whole else f"{one['day']} ({one['windows']} of {one['of']} quarters)"


def _stores(stores: list[str]) -> str:
    word = "store" if len(stores) == 1 else "stores"
    return f"{word} {', '.join(stores[:4])}{_more(stores[4:], 'stores')}"


def _more(left: Any, word: str) -> str:
    return f" and {len(left):,} more {word}" if left else ""
