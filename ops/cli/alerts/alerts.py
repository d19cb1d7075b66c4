"""`tally alerts`: alerts of the past, the life of each, new ones as they are sent; handling."""

import json as json_text
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from rich.table import Column, Table

from ops.cli.alerts.simulation import simulate
from ops.cli.shared import (
    NOTHING,
    PLAIN,
    JsonOption,
    api_client,
    build_table,
    one_line,
    print_answer,
)
from runtime.process.output import print_json, print_note
from tally.config.settings import Settings
from tally.time.instants import to_millis

if TYPE_CHECKING:
    from ops.channels import StateDelivery
    from web.client import StreamEvent

AlertArgument = Annotated[str, typer.Argument(metavar="ID", help="alert_id, as list --json has it")]
MinutesOption = Annotated[int, typer.Option(min=0, max=525_600, help="from now on; 0 ends it")]
_BY = Annotated[str, typer.Option("--by", help="who")]
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
    lateness = "" if late is None else str(late).lower()
    with api_client("alerts") as api:
        pages = api.pages("/v1/alerts", _drop_empty({**filters, **span, "late": lateness}))
        # One more than wanted shows whether there are others.
        alerts = [*islice(chain.from_iterable(page["alerts"] for page in pages), most + 1)]
    answer = {"alerts": alerts[:most], "more": len(alerts) > most}
    print_answer(json, answer, _alert_table(alerts[:most]))
    if len(alerts) > most and not json:
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


group.command()(simulate)


@group.command()
def decisions(alert_id: AlertArgument, json: JsonOption = False) -> None:
    """What was decided about an alert on each channel, and what came of the messages."""
    from ops.channels import read_alert_controls, read_decisions

    settings = Settings.load()
    states, controls = read_decisions(settings, alert_id), read_alert_controls(settings, alert_id)
    entries = [{"decision": state.decision, "message": state.message} for state in states]
    handled = (ascii(f"{done.key.partition('|')[0]} by {done.by}")[1:-1] for done in controls)
    answer = msgspec.to_builtins({"decisions": entries, "handled": controls})
    print_answer(json, answer, (*map(_line, states), *handled))


@group.command()
def snooze(alert_id: AlertArgument, minutes: MinutesOption = 60, by: _BY = "") -> None:
    """Keep an alert back from every channel for a while; if it is open then, it goes out.

    If it was sent already, its end waits too, and a retraction does not.
    """
    from alerting.deliver.state.controls import Snooze, write_controls

    # The record goes to the partition of the alert's store.
    store_id = str(read_alert(alert_id)["alert"]["store_id"])
    until = now_millis() + minutes * 60_000
    settled = Snooze(alert_id=alert_id, store_id=store_id, until=until, by=by)
    write_controls(Settings.load(), [settled])
    print(f"{alert_id}: {f'put off for {minutes} minutes' if minutes else 'put off no longer'}")


@group.command()
def ack(
    alert_id: AlertArgument, by: Annotated[str, typer.Option("--by", help="who takes it on")]
) -> None:
    """Acknowledge an alert: it is sent as before, but neither repeated nor escalated."""
    from alerting.deliver.state.controls import Acknowledgement, write_controls

    store_id = str(read_alert(alert_id)["alert"]["store_id"])
    noted = Acknowledgement(alert_id=alert_id, store_id=store_id, at=now_millis(), by=by)
    write_controls(Settings.load(), [noted])
    print(f"{alert_id}: taken on by {by!a}")


@group.command()
def resolve(
    alert_id: AlertArgument,
    because: Annotated[str, typer.Option("--because", help="why it needs no further attention")],
    by: _BY = "",
) -> None:
    """End an open alert by hand.

    Its rule raises it again only after the condition was false once.
    """
    from alerting.alert.resolution import AlertResolution, require_open, write_resolution
    from tally.alerts.message import Alert

    fields = read_alert(alert_id)["alert"]
    require_open(alert_id, fields["open"])
    alert = msgspec.convert(fields, Alert)
    write_resolution(Settings.load(), AlertResolution.from_alert(alert, now_millis(), by, because))
    print(f"{alert_id}: resolved; the evaluator ends it within seconds")


@group.command()
def redeliver(
    dead: Annotated[bool, typer.Option("--dead", help="all messages that were given up")] = False,
    channel: Annotated[str, typer.Option(help="only those of this channel")] = "",
    json: JsonOption = False,
) -> None:
    """Call for all messages again that were given up, each under its id and with its bytes.\f

    Raises BadParameter without --dead.
    """
    from ops.channels import redeliver_dead

    if not dead:
        raise typer.BadParameter(
            "say --dead for all that were given up; one message: `tally channels redeliver`"
        )
    messages = redeliver_dead(Settings.load(), channel)
    redelivered = [[message.channel, message.message_id] for message in messages]
    line = f"{len(messages):,} messages will be called for again"
    print_answer(json, {"redelivered": redelivered}, [line])


def read_alert(alert_id: str) -> dict[str, Any]:
    """The alert's states and its episode, as the API has them. Raises ApiError."""
    with api_client("alerts") as api:
        return api.get(f"/v1/alerts/{quote(alert_id, safe='')}")


def now_millis() -> int:
    """This instant in milliseconds."""
    return to_millis(datetime.now(UTC))


def _line(state: "StateDelivery") -> str:
    (decision, message), alert = state, state.decision.alert
    because = f" ({decision.why})" if decision.why else ""
    # The cause comes from a foreign server, so it is escaped here.
    came = f": {message.outcome} {ascii(message.cause)[1:-1]}".rstrip() if message else ""
    verdict = f"{decision.verdict}{because}{came}"
    return f"{decision.channel}  {alert.edge} {alert.state}  {verdict}"


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


def _alert_table(alerts: list[dict[str, Any]]) -> Table:
    heads = (name.partition("_")[0] for name in _COLUMNS)
    columns = [Column(name, no_wrap=name in ("raised", "rule")) for name in heads]
    rows = []
    for alert in alerts:
        # Minutes are enough for people.
        fields = {**alert, "raised_at": f"{alert['raised_at'][:16]}Z"}
        # There is no room for another column, and an overdue alert is always provisional.
        fields["state"] = "overdue" if alert["overdue"] else alert["state"]
        is_open = "open" if alert["open"] else NOTHING
        rows.append((*(_text(fields[name]) for name in _COLUMNS), is_open))
    # So a line fits into eighty columns.
    narrow = {"pad_edge": False, "collapse_padding": True, "title": f"{len(alerts):,} alerts"}
    return build_table((*columns, "open"), rows, **narrow, **PLAIN)


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return one_line(f"{value:g}" if isinstance(value, float) else str(value))
