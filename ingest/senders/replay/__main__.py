"""`python -m ingest.senders.replay`, the process behind `tally replay`.

It sends real receipts with seeded disturbances to Kafka or the gateway.
"""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from ingest.senders.replay.channels import Channel, GatewayChannel, KafkaChannel
from ingest.senders.replay.complete_journey import Extent, ReplayScope, extent, receipts
from ingest.senders.replay.perturbation import Perturbation, PlannedMessage, plan_messages
from ingest.senders.replay.progress import ProgressRecord
from runtime.connect import cassandra_session
from runtime.process.job import run_command
from runtime.process.output import show_progress
from runtime.records.backfill import declare_backfill
from schemas import loader
from tally.config.settings import Settings
from tally.errors import StackError, TallyError
from tally.time.instants import format_utc

# The source to which the real receipts belong.
FAMILY = "sales"
_FLUSH_EVERY_MESSAGES = 5_000
_FLUSH_EVERY_SECONDS = 5.0
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
# How early a message may be sent: this saves a system call for each message.
_EARLY_SECONDS = 0.005


class ReplaySource(StrEnum):
    """Where the receipts come from."""

    COMPLETE_JOURNEY = "complete-journey"


class Via(StrEnum):
    """How the messages enter."""

    KAFKA = "kafka"
    GATEWAY = "gateway"


@dataclass(frozen=True)
class Replay:
    """One replay: its receipts, disturbances, and speed in multiples of real time (0: no limit)."""

    scope: ReplayScope
    extent: Extent
    plan: Perturbation
    speed: float

    def run(self, channel: Channel, record: ProgressRecord, sent_before: int) -> dict[str, Any]:
        """Send everything after the first `sent_before` messages.

        Returns the counts of the whole replay.
        """
        counts: Counter[str] = Counter()
        send, shown = _PacedSender(channel, record, self.speed), 0
        with show_progress("receipts sent", self.extent.receipts) as advance:
            for number, message in enumerate(
                plan_messages(receipts(self.scope), self.plan), start=1
            ):
                counts[message.kind] += 1
                if number > sent_before and send.send(number, message):
                    advance(_receipts(counts) - shown)
                    shown = _receipts(counts)
            send.flush(counts.total())
            advance(_receipts(counts) - shown)
        return _result(counts, self.extent)


def _receipts(counts: Mapping[str, int]) -> int:
    """The number of messages that are real receipts; disturbances do not count."""
    return counts["original"] + counts["late"]


class _PacedSender:
    """Sends each message at its time, and at intervals records what is acknowledged."""

    def __init__(self, channel: Channel, record: ProgressRecord, speed: float) -> None:
        self._channel, self._record = channel, record
        self._wait = _pace(speed)
        self._flushed_at = time.monotonic()

    def send(self, number: int, message: PlannedMessage) -> bool:
        """Send a message; returns whether everything up to this number is acknowledged now."""
        self._wait(message.send_at)
        self._channel.send(message.key, message.value)
        due = (
            number % _FLUSH_EVERY_MESSAGES == 0
            or time.monotonic() - self._flushed_at > _FLUSH_EVERY_SECONDS
        )
        if due:
            self.flush(number)
        return due

    def flush(self, number: int) -> None:
        """Wait for the acknowledgements of everything up to this number, and record it."""
        self._channel.flush()
        # The record is saved last: after a crash in between some messages are sent twice, but none
        # is lost.
        self._record.save(number)
        self._flushed_at = time.monotonic()


def _pace(speed: float) -> Callable[[float], None]:
    """A function that returns when the event time is due."""
    if speed == 0:
        return lambda _send_at: None
    # Times count from the beginning and not from the last message, so delays do not add up.
    begun, first = time.monotonic(), None

    def wait(send_at: float) -> None:
        nonlocal first
        first = send_at if first is None else first
        ahead = begun + (send_at - first) / speed - time.monotonic()
        if ahead > _EARLY_SECONDS:
            time.sleep(ahead)

    return wait


def _result(counts: Counter[str], extent: Extent) -> dict[str, Any]:
    return {
        "receipts": _receipts(counts),
        "sent": counts.total(),
        "duplicates": counts["duplicate"],
        "late": counts["late"],
        "from": None if extent.first is None else format_utc(extent.first),
        "to": None if extent.last is None else format_utc(extent.last),
        "conflicts": counts["conflict"],
        "bad": counts["bad"],
    }


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no duration; write for example 30s, 5m, 2h or 1d")
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def _date(text: str, default: date) -> date:
    try:
        return date.fromisoformat(text) if text else default
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no date; write YYYY-MM-DD") from error


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("replay")
def replay(  # noqa: PLR0913  # the options of the command line
    source: Annotated[ReplaySource, typer.Option(help="where the receipts come from")],
    first: Annotated[
        str, typer.Option("--from", metavar="DATE", help="first UTC day; default the beginning")
    ] = "",
    end: Annotated[
        str, typer.Option("--to", metavar="DATE", help="UTC day to stop before; default the end")
    ] = "",
    stores: Annotated[str, typer.Option(help="comma list of store ids; default all")] = "",
    speed: Annotated[
        float, typer.Option(min=0, help="times real time; 0 is as fast as it goes")
    ] = 0,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="share of receipts sent twice")
    ] = 0,
    disorder: Annotated[
        str, typer.Option(metavar="DURATION", help="most jitter of the send time, e.g. 5m")
    ] = "0s",
    late: Annotated[
        float,
        typer.Option(min=0, max=1, help="share of receipts sent late"),
    ] = 0,
    late_by: Annotated[
        str, typer.Option(metavar="DURATION", help="most delay of a late receipt, e.g. 1d")
    ] = "1d",
    conflicts: Annotated[
        int, typer.Option(min=0, help="receipts sent again with another payload")
    ] = 0,
    bad: Annotated[int, typer.Option(min=0, help="messages that break the contract")] = 0,
    seed: Annotated[
        int, typer.Option(help="the same seed and options give the same messages in the same order")
    ] = 1,
    via: Annotated[Via, typer.Option(help="how the messages enter")] = Via.KAFKA,
    backfill: Annotated[
        bool,
        typer.Option(
            help="at the end declare the days as sent whole, so that their empty windows are zeros"
        ),
    ] = True,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="go on after what an earlier run of the same options got acknowledged"
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Send real receipts with seeded duplicates, disorder, lateness, conflicts and bad messages."""
    settings = Settings.load()
    scope = ReplayScope(
        _date(first, date.min),
        _date(end, date.max),
        tuple(store for store in stores.split(",") if store),
    )
    found_extent = extent(scope)
    plan = Perturbation(
        seed,
        duplicates,
        _seconds(disorder),
        late,
        _seconds(late_by),
        conflicts,
        bad,
        found_extent.receipts,
    )
    # Each set of options has its own record: in a run with other options a number means another
    # message.
    record = ProgressRecord.for_options(settings.home, repr((source, scope, plan, via)))
    channel = _channel(settings, via)
    begun = datetime.now(UTC)
    result = Replay(scope, found_extent, plan, speed).run(
        channel, record, record.load() if resume else 0
    )
    if backfill and found_extent.first and found_extent.last:
        _declare(settings, (found_extent.first.date(), found_extent.last.date()), source)
    _print(result, as_json, (datetime.now(UTC) - begun).total_seconds())


def _channel(settings: Settings, via: Via) -> Channel:
    source = loader.sources()[FAMILY]
    if via is Via.GATEWAY:
        return GatewayChannel(settings, source.path)
    return KafkaChannel(settings, source.raw_topic)


def _declare(settings: Settings, days: tuple[date, date], source: ReplaySource) -> None:
    try:
        with cassandra_session(settings) as session:
            declare_backfill(session, FAMILY, days, f"tally replay --source {source}")
    except StackError as error:
        verb = f"tally backfill declare {FAMILY} --days {days[0]}..{days[1]} --source {source}"
        raise TallyError(
            f"everything was sent, but the days are not declared: {error}; then `{verb}`"
        ) from error


def _print(result: dict[str, Any], as_json: bool, seconds: float) -> None:
    if as_json:
        print(json.dumps(result))
        return
    counts = ", ".join(
        f"{value:,} {name}" for name, value in result.items() if isinstance(value, int)
    )
    print(f"replayed {counts} of {result['from']} to {result['to']} in {seconds:.0f} s")


def main() -> int:
    """Exit code: 0 done, 1 failed, 2 wrong use."""
    return run_command("tally", lambda: app(prog_name="tally replay"))


if __name__ == "__main__":
    sys.exit(main())
