"""`python -m ingest.senders.replay`, the process behind `tally replay`: sends real receipts."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

import typer

from ingest.senders.gateway_client import Channel, GatewayChannel, connect_gateway
from ingest.senders.replay.complete_journey import ReplayScope, extent
from ingest.senders.replay.perturbation import Perturbation
from ingest.senders.replay.run import KafkaChannel, ProgressRecord, Replay
from runtime.connect import cassandra_session
from runtime.process.job import run_command
from runtime.process.output import print_json
from runtime.records.control_copies import BACKFILLS, copy_table
from runtime.records.gaps import declare_backfill
from schemas import loader
from tally.config.settings import Settings
from tally.errors import StackError, TallyError

# The source to which the real receipts belong.
FAMILY = "sales"
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class ReplaySource(StrEnum):
    """Where the receipts come from."""

    COMPLETE_JOURNEY = "complete-journey"


class Via(StrEnum):
    """How the messages enter."""

    KAFKA = "kafka"
    GATEWAY = "gateway"


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
    chosen = tuple(store for store in stores.split(",") if store)
    scope = ReplayScope(_date(first, date.min), _date(end, date.max), chosen)
    found = extent(scope)
    jitter, delay = _seconds(disorder), _seconds(late_by)
    plan = Perturbation(seed, duplicates, jitter, late, delay, conflicts, bad, found.receipts)
    # Each set of options has its own record: in a run with other options a number means another
    # message.
    record = ProgressRecord.for_options(settings.home, repr((source, scope, plan, via)))
    begun, sent_before = time.monotonic(), record.load() if resume else 0
    with _channel(settings, via) as channel:
        result = Replay(scope, found, plan, speed).run(channel, record, sent_before)
    if backfill and found.first and found.last:
        _declare(settings, (found.first.date(), found.last.date()), source)
    _print(result, as_json, time.monotonic() - begun)


@contextmanager
def _channel(settings: Settings, via: Via) -> Iterator[Channel]:
    source = loader.sources()[FAMILY]
    if via is Via.KAFKA:
        yield KafkaChannel(settings, source.raw_topic)
        return
    with connect_gateway(settings.gateway) as gateway:
        yield GatewayChannel(gateway, source.path)


def _declare(settings: Settings, days: tuple[date, date], source: ReplaySource) -> None:
    try:
        with cassandra_session(settings) as session:
            declare_backfill(session, FAMILY, days, f"tally replay --source {source}")
            copy_table(session, settings.control_copies_path, BACKFILLS)
    except StackError as error:
        verb = f"tally backfill declare {FAMILY} --days {days[0]}..{days[1]} --source {source}"
        what = f"everything was sent, but the days are not declared: {error}"
        raise TallyError(f"{what}; then `{verb}`") from error


def _print(result: dict[str, Any], as_json: bool, seconds: float) -> None:
    if as_json:
        print_json(result)
        return
    numbers = (item for item in result.items() if isinstance(item[1], int))
    counts = ", ".join(f"{value:,} {name}" for name, value in numbers)
    print(f"replayed {counts} of {result['from']} to {result['to']} in {seconds:.0f} s")


def main() -> int:
    """Exit code: 0 done, 1 failed, 2 wrong use."""
    return run_command("tally", lambda: app(prog_name="tally replay"))


if __name__ == "__main__":
    sys.exit(main())
