"""`tally channels`: where alerts go by webhook, what became of messages, and silences."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Column

from ops.cli.alerts.alerts import MinutesOption, now_millis
from ops.cli.shared import JsonOption, build_table, print_answer
from tally.config.settings import Settings
from tally.time.instants import format_utc, from_millis

if TYPE_CHECKING:
    from alerting.deliver.state.controls import Silence
    from alerting.deliver.state.records import WebhookMessage

ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="channel_id")]
_SHOWN_CAUSE = 60

group = typer.Typer(
    name="channels",
    help="Channels of alerts: set, list, deliveries, redeliver, silence, silences.",
    no_args_is_help=True,
)


@group.command("set")
def set_from_file(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="JSON of a channel")],
    json: JsonOption = False,
) -> None:
    """Settle a channel as FILE has it, in place of what it was."""
    from ops.channels import set_channel

    channel = set_channel(Settings.load(), file.read_bytes())
    named = channel.channel_id
    print_answer(json, {"channel": named}, [f"{named} is set: {channel.url!a}"])


@group.command("list")
def list_channels(json: JsonOption = False) -> None:
    """The channels that there are."""
    from ops.channels import channels

    known = channels(Settings.load()).values()
    lines = (
        # The URL is escaped: a user may have written anything.
        f"{channel.channel_id}  {channel.url!a}{'' if channel.enabled else '  (off)'}"
        for channel in known
    )
    print_answer(json, {"channels": msgspec.to_builtins([*known])}, lines)


@group.command("deliveries")
def list_deliveries(
    channel: ChannelArgument,
    dead: Annotated[bool, typer.Option("--dead", help="only what was given up")] = False,
    json: JsonOption = False,
) -> None:
    """The messages of CHANNEL, and what came of them."""
    from ops.channels import deliveries

    messages = deliveries(Settings.load(), channel)
    lost = ("dead", "unknown")
    chosen = [message for message in messages if not dead or message.outcome in lost]
    message = Column("message", no_wrap=True, overflow="fold")
    columns = (message, "kind", "outcome", "attempts", "due", "status", "cause")
    table = build_table(columns, map(_cells, chosen), title=f"{len(chosen):,} messages")
    print_answer(json, {"deliveries": msgspec.to_builtins(chosen)}, table)


@group.command("redeliver")
def redeliver_message(
    channel: ChannelArgument,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="its webhook-id")],
    json: JsonOption = False,
) -> None:
    """Call for a message of CHANNEL again, under its id and with its bytes."""
    from ops.channels import redeliver

    named = redeliver(Settings.load(), channel, message).message_id
    answer = {"channel": channel, "redelivered": named}
    print_answer(json, answer, [f"{named} will be called for again"])


@group.command("silence")
def set_silence(
    name: Annotated[str, typer.Argument(metavar="NAME", help="of the silence, e.g. moving-house")],
    minutes: MinutesOption = 60,
    rule: Annotated[str, typer.Option(help="only these rules, comma between")] = "",
    store: Annotated[str, typer.Option(help="only these stores, comma between")] = "",
    maintenance: Annotated[bool, typer.Option("--maintenance", help="say that it is one")] = False,
    by: Annotated[str, typer.Option(help="who")] = "",
    comment: Annotated[str, typer.Option(help="why")] = "",
) -> None:
    """Keep alerts back from every channel for a while; what is open then goes out.\f

    Raises BadParameter for a name, a rule or a store that cannot be one.
    """
    from alerting.deliver.state.controls import Silence, write_controls

    now = now_millis()
    span = {"is": "silence", "silence_id": name, "starts": now, "ends": now + minutes * 60_000}
    scope = {"rules": _split_names(rule), "stores": _split_names(store)}
    kind = "maintenance" if maintenance else "silence"
    fields = {**span, **scope, "kind": kind, "by": by, "comment": comment}
    try:
        settled = msgspec.convert(fields, Silence)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error
    write_controls(Settings.load(), [settled])
    print(f"{name}: {f'for {minutes} minutes' if minutes else 'ended'}")


@group.command("silences")
def list_silences(json: JsonOption = False) -> None:
    """The silences that are not over."""
    from ops.channels import silences

    now = now_millis()
    found = [silence for silence in silences(Settings.load()) if now < silence.ends]
    print_answer(json, {"silences": msgspec.to_builtins(found)}, map(_silence_line, found))


def _silence_line(silence: "Silence") -> str:
    ends = format_utc(from_millis(silence.ends))
    # The texts are escaped: a user may have written anything.
    remark = ascii(f"{silence.by} {silence.comment}".strip())[1:-1]
    return f"{silence.silence_id}  {silence.kind}  until {ends}  {remark}".rstrip()


def _split_names(text: str) -> str | list[str]:
    return [name.strip() for name in text.split(",")] if text else "all"


def _cells(message: "WebhookMessage") -> tuple[str, ...]:
    # The cause comes from a foreign server: it is shown on one line.
    cause = ascii(message.cause[:_SHOWN_CAUSE])[1:-1]
    due = format_utc(from_millis(message.due_at))
    status = "" if message.status is None else str(message.status)
    outcome = message.kind, message.outcome, str(message.attempts)
    return message.message_id, *outcome, due, status, cause
