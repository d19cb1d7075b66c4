"""`tally alerts snooze | ack | resolve | decisions | redeliver`: handles alerts."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from ops.cli.shared import JsonOption, api_client, print_answer
from tally.config.settings import Settings
from tally.time.instants import to_millis

if TYPE_CHECKING:
    from ops.channels import StateDelivery

AlertArgument = Annotated[str, typer.Argument(metavar="ID", help="alert_id, as list --json has it")]
MinutesOption = Annotated[int, typer.Option(min=0, max=525_600, help="from now on; 0 ends it")]
_BY = Annotated[str, typer.Option("--by", help="who")]

group = typer.Typer()


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
    from alerting.deliver.state.controls import Snooze
    from ops.channels import write_control

    store_id = _alert_store(alert_id)
    until = now_millis() + minutes * 60_000
    settled = Snooze(alert_id=alert_id, store_id=store_id, until=until, by=by)
    write_control(Settings.load(), settled)
    print(f"{alert_id}: {f'put off for {minutes} minutes' if minutes else 'put off no longer'}")


@group.command()
def ack(
    alert_id: AlertArgument, by: Annotated[str, typer.Option("--by", help="who takes it on")]
) -> None:
    """Acknowledge an alert: it is sent as before, but neither repeated nor escalated."""
    from alerting.deliver.state.controls import Acknowledgement
    from ops.channels import write_control

    store_id = _alert_store(alert_id)
    noted = Acknowledgement(alert_id=alert_id, store_id=store_id, at=now_millis(), by=by)
    write_control(Settings.load(), noted)
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
    from alerting.alert.resolution import AlertResolution, require_open
    from alerting.alert.resolution_writer import write_resolution
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
    decision, message = state
    because = f" ({decision.why})" if decision.why else ""
    # The cause comes from a foreign server, so it is escaped here.
    came = f": {message.outcome} {ascii(message.cause)[1:-1]}".rstrip() if message else ""
    return (
        f"{decision.channel}  {decision.alert.edge} {decision.alert.state}"
        f"  {decision.verdict}{because}{came}"
    )


def _alert_store(alert_id: str) -> str:
    """The alert's store, as the API has it; the record goes to the partition of that store."""
    return str(read_alert(alert_id)["alert"]["store_id"])
