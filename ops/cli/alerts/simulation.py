"""`tally alerts simulate`: the alerts that a rule would have sent over past days."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ops.cli.shared import JsonOption, api_client
from runtime.process.output import print_json, print_note

# Lists of which each page has the part of its own stores, and the counts that are added up.
_LISTED = ("stores", "episodes", "incomplete", "begun_before")
_COUNTED = ("articles",)
_FILES = (".yaml", ".yml")

group = typer.Typer()


@group.command()
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

    As if it had always been in force.
    \f
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
        from ops.cli.alerts.chart import print_simulation

        print_simulation(whole)
    # On stderr, also with --json: a program that reads only the numbers has `complete`.
    for line in _caveats(whole):
        print_note(line)


def _read_rule(rule: str) -> tuple[str, dict[str, Any] | None]:
    """The rule's id, and the rule of the file if one was named. Raises BadParameter."""
    from alerting.rules.rule import rule_to_fields
    from alerting.rules.store.files import parse_rule_yaml
    from tally.errors import BadRule

    file = Path(rule)
    # No id has a dot or a slash, so a text that looks like a file must be one.
    if not (file.suffix in _FILES or "/" in rule):
        return rule, None
    try:
        parsed_rule = parse_rule_yaml(file.read_bytes())
    except OSError as error:
        raise typer.BadParameter(f"{rule}: cannot be read: {error.strerror}") from error
    except BadRule as error:
        raise typer.BadParameter(
            "; ".join(f"{rule}: {problem}" for problem in error.problems)
        ) from error
    return parsed_rule.rule_id, rule_to_fields(parsed_rule)


def _join_pages(pages: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Join the pages, each with some stores, to the answer for all stores."""
    whole: dict[str, Any] = {}
    # There is always a first page, if only to say that no store is asked for.
    for page in pages:
        if whole:
            for name in (*_LISTED, *_COUNTED):
                whole[name] += page[name]
            whole["complete"] = whole["complete"] and page["complete"]
        else:
            whole = page
        if page["next"]:
            # Only the last page shows how many stores there are.
            print_note(f"alerts: {len(whole['stores']):,} stores simulated")
    del whole["next"]
    return whole


def _caveats(whole: dict[str, Any]) -> Iterator[str]:
    """Yield the reasons why the answer may not be the whole truth, one line each."""
    if not whole["stores"]:
        yield "alerts: no store that was asked for is the rule's, and has sent all that it reads"
    days: dict[tuple[str, ...], list[str]] = {}
    for store in sorted({entry["store_id"] for entry in whole["incomplete"]}):
        entries = [entry for entry in whole["incomplete"] if entry["store_id"] == store]
        days.setdefault(tuple(_day_text(entry) for entry in entries), []).append(store)
    # Usually all stores miss the same days, so stores with the same days share a line.
    for texts, stores in days.items():
        shown = f"{', '.join(texts[:4])}{_more(texts[4:], 'days')}"
        yield f"alerts: not served complete: {shown}, of {_stores(stores)}"
    if whole["begun_before"]:
        yield (
            "alerts: what was before --from does not show where the rule stood in"
            f" {_stores(whole['begun_before'])}: an episode may have begun earlier"
        )


def _day_text(entry: dict[str, Any]) -> str:
    whole = entry["windows"] == entry["of"]
    return (
        str(entry["day"])
        if whole
        else f"{entry['day']} ({entry['windows']} of {entry['of']} quarters)"
    )


def _stores(stores: list[str]) -> str:
    word = "store" if len(stores) == 1 else "stores"
    return f"{word} {', '.join(stores[:4])}{_more(stores[4:], 'stores')}"


def _more(left: Any, word: str) -> str:
    return f" and {len(left):,} more {word}" if left else ""
