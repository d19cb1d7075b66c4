"""`tally alerts`: what was told, one alert's life, and what is told from now on."""

import json as json_text
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.alert_handling import ack, decisions, redeliver, resolve, snooze
from ops.cli.alert_simulation import simulate
from ops.cli.api import api_client, get, refused
from ops.cli.event_source import EventSource, StreamEvent
from runtime.output import note, print_json

if TYPE_CHECKING:
    import httpx

_VERB = "alerts"
_STORE = typer.Option("--store", help="store id, comma between several, or `all`")
_RULE = typer.Option("--rule", help="only of these rules, comma between")
_SEVERITY = typer.Option("--severity", help="only of these: info, warning, critical, comma between")
_JSON = typer.Option("--json", help="print one JSON object")
# What is shown of one on a line, in this order.
_SHOWN = ("raised_at", "store_id", "rule_id", "edge", "state", "severity", "subject", "value")
# What a table of the usual width has room for.
_COLUMNS = ("raised_at", "store_id", "rule_id", "edge", "state", "value")


def register(app: typer.Typer) -> None:
    """Add the verb group to the command line."""
    group = typer.Typer(
        help="Alerts: list, show, follow, put off, take on, resolve, simulate; what channels have.",
        no_args_is_help=True,
    )
    group.command("list")(list_alerts)
    group.command("show")(show)
    group.command("tail")(tail)
    group.command("simulate")(simulate)
    group.command("decisions")(decisions)
    group.command("snooze")(snooze)
    group.command("ack")(ack)
    group.command("resolve")(resolve)
    group.command("redeliver")(redeliver)
    app.add_typer(group, name="alerts")


def list_alerts(
    store: Annotated[str, _STORE] = "all",
    rule: Annotated[str, _RULE] = "",
    severity: Annotated[str, _SEVERITY] = "",
    state: Annotated[str, typer.Option(help="provisional, confirmed or retracted")] = "",
    edge: Annotated[str, typer.Option(help="raise or clear")] = "",
    from_: Annotated[
        str, typer.Option("--from", help="raised at or after: YYYY-MM-DD (UTC) or an instant")
    ] = "",
    to: Annotated[str, typer.Option("--to", help="raised before, as --from")] = "",
    late: Annotated[bool | None, typer.Option(help="only late ones, or only others")] = None,
    most: Annotated[int, typer.Option(min=1, help="at most so many")] = 1_000,
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Alerts, newest first; without --from and --to those that are open."""
    asked = {"store": store, "rule": rule, "severity": severity, "state": state, "edge": edge}
    span = {"from": from_, "to": to} if from_ or to else {"open": "true"}
    named = {} if late is None else {"late": str(late).lower()}
    with api_client() as client:
        # One more says whether there are others.
        every = _listed(client, _given({**asked, **span, **named}))
        found = [*islice(every, most + 1)]
    if json:
        print_json({"alerts": found[:most], "more": len(found) > most})
        return
    _print_table(found[:most])
    if len(found) > most:
        note(f"there are more than {most:,}: --most shows them, or ask for less time")


def show(
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="alert_id, as list --json has it")],
    json: Annotated[bool, _JSON] = False,
) -> None:
    """One alert: its states, what it was judged by, and how it ended."""
    from urllib.parse import quote

    with api_client() as client:
        found = _answer(client, f"/v1/alerts/{quote(alert_id, safe='')}")
    if json:
        print_json(found)
        return
    alert, episode = found["alert"], found["episode"]
    ended = episode["ended"] or ("open" if alert["open"] else "–")
    told = {**alert, "episode": f"{episode['start']} to {ended}"}
    more = ("rule_version", "metric", "threshold", "late", "overdue", "episode")
    for name in ("alert_id", *_SHOWN, *more):
        print(f"{name:12} {_text(told[name])}")
    for one in (*found["states"], *found["ends"]):
        print(f"\n{one['edge']} {one['state']}{_because(one)}, judged by tick {_tick(one)}")
        for read in one["evidence"]["read"]:
            print("  " + ", ".join(f"{name} {_text(value)}" for name, value in read.items()))


def tail(
    store: Annotated[str, _STORE] = "all",
    rule: Annotated[str, _RULE] = "",
    severity: Annotated[str, _SEVERITY] = "",
    json: Annotated[bool, typer.Option("--json", help="print one JSON object a line")] = False,
) -> None:
    """Alerts as they are told, until Ctrl-C; after a break those that came meanwhile."""
    asked = _given({"store": store, "rule": rule, "severity": severity})
    with api_client() as client:
        try:
            for event in EventSource(_VERB, client, "/v1/alerts/stream").events(asked):
                _print_event(event, json)
        except KeyboardInterrupt:
            return


def _given(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _listed(
    client: "httpx.Client",
    parameters: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """The alerts of every page."""
    import httpx

    address: Any = httpx.URL("/v1/alerts", params={**parameters})
    while address:
        page = _answer(client, address)
        yield from page["alerts"]
        address = page["next"]


def _answer(client: "httpx.Client", address: Any) -> dict[str, Any]:
    answer = get(_VERB, client, address)
    if not answer.is_success:
        raise refused(_VERB, answer)
    return dict(answer.json())


def _print_event(event: StreamEvent, as_json: bool) -> None:
    content = json_text.loads(event.content)
    # Beside the alerts, and not among them: a script reads these.
    if event.name == "gap":
        note("alerts were told that are not there any more; what is open now follows")
        return
    for one in content["open"] if event.name == "snapshot" else [content]:
        shown = (_text(one[name]) for name in _SHOWN)
        print(json_text.dumps(one) if as_json else "  ".join(shown), flush=True)


def _print_table(alerts: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    heads = (name.partition("_")[0] for name in _COLUMNS)
    columns = [Column(name, no_wrap=name in ("raised", "rule")) for name in heads]
    title = f"{len(alerts):,} alerts"
    table = Table(*columns, "open", title=title, title_justify="left", box=SIMPLE_HEAD)
    # Eighty columns hold a line.
    table.pad_edge, table.collapse_padding = False, True
    for one in alerts:
        # Minutes are enough for people; text and not markup, for a stranger may have sent it.
        told = {**one, "raised_at": f"{one['raised_at'][:16]}Z"}
        # There is no room for a column: what is overdue is provisional.
        told["state"] = "overdue" if one["overdue"] else one["state"]
        shown = [Text(_text(told[name])) for name in _COLUMNS]
        table.add_row(*shown, Text("open" if one["open"] else "–"))
    Console().print(table)


def _because(message: Mapping[str, Any]) -> str:
    return f" ({message['reason']})" if message["reason"] else ""


def _tick(message: Mapping[str, Any]) -> int:
    return int(message["evidence"]["tick"])


def _text(value: Any) -> str:
    """One line without control characters: what a stranger sent is not to steer a terminal."""
    if value is None:
        return "–"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else ascii(text)
