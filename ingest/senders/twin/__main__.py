"""`python -m ingest.senders.twin`, the process behind `tally simulate`: twin stores send by the
gateway."""

import sys
import time
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from ingest.senders.gateway_client import GatewayChannel, connect_gateway
from ingest.senders.twin.people import TwinStore
from ingest.senders.twin.stream import Transport, TwinDays, pause_or_exit, send
from runtime.process.job import run_command
from runtime.process.output import print_json, print_note
from runtime.registry.store_fields import parse_zone
from runtime.registry.stores import StoreEntry, load_stores
from schemas import loader
from tally.config.settings import Settings
from tally.time.day_clock import KeyDays


def twin_stores(
    count: int, passers: int, tz: str, settings: Settings, now: float
) -> list[TwinStore]:
    """The twin stores `twin-1` and so on, each with the clock of its entry in the stores file.

    They have no sightings from before the key period that runs at `now` (seconds since 1970).
    Raises BadSettings.
    """
    parse_zone(settings.default_timezone, "TALLY_DEFAULT_TIMEZONE")
    known = load_stores(settings.stores_file)
    at, found = datetime.fromtimestamp(now, UTC), []
    for name in (f"twin-{number}" for number in range(1, count + 1)):
        clock = known.get(name, StoreEntry()).clock(settings.default_timezone)
        zone = parse_zone(tz, "--tz") if tz else clock.zone
        # Not by --tz: the gateway decides by the clock that it knows for the store.
        since = KeyDays(settings.key_days).period(at, clock).start.timestamp()
        found.append(TwinStore(name, zone, passers=passers, sightings_since=since))
    return found


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("simulate")
def simulate(  # noqa: PLR0913  # the options of the command line
    stores: Annotated[
        int,
        typer.Option(min=1, max=1000, help="how many twin stores"),
    ] = 1,
    days: Annotated[
        int,
        typer.Option(min=1, max=366, help="local days up to today"),
    ] = 1,
    passers: Annotated[
        int, typer.Option(min=1, help="persons who come by a store on a day, in or not")
    ] = 2_000,
    live_minutes: Annotated[
        float,
        typer.Option(min=0, help="send as it happens, from now on for so long; 0: all up to now"),
    ] = 0.0,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="before --live-minutes: all of --days up to now")
    ] = False,
    with_starter: Annotated[
        bool, typer.Option("--until-stdin-ends", help="end when standard input does")
    ] = False,
    tz: Annotated[str, typer.Option(help="time zone of the stores; default by stores file")] = "",
    seed: Annotated[int, typer.Option(help="the same seed gives the same people")] = 1,
    truth: Annotated[
        Path | None, typer.Option(help="folder of the truth ledger; default TALLY_HOME/twin")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Let twin stores send what tills, sensors and shelves tell, and keep the truth beside it.

    Of sightings those of the key period that runs: the keys of earlier ones are destroyed.
    """
    settings, now = Settings.load(), time.time()
    chosen = twin_stores(stores, passers, tz, settings, now)
    until = now + 60 * live_minutes
    dates = _days(days, chosen[0].zone, now, until)
    twin = TwinDays(chosen, dates, seed, Transport())
    folder = truth or settings.home / "twin"
    totals = twin.write_truth(folder)
    # Both parts come from one list, so that no message is left out or sent twice in between.
    is_past = catch_up or not live_minutes
    past, coming = twin.split_arrivals(now, 0.0 if is_past else now, until)
    pause = pause_or_exit if with_starter else time.sleep
    # The twin names a source by the end of its path, not by its family's name.
    paths = [source.path for source in loader.builtin_sources().values()]
    with connect_gateway(settings.gateway) as gateway:
        channels = {path.rpartition("/")[2]: GatewayChannel(gateway, path) for path in paths}
        sent = send(past, channels, as_it_happens=False)
        if catch_up:
            say = print_note if as_json else print
            say(f"caught up with {datetime.fromtimestamp(now, UTC):%FT%TZ}: sent {_counts(sent)}")
            sys.stdout.flush()
        sent += send(coming, channels, as_it_happens=True, pause=pause)
    if as_json:
        print_json({"sent": sent, "truth": str(folder), **totals})
        return
    print(
        f"sent {_counts(sent)}; in truth {totals['visitors']:,} came in,"
        f" {totals['passers']:,} passed, {totals['buyers']:,} bought on these days ({folder})"
    )


def _days(count: int, zone: ZoneInfo, now: float, until: float) -> list[date]:
    """The last `count` local days up to today, and later ones that begin before `until`."""
    today = datetime.fromtimestamp(now, zone).date()
    last = datetime.fromtimestamp(until, zone).date()
    ordinals = range(today.toordinal() + 1 - count, last.toordinal() + 1)
    return [*map(date.fromordinal, ordinals)]


def _counts(sent: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {source}" for source, count in sorted(sent.items())) or "nothing"


def main() -> int:
    """Exit code: 0 done, 1 failed, 2 wrong use."""
    return run_command("tally", lambda: app(prog_name="tally simulate"))


if __name__ == "__main__":
    sys.exit(main())
