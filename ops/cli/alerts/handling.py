"""`tally alerts snooze | ack | resolve | decisions | redeliver`: handles alerts."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.api import api_client, get, refusal_error
from ops.cli.options import JsonOption
from runtime.process.output import print_json

if TYPE_CHECKING:
    from ops.channels import StateDelivery

_VERB = "alerts"
_ID = Annotated[str, typer.Argument(metavar="ID", help="alert_id, as list --json has it")]
_BY = Annotated[str, typer.Option("--by", help="who")]
_MINUTES = typer.Option(min=0, max=525_600, help="from now on; 0 ends it")


def snooze(
    alert_id: _ID,
    minutes: Annotated[int, _MINUTES] = 60,
    by: _BY = "",
) -> None:
    """Keep an alert back from every channel for a while; if it is open then, it goes out.

    If it was sent already, its end waits too, and a retraction does not.
    """
    from alerting.deliver.state.controls import Snooze
    from ops.channels import write_control
    from tally.config.settings import Settings

    store_id = _alert_store(alert_id)
    until = _now() + minutes * 60_000
    settled = Snooze(alert_id=alert_id, store_id=store_id, until=until, by=by)
    write_control(Settings.load(), settled)
    print(f"{alert_id}: {f'put off for {minutes} minutes' if minutes else 'put off no longer'}")


def ack(
    alert_id: _ID,
    by: Annotated[str, typer.Option("--by", help="who takes it on")],
) -> None:
    """Acknowledge an alert: it is sent as before, but neither repeated nor escalated."""
    from alerting.deliver.state.controls import Acknowledgement
    from ops.channels import write_control
    from tally.config.settings import Settings

    store_id = _alert_store(alert_id)
    noted = Acknowledgement(alert_id=alert_id, store_id=store_id, at=_now(), by=by)
    write_control(Settings.load(), noted)
    print(f"{alert_id}: taken on by {by!a}")


def resolve(
    alert_id: _ID,
    because: Annotated[str, typer.Option("--because", help="why it needs no further attention")],
    by: _BY = "",
) -> None:
    """End an open alert by hand.

    Its rule raises it again only after the condition was false once.
    """
    import msgspec

    from alerting.alert.resolution import AlertResolution, require_open
    from alerting.alert.resolution_writer import write_resolution
    from tally.alerts.message import Alert
    from tally.config.settings import Settings

    fields = _alert(alert_id)
    require_open(alert_id, fields["open"])
    alert = msgspec.convert(fields, Alert)
    write_resolution(Settings.load(), AlertResolution.from_alert(alert, _now(), by, because))
    print(f"{alert_id}: resolved; the evaluator ends it within seconds")


def decisions(alert_id: _ID, json: JsonOption = False) -> None:
    """What was decided about an alert on each channel, and what came of the messages."""
    from msgspec import to_builtins

    from ops.channels import read_alert_controls, read_decisions
    from tally.config.settings import Settings

    settings = Settings.load()
    states, controls = read_decisions(settings, alert_id), read_alert_controls(settings, alert_id)
    if json:
        entries = [{"decision": state.decision, "message": state.message} for state in states]
        print_json(to_builtins({"decisions": entries, "handled": controls}))
        return
    for state in states:
        print(_line(state))
    for control in controls:
        print(ascii(f"{control.key.partition('|')[0]} by {control.by}")[1:-1])


def redeliver(
    dead: Annotated[bool, typer.Option("--dead", help="all messages that were given up")] = False,
    channel: Annotated[str, typer.Option(help="only those of this channel")] = "",
    json: JsonOption = False,
) -> None:
    """Call for all messages again that were given up, each under its id and with its bytes.\f

    Raises BadParameter without --dead.
    """
    from ops.channels import redeliver_dead
    from tally.config.settings import Settings

    if not dead:
        raise typer.BadParameter(
            "say --dead for all that were given up; one message: `tally channels redeliver`"
        )
    messages = redeliver_dead(Settings.load(), channel)
    if json:
        print_json({"redelivered": [[message.channel, message.message_id] for message in messages]})
    else:
        print(f"{len(messages):,} messages will be called for again")


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
    return str(_alert(alert_id)["store_id"])


def _alert(alert_id: str) -> dict[str, Any]:
    """The alert in its last state, as the API has it."""
    from urllib.parse import quote

    with api_client() as client:
        answer = get(_VERB, client, f"/v1/alerts/{quote(alert_id, safe='')}")
    if not answer.is_success:
        raise refusal_error(_VERB, answer)
    return dict(answer.json()["alert"])


def _now() -> int:
    from datetime import UTC, datetime

    from tally.time.instants import to_millis

    return to_millis(datetime.now(UTC))
