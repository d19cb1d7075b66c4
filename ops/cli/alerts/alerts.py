"""`tally alerts`: past alerts, one alert's life, and new alerts as they are sent."""

import json as json_text
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.alerts.event_source import EventSource, StreamEvent
from ops.cli.alerts.handling import ack, decisions, redeliver, resolve, snooze
from ops.cli.alerts.simulation import simulate
from ops.cli.api import api_client, get, refusal_error
from ops.cli.options import JsonOption
from runtime.process.output import print_json, print_note

if TYPE_CHECKING:
    import httpx

_VERB = "alerts"
_STORE = typer.Option("--store", help="store id, comma between several, or `all`")
_RULE = typer.Option("--rule", help="only of these rules, comma between")
_SEVERITY = typer.Option("--severity", help="only of these: info, warning, critical, comma between")
# The fields of an alert that are shown on a line, in this order.
_SHOWN = ("raised_at", "store_id", "rule_id", "edge", "state", "severity", "subject", "value")
# The fields for which a table of the usual width has room.
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
    json: JsonOption = False,
) -> None:
    """Alerts, newest first; without --from and --to those that are open."""
    filters = {"store": store, "rule": rule, "severity": severity, "state": state, "edge": edge}
    span = {"from": from_, "to": to} if from_ or to else {"open": "true"}
    named = {} if late is None else {"late": str(late).lower()}
    with api_client() as client:
        # One more than wanted shows whether there are others.
        every = _list_pages(client, _drop_empty({**filters, **span, **named}))
        alerts = [*islice(every, most + 1)]
    if json:
        print_json({"alerts": alerts[:most], "more": len(alerts) > most})
        return
    _print_table(alerts[:most])
    if len(alerts) > most:
        print_note(f"there are more than {most:,}: --most shows them, or ask for less time")


def show(
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="alert_id, as list --json has it")],
    json: JsonOption = False,
) -> None:
    """One alert: its states, what it was judged by, and how it ended."""
    from urllib.parse import quote

    with api_client() as client:
        answer = _answer(client, f"/v1/alerts/{quote(alert_id, safe='')}")
    if json:
        print_json(answer)
        return
    alert, episode = answer["alert"], answer["episode"]
    ended = episode["ended"] or ("open" if alert["open"] else "–")
    fields = {**alert, "episode": f"{episode['start']} to {ended}"}
    more = ("rule_version", "metric", "threshold", "late", "overdue", "episode")
    for name in ("alert_id", *_SHOWN, *more):
        print(f"{name:12} {_text(fields[name])}")
    for message in (*answer["states"], *answer["ends"]):
        print(
            f"\n{message['edge']} {message['state']}{_because(message)},"
            f" judged by tick {_tick(message)}"
        )
        for read in message["evidence"]["read"]:
            print("  " + ", ".join(f"{name} {_text(value)}" for name, value in read.items()))


def tail(
    store: Annotated[str, _STORE] = "all",
    rule: Annotated[str, _RULE] = "",
    severity: Annotated[str, _SEVERITY] = "",
    json: Annotated[bool, typer.Option("--json", help="print one JSON object a line")] = False,
) -> None:
    """Alerts as they are published, until Ctrl-C; after a break those that came meanwhile."""
    filters = _drop_empty({"store": store, "rule": rule, "severity": severity})
    with api_client() as client:
        try:
            for event in EventSource(_VERB, client, "/v1/alerts/stream").events(filters):
                _print_event(event, json)
        except KeyboardInterrupt:
            return


def _drop_empty(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _list_pages(
    client: "httpx.Client",
    parameters: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """Yield the alerts of every page."""
    import httpx

    address: Any = httpx.URL("/v1/alerts", params={**parameters})
    while address:
        page = _answer(client, address)
        yield from page["alerts"]
        address = page["next"]


def _answer(client: "httpx.Client", address: Any) -> dict[str, Any]:
    answer = get(_VERB, client, address)
    if not answer.is_success:
        raise refusal_error(_VERB, answer)
    return dict(answer.json())


def _print_event(event: StreamEvent, as_json: bool) -> None:
    content = json_text.loads(event.content)
    # Notes go to stderr and not among the alerts, because a script reads those.
    if event.name == "gap":
        print_note("alerts were published that are no longer stored; the open ones follow")
        return
    for alert in content["open"] if event.name == "snapshot" else [content]:
        shown = (_text(alert[name]) for name in _SHOWN)
        print(json_text.dumps(alert) if as_json else "  ".join(shown), flush=True)


def _print_table(alerts: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    heads = (name.partition("_")[0] for name in _COLUMNS)
    columns = [Column(name, no_wrap=name in ("raised", "rule")) for name in heads]
    title = f"{len(alerts):,} alerts"
    table = Table(*columns, "open", title=title, title_justify="left", box=SIMPLE_HEAD)
    # So a line fits into eighty columns.
    table.pad_edge, table.collapse_padding = False, True
    for alert in alerts:
        # Minutes are enough for people. Text, not markup: the values come from unknown senders.
        fields = {**alert, "raised_at": f"{alert['raised_at'][:16]}Z"}
        # There is no room for another column, and an overdue alert is always provisional.
        fields["state"] = "overdue" if alert["overdue"] else alert["state"]
        shown = [Text(_text(fields[name])) for name in _COLUMNS]
        table.add_row(*shown, Text("open" if alert["open"] else "–"))
    Console().print(table)


def _because(message: Mapping[str, Any]) -> str:
    return f" ({message['reason']})" if message["reason"] else ""


def _tick(message: Mapping[str, Any]) -> int:
    return int(message["evidence"]["tick"])


def _text(value: Any) -> str:
    """The value on one line without control characters, which could steer a terminal."""
    if value is None:
        return "–"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else ascii(text)
