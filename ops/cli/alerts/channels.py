"""`tally channels`: where alerts go by webhook, what became of messages, and silences."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.options import JsonOption
from runtime.process.output import print_json

if TYPE_CHECKING:
    from alerting.deliver.state.records import WebhookMessage

ChannelArgument = Annotated[str, typer.Argument(metavar="CHANNEL", help="channel_id")]
_MINUTES = typer.Option(min=0, max=525_600, help="from now on; 0 ends it")
_SHOWN_CAUSE = 60


def register(app: typer.Typer) -> None:
    """Add the verb group to the command line."""
    group = typer.Typer(
        help="Channels of alerts: set, list, deliveries, redeliver, silence, silences.",
        no_args_is_help=True,
    )
    group.command("set")(set_from_file)
    group.command("list")(list_channels)
    group.command("deliveries")(list_deliveries)
    group.command("redeliver")(redeliver_message)
    group.command("silence")(set_silence)
    group.command("silences")(list_silences)
    app.add_typer(group, name="channels")


def set_from_file(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="JSON of a channel")],
    json: JsonOption = False,
) -> None:
    """Settle a channel as FILE has it, in place of what it was."""
    from ops.channels import set_channel
    from tally.config.settings import Settings

    channel = set_channel(Settings.load(), file.read_bytes())
    if json:
        print_json({"channel": channel.channel_id})
    else:
        print(f"{channel.channel_id} is set: {channel.url!a}")


def list_channels(json: JsonOption = False) -> None:
    """The channels that there are."""
    from msgspec import to_builtins

    from ops.channels import channels
    from tally.config.settings import Settings

    known = channels(Settings.load())
    if json:
        print_json({"channels": [to_builtins(channel) for channel in known.values()]})
        return
    for channel in known.values():
        state = "" if channel.enabled else "  (off)"
        # The URL is escaped: a user may have written anything.
        print(f"{channel.channel_id}  {channel.url!a}{state}")


def list_deliveries(
    channel: ChannelArgument,
    dead: Annotated[bool, typer.Option("--dead", help="only what was given up")] = False,
    json: JsonOption = False,
) -> None:
    """The messages of CHANNEL, and what came of them."""
    from msgspec import to_builtins

    from ops.channels import deliveries
    from tally.config.settings import Settings

    messages = deliveries(Settings.load(), channel)
    wanted = [
        delivery for delivery in messages if not dead or delivery.outcome in ("dead", "unknown")
    ]
    if json:
        print_json({"deliveries": [to_builtins(delivery) for delivery in wanted]})
    else:
        _print_table(wanted)


def redeliver_message(
    channel: ChannelArgument,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="its webhook-id")],
    json: JsonOption = False,
) -> None:
    """Call for a message of CHANNEL again, under its id and with its bytes."""
    from ops.channels import redeliver
    from tally.config.settings import Settings

    redelivered = redeliver(Settings.load(), channel, message)
    if json:
        print_json({"channel": channel, "redelivered": redelivered.message_id})
    else:
        print(f"{redelivered.message_id} will be called for again")


def set_silence(
    name: Annotated[str, typer.Argument(metavar="NAME", help="of the silence, e.g. moving-house")],
    minutes: Annotated[int, _MINUTES] = 60,
    rule: Annotated[str, typer.Option(help="only these rules, comma between")] = "",
    store: Annotated[str, typer.Option(help="only these stores, comma between")] = "",
    maintenance: Annotated[bool, typer.Option("--maintenance", help="say that it is one")] = False,
    by: Annotated[str, typer.Option(help="who")] = "",
    comment: Annotated[str, typer.Option(help="why")] = "",
) -> None:
    """Keep alerts back from every channel for a while; what is open then goes out.\f

    Raises BadParameter for a name, a rule or a store that cannot be one.
    """
    from datetime import UTC, datetime

    import msgspec

    from alerting.deliver.state.controls import Silence
    from ops.channels import write_control
    from tally.config.settings import Settings
    from tally.time.instants import to_millis

    now = to_millis(datetime.now(UTC))
    fields = {
        "is": "silence",
        "silence_id": name,
        "starts": now,
        "ends": now + minutes * 60_000,
        "rules": _split_names(rule),
        "stores": _split_names(store),
        "kind": "maintenance" if maintenance else "silence",
        "by": by,
        "comment": comment,
    }
    try:
        settled = msgspec.convert(fields, Silence)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error
    write_control(Settings.load(), settled)
    print(f"{name}: {f'for {minutes} minutes' if minutes else 'ended'}")


def list_silences(json: JsonOption = False) -> None:
    """The silences that are not over."""
    from datetime import UTC, datetime

    from msgspec import to_builtins

    from ops.channels import silences
    from tally.config.settings import Settings
    from tally.time.instants import format_utc, from_millis, to_millis

    now = to_millis(datetime.now(UTC))
    found = [silence for silence in silences(Settings.load()) if now < silence.ends]
    if json:
        print_json({"silences": [to_builtins(silence) for silence in found]})
        return
    for silence in found:
        ends = format_utc(from_millis(silence.ends))
        # The texts are escaped: a user may have written anything.
        remark = ascii(f"{silence.by} {silence.comment}".strip())[1:-1]
        print(f"{silence.silence_id}  {silence.kind}  until {ends}  {remark}".rstrip())


def _split_names(text: str) -> str | list[str]:
    return [name.strip() for name in text.split(",")] if text else "all"


def _print_table(messages: Sequence["WebhookMessage"]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from tally.time.instants import format_utc, from_millis

    table = Table(
        Column("message", no_wrap=True, overflow="fold"),
        *("kind", "outcome", "attempts", "due", "status", "cause"),
        title=f"{len(messages):,} messages",
    )
    for message in messages:
        # The cause comes from a foreign server: it is shown without markup, on one line.
        cause = Text(ascii(message.cause[:_SHOWN_CAUSE])[1:-1])
        due = format_utc(from_millis(message.due_at))
        status = "" if message.status is None else str(message.status)
        attempts = str(message.attempts)
        table.add_row(
            message.message_id, message.kind, message.outcome, attempts, due, status, cause
        )
    Console().print(table)
