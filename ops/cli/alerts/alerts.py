"""`tally alerts`: past alerts, one alert's life, and new alerts as they are sent."""

import json as json_text
from collections.abc import Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column

from ops.cli.alerts import handling, simulation
from ops.cli.alerts.handling import AlertArgument, read_alert
from ops.cli.shared import NOTHING, PLAIN, JsonOption, api_client, one_line, print_table
from runtime.process.output import print_json, print_note

if TYPE_CHECKING:
    from web.client import StreamEvent

_STORE = typer.Option("--store", help="store id, comma between several, or `all`")
_RULE = typer.Option("--rule", help="only of these rules, comma between")
_SEVERITY = typer.Option("--severity", help="only of these: info, warning, critical, comma between")
# The fields of an alert that are shown on a line, in this order.
_SHOWN = ("raised_at", "store_id", "rule_id", "edge", "state", "severity", "subject", "value")
# The fields for which a table of the usual width has room.
_COLUMNS = ("raised_at", "store_id", "rule_id", "edge", "state", "value")

group = typer.Typer(
    name="alerts",
    help="Alerts: list, show, follow, put off, take on, resolve, simulate; what channels have.",
    no_args_is_help=True,
)
group.add_typer(simulation.group)
group.add_typer(handling.group)


@group.command("list")
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
    with api_client("alerts") as api:
        pages = api.pages("/v1/alerts", _drop_empty({**filters, **span, **named}))
        # One more than wanted shows whether there are others.
        alerts = [*islice(chain.from_iterable(page["alerts"] for page in pages), most + 1)]
    if json:
        print_json({"alerts": alerts[:most], "more": len(alerts) > most})
        return
    _print_alerts(alerts[:most])
    if len(alerts) > most:
        print_note(f"there are more than {most:,}: --most shows them, or ask for less time")


@group.command()
def show(alert_id: AlertArgument, json: JsonOption = False) -> None:
    """One alert: its states, what it was judged by, and how it ended."""
    answer = read_alert(alert_id)
    if json:
        print_json(answer)
        return
    alert, episode = answer["alert"], answer["episode"]
    ended = episode["ended"] or ("open" if alert["open"] else NOTHING)
    fields = {**alert, "episode": f"{episode['start']} to {ended}"}
    more = ("rule_version", "metric", "threshold", "late", "overdue", "episode")
    for name in ("alert_id", *_SHOWN, *more):
        print(f"{name:12} {_text(fields[name])}")
    for message in (*answer["states"], *answer["ends"]):
        because = f" ({message['reason']})" if message["reason"] else ""
        tick = message["evidence"]["tick"]
        print(f"\n{message['edge']} {message['state']}{because}, judged by tick {tick}")
        for read in message["evidence"]["read"]:
            print("  " + ", ".join(f"{name} {_text(value)}" for name, value in read.items()))


@group.command()
def tail(
    store: Annotated[str, _STORE] = "all",
    rule: Annotated[str, _RULE] = "",
    severity: Annotated[str, _SEVERITY] = "",
    json: Annotated[bool, typer.Option("--json", help="print one JSON object a line")] = False,
) -> None:
    """Alerts as they are published, until Ctrl-C; after a break those that came meanwhile."""
    filters = _drop_empty({"store": store, "rule": rule, "severity": severity})
    with api_client("alerts") as api:
        try:
            for event in api.events("/v1/alerts/stream", filters):
                _print_event(event, json)
        except KeyboardInterrupt:
            return


def _drop_empty(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _print_event(event: "StreamEvent", as_json: bool) -> None:
    content = json_text.loads(event.content)
    # Notes go to stderr and not among the alerts, because a script reads those.
    if event.name == "gap":
        print_note("alerts were published that are no longer stored; the open ones follow")
        return
    for alert in content["open"] if event.name == "snapshot" else [content]:
        shown = (_text(alert[name]) for name in _SHOWN)
        print(json_text.dumps(alert) if as_json else "  ".join(shown), flush=True)


def _print_alerts(alerts: list[dict[str, Any]]) -> None:
    heads = (name.partition("_")[0] for name in _COLUMNS)
    columns = [Column(name, no_wrap=name in ("raised", "rule")) for name in heads]
    rows = []
    for alert in alerts:
        # MinutesOption are enough for people.
        fields = {**alert, "raised_at": f"{alert['raised_at'][:16]}Z"}
        # There is no room for another column, and an overdue alert is always provisional.
        fields["state"] = "overdue" if alert["overdue"] else alert["state"]
        is_open = "open" if alert["open"] else NOTHING
        rows.append((*(_text(fields[name]) for name in _COLUMNS), is_open))
    # So a line fits into eighty columns.
    narrow = {"pad_edge": False, "collapse_padding": True}
    title = f"{len(alerts):,} alerts"
    print_table((*columns, "open"), rows, title=title, **narrow, **PLAIN)


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return one_line(f"{value:g}" if isinstance(value, float) else str(value))
