"""Twin stores whose tills correct and void receipts, begin their numbers anew each day, and have
clocks that are minutes off; what they send, and what is true at the end."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from zlib import crc32
from zoneinfo import ZoneInfo

import yaml

from ingest.senders.twin.people import TwinStore, draw_people
from ingest.senders.twin.sensors import SensorMessage, SoldGoods
from ingest.senders.twin.stream import SentMessage, Transport, arrivals
from runtime.registry.sources import SALES
from schemas import loader
from tally.config.settings import Settings
from tests.support.clients.producers import PlacedMessage, produced
from tests.support.oracles.pos_oracle import PARTS
from tests.support.twin.till_histories import (
    ReceiptHistory,
    TillHabits,
    draw_histories,
    receipt_messages,
)
from tests.support.twin.twin import arrive_by_the_sender

HABITS = TillHabits(corrected=0.15, voided=0.10, restarts=True)
# Till by till of each store, seconds that its clock is ahead.
CLOCKS = {1: 0.0, 2: -240.0, 3: 240.0}
TRANSPORT = Transport(duplicates=0.05, disordered=0.1, disorder=1800.0)
QUARTER_SECONDS = 900
Cell = tuple[str, datetime, str]


@dataclass(frozen=True)
class TillStory:
    """Some stores over some local days; the second one closes after midnight."""

    first: date
    days: int
    stores: int = 3
    seed: int = 45

    @cached_property
    def plans(self) -> list[TwinStore]:
        """The stores."""
        zones = ("Europe/Bratislava", "America/New_York", "Asia/Kathmandu")
        return [
            TwinStore(
                f"tills-{number}",
                ZoneInfo(zones[number % len(zones)]),
                closes=time(2) if number == 1 else time(20),
                passers=3_000,
            )
            for number in range(self.stores)
        ]

    def stores_file(self, folder: Path) -> Path:
        """What a stores file has to say of them."""
        entries = {
            one.store_id: {"tz": one.zone.key, "numbering": "daily", "day_starts": "04:00"}
            for one in self.plans
        }
        file = folder / "stores.yaml"
        file.write_text(yaml.safe_dump(entries), "utf-8")
        return file

    @cached_property
    def lives(self) -> list[tuple[str, ReceiptHistory]]:
        """By store what happened to each receipt, as the clock of its till showed it."""
        return [
            (store.store_id, _by_its_clock(life))
            for store in self.plans
            for number in range(self.days)
            for day in [self.first + timedelta(number)]
            for people in [draw_people(store, day, self.seed)]
            for life in draw_histories(store, HABITS, day, self.seed, people)
        ]

    @cached_property
    def sent(self) -> list[SentMessage]:
        """What the tills send, by when it arrives: the network knows nothing of their clocks."""
        found: list[SentMessage] = []
        for store in self.plans:
            own = [life for store_id, life in self.lives if store_id == store.store_id]
            made = [message for life in own for message in _messages(store.store_id, life)]
            found += arrivals(made, TRANSPORT, self.seed, store.store_id)
        return sorted(found, key=lambda one: (one.send_at, one.message.identity))

    def send(self, settings: Settings, some: Sequence[SentMessage]) -> None:
        """Onto the raw topic, each store into the partition of its canonical records."""
        topic = loader.sources()[SALES.name].raw_topic
        arrive_by_the_sender(settings, [topic])
        produced(
            settings,
            (
                PlacedMessage(topic, _partition(one, settings), one.send_at, one.message.body)
                for one in some
            ),
        )

    @cached_property
    def truth(self) -> dict[Cell, tuple[int, ...]]:
        """What is true at the end: the last version of each receipt that was not voided."""
        found: dict[Cell, Counter[str]] = {}
        for store_id, life in self.lives:
            at, lines = life.versions[-1]
            if life.voided_at is not None:
                continue
            start = datetime.fromtimestamp(int(at) - int(at) % QUARTER_SECONDS, UTC)
            cell = found.setdefault((store_id, start, "USD"), Counter())
            cell.update(receipts=1, gross_minor=_cents(lines), units_milli=1000 * _units(lines))
        return {cell: tuple(sums[part] for part in PARTS) for cell, sums in found.items()}


def _by_its_clock(life: ReceiptHistory) -> ReceiptHistory:
    ahead = CLOCKS[life.till]
    versions = [(at + ahead, lines) for at, lines in life.versions]
    voided_at = None if life.voided_at is None else life.voided_at + ahead
    return replace(life, versions=versions, voided_at=voided_at)


def _messages(store_id: str, life: ReceiptHistory) -> Iterator[SensorMessage]:
    for at, identity, fields in receipt_messages(store_id, life):
        real = at - CLOCKS[life.till]
        day = int(real // 86_400)
        named = f"pos/{store_id}/{day}/{identity}"
        yield SensorMessage("pos", real, named, json.dumps(fields).encode(), real)


def _partition(one: SentMessage, settings: Settings) -> int:
    store_id = one.message.identity.split("/")[1]
    return crc32(store_id.encode()) % settings.partitions


def _cents(lines: SoldGoods) -> int:
    return sum(int(Decimal(line["price"]) * 100) * int(line["amount"]) for line in lines)


def _units(lines: SoldGoods) -> int:
    return sum(int(line["amount"]) for line in lines)
