"""`python -m ingest.twin`, the process behind `tally simulate`: twin stores send by the gateway."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from ingest.replay.channels import Channel, GatewayChannel
from ingest.twin.people import people_of
from ingest.twin.plan import TwinStore
from ingest.twin.sensors import messages_of
from ingest.twin.transport import OnItsWay, Transport, arrivals
from ingest.twin.truth import write_truth
from runtime.job import run_verb
from runtime.output import print_json, progress
from runtime.store_fields import zone_of
from runtime.stores import store_entries
from schemas import loader
from tally.settings import Settings


@dataclass(frozen=True)
class TwinDays:
    """Which stores over which local days, and how their messages travel."""

    stores: Sequence[TwinStore]
    days: Sequence[date]
    seed: int
    transport: Transport

    def write_truth(self, folder: Path) -> Counter[str]:
        """The truth of every store and day, written; how many visitors, passers, buyers in all."""
        found: Counter[str] = Counter()
        for store in self.stores:
            for day in self.days:
                truth = write_truth(folder, store, day, people_of(store, day, self.seed))
                found += Counter(
                    visitors=truth.visitors, passers=truth.passers, buyers=truth.buyers
                )
        return found

    def arrivals(self, begin: float, until: float) -> list[OnItsWay]:
        """What is handed over between the instants (seconds since 1970), by when it is."""
        both = merge(*map(self._of_store, self.stores), key=lambda one: one.send_at)
        return [one for one in both if begin <= one.send_at < until]

    def _of_store(self, store: TwinStore) -> list[OnItsWay]:
        made = [
            message
            for day in self.days
            for message in messages_of(store, day, self.seed, people_of(store, day, self.seed))
        ]
        return arrivals(made, self.transport, self.seed, store.store_id)


def send(
    found: Sequence[OnItsWay], channels: Mapping[str, Channel], *, as_it_happens: bool
) -> Counter[str]:
    """Hand everything over in its order; how many messages of each source there were.

    As it happens each second's messages are waited for, else they go out as fast as they are taken.
    """
    with progress("twin messages sent", len(found)) as advance:
        for second, some in groupby(found, key=lambda one: int(one.send_at)):
            # At the second's end: of what is not over yet nobody could tell.
            if as_it_happens:
                time.sleep(max(0.0, second + 1 - time.time()))
            beat = [*some]
            for one in beat:
                channels[one.message.source].send("", one.message.body)
            for channel in channels.values():
                channel.settle()
            advance(len(beat))
    return Counter(one.message.source for one in found)


def twin_stores(count: int, passers: int, tz: str, settings: Settings) -> list[TwinStore]:
    """`twin-1` and so on, each by its entry in the stores file where it has one.

    Raises BadSettings.
    """
    known = store_entries(settings.stores_file)
    found = []
    for number in range(1, count + 1):
        name = f"twin-{number}"
        entry = known.get(name)
        zone = tz or (entry and entry.tz) or settings.default_timezone
        found.append(TwinStore(name, zone_of(zone, "--tz"), passers=passers))
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
    tz: Annotated[str, typer.Option(help="time zone of the stores; default by stores file")] = "",
    seed: Annotated[int, typer.Option(help="the same seed gives the same people")] = 1,
    truth: Annotated[
        Path | None, typer.Option(help="folder of the truth ledger; default TALLY_HOME/twin")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Let twin stores send receipts, door counts and sightings, and keep the truth beside them."""
    settings = Settings.load()
    chosen = twin_stores(stores, passers, tz, settings)
    twin = TwinDays(chosen, _days(days, chosen[0].zone), seed, Transport())
    folder = truth or settings.home / "twin"
    found = twin.write_truth(folder)
    now = time.time()
    # What would have been sent before now is not there any more, or what comes after it not yet.
    span = (now, now + 60 * live_minutes) if live_minutes else (0.0, now)
    sent = send(twin.arrivals(*span), _channels(settings), as_it_happens=live_minutes > 0)
    _print({"sent": sent, "truth": str(folder), **found}, as_json)


def _days(count: int, zone: ZoneInfo) -> list[date]:
    today = datetime.now(zone).date()
    return [today - timedelta(number) for number in reversed(range(count))]


def _channels(settings: Settings) -> dict[str, Channel]:
    # A source is called as its path ends, whatever its family's name is.
    paths = [source.path for source in loader.own_sources().values()]
    return {path.rpartition("/")[2]: GatewayChannel(settings, path) for path in paths}


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    sent = ", ".join(f"{count:,} {source}" for source, count in sorted(result["sent"].items()))
    print(
        f"sent {sent or 'nothing'}; in truth {result.get('visitors', 0):,} came in,"
        f" {result.get('passers', 0):,} passed, {result.get('buyers', 0):,} bought"
        f" on these days ({result['truth']})"
    )


def main() -> int:
    """Exit code: 0 done, 1 failed, 2 wrong use."""
    return run_verb("tally", lambda: app(prog_name="tally simulate"))


if __name__ == "__main__":
    sys.exit(main())
