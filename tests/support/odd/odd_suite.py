"""Odd messages, at any scale: named ones and seeded mutations through the gateway and onto the
raw topics, unreadable bytes onto the canonical topics, and good receipts between them. Nothing
ends, nothing is lost, and everything has one fate."""

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest
from cassandra.cluster import Session

from ops.audit.ledgers import dead_letters
from runtime.kafka.producer import enqueue
from tally.time.instants import format_utc
from tests.support.clients.gateway_client import GatewayClient
from tests.support.clients.producers import connected_producer
from tests.support.odd.odd import Odd
from tests.support.odd.odd_messages import odd_messages
from tests.support.odd.odd_mutations import mutations
from tests.support.odd.unreadable import unreadable_records
from tests.support.oracles.ledger import FATES, ledger_totals
from tests.support.oracles.plain_oracle import Parts
from tests.support.stack.loop import Loop
from tests.support.stack.tables import batch_rows, speed_rows

PATHS = {"pos": "/v1/events/pos", "traffic": "/v1/events/traffic"}
TOPICS = {"pos": "posTransactionTopic", "traffic": "raw-traffic"}
ACCEPTED = "accepted"
GOOD_STORE, GOOD = "good-between", 1000
# As tests/support/oracles/pos_oracle.py has the parts.
GOOD_SUMS = (GOOD, GOOD * 99, 0, 0, 0, GOOD * 1000, 0, 0, 0)
# The gateway shows at most a hundred rejected lines of one body.
AT_ONCE = 90
HEADERS: list[list[tuple[str, str | bytes | None]]] = [
    [],
    [("", None)],
    [("store_id", b"\xff"), ("attempts", b"9" * 40)],
    [("first_seen", b"\0" * 99)],
]
SEED = 60


@dataclass
class Sent:
    """What was offered to the gateway and what of it was taken; what went straight onto raw and
    canonical topics."""

    offered: int = 0
    taken: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    raw: int = 0
    canonical: int = 0
    wrong: list[str] = field(default_factory=list)
    good: int = 0


class Odds:
    """Sends, and counts what it has sent."""

    def __init__(self, loop: Loop, gateway: GatewayClient) -> None:
        self._gateway = gateway
        self._producer = connected_producer(loop.settings, {"message.max.bytes": 6_200_000})
        self._chance = random.Random(SEED)
        self.now = datetime.now(UTC)
        self.sent = Sent()
        self.settled_at = 0.0

    def offer(self, odd: Odd) -> None:
        """One named message by itself; its answer must be the one that its name says."""
        answer = self._gateway.offer(PATHS[odd.kind], odd.body, "application/json")
        self.sent.offered += 1
        self.sent.taken += answer.status_code == 202
        self.sent.refused.update([answer.status_code] if answer.status_code != 202 else [])
        if (answer.status_code == 202) != (
            odd.outcome == ACCEPTED
        ) or not 200 <= answer.status_code < 500:
            self.sent.wrong.append(
                f"{odd.name}: {answer.status_code}, its outcome is {odd.outcome}"
            )

    def offer_lines(self, bodies: Sequence[bytes]) -> None:
        """Messages as NDJSON; each line is taken or refused by itself.

        One that would be several lines, or none, goes alone.
        """
        lines = [body for body in bodies if b"\n" not in body and body.strip()]
        for body in bodies:
            if b"\n" in body or not body.strip():
                answer = self._gateway.offer(PATHS["pos"], body, "application/json")
                self._count(1, int(answer.status_code == 202), answer.status_code)
        answer = self._gateway.offer(PATHS["pos"], b"\n".join(lines), "application/x-ndjson")
        told: dict[str, Any] = answer.json()
        self._count(len(lines), told["accepted"], answer.status_code)
        if told["accepted"] + len(told["rejected"]) != len(lines):
            self.sent.wrong.append(
                f"of {len(lines)} lines {told['accepted']} taken and {len(told['rejected'])}"
                " refused"
            )

    def _count(self, offered: int, taken: int, status: int) -> None:
        self.sent.offered += offered
        self.sent.taken += taken
        self.sent.refused[422 if status == 202 else status] += offered - taken

    def put(self, topic: str, value: bytes | None) -> None:
        """Straight onto a topic, with whatever key and headers."""
        key = self._chance.choice((None, b"", b"\xff\x00", b"odd", b"k" * 900))
        headers = self._chance.choice(HEADERS)
        enqueue(self._producer, topic, value, key, headers=headers)
        name = "raw" if topic in TOPICS.values() else "canonical"
        setattr(self.sent, name, getattr(self.sent, name) + 1)

    def good(self, count: int) -> None:
        """The next good receipts, half of them through the gateway and half straight onto the
        raw topic."""
        for number in range(self.sent.good, self.sent.good + count):
            line = {"item": "Milk 1l", "price": "0.99", "amount": 1}
            message = {
                "happened_at": format_utc(self.now),
                "operation_id": GOOD_STORE,
                "vendor_fiscal_module": 1,
                "transaction_id": number,
                "transactions": [line],
            }
            body = json.dumps(message).encode()
            if number % 2:
                self.offer(Odd(f"good {number}", "pos", body, ACCEPTED))
            else:
                self.put(TOPICS["pos"], body)
        self.sent.good += count

    def settle(self) -> None:
        """Everything straight onto topics is acknowledged."""
        assert self._producer.flush(60) == 0
        self.settled_at = time.monotonic()


class OddSuite:
    """Tests that a subclass runs with its number of `mutations`, each offered to the gateway,
    and as many others onto the raw topic."""

    mutations: int

    @pytest.fixture(scope="class")
    @classmethod
    def before(cls, loop: Loop) -> tuple[Counter[str], dict[str, int]]:
        """The ledger, empty while there is no master dataset, and the process ids before
        anything odd."""
        return ledger_totals(loop) if loop.settings.master_path.exists() else Counter(), {
            name: state["pid"] for name, state in loop.status().items()
        }

    @pytest.fixture(scope="class")
    @classmethod
    def odds(cls, loop: Loop, gateway: GatewayClient, before: object) -> Odds:
        """Everything sent, and read by both layers."""
        odds = Odds(loop, gateway)
        for odd in odd_messages(odds.now):
            odds.offer(odd)
            odds.good(2)
        for odd in odd_messages(odds.now):
            odds.put(TOPICS[odd.kind], odd.body)
        for topic in TOPICS.values():
            odds.put(topic, None)
        _send_mutations(odds, cls.mutations)
        for family in ("sales", "traffic"):
            for value in unreadable_records(odds.now).values():
                odds.put(family, value)
        odds.good(GOOD - odds.sent.good)
        odds.settle()
        loop.catch_up()
        print(
            f"gateway: {odds.sent.offered:,} offered, {odds.sent.taken:,} taken, refused"
            f" {dict(odds.sent.refused)}; onto raw topics {odds.sent.raw:,}, onto canonical topics"
            f" {odds.sent.canonical:,}"
        )
        return odds

    @pytest.fixture(scope="class")
    @classmethod
    def after(cls, loop: Loop, odds: Odds) -> Counter[str]:
        """The ledger after a rebuild."""
        loop.rebuild_all_since(odds.settled_at)
        return ledger_totals(loop)

    def test_gateway_takes_and_refuses_each_as_its_name_says(self, odds: Odds) -> None:
        assert odds.sent.wrong == []
        assert odds.sent.taken + sum(odds.sent.refused.values()) == odds.sent.offered
        assert {status // 100 for status in odds.sent.refused} == {4}

    def test_good_ones_between_are_counted_in_the_speed_layer(
        self, odds: Odds, session: Session
    ) -> None:
        assert good_sums(speed_rows(session, "sales")) == GOOD_SUMS

    def test_good_ones_between_are_counted_in_the_rebuild(
        self, after: Counter[str], session: Session
    ) -> None:
        assert good_sums(batch_rows(session, "sales")) == GOOD_SUMS

    def test_every_message_has_exactly_one_fate(
        self, odds: Odds, before: tuple[Counter[str], object], after: Counter[str]
    ) -> None:
        grown = Counter({name: after[name] - before[0][name] for name in after})

        print(dict(grown))
        assert (
            grown["raw"]
            == odds.sent.taken + odds.sent.raw
            == grown["canonical"] + grown["dead_letter"]
        )
        assert (
            grown["committed"]
            == grown["canonical"] + grown["splits"] + odds.sent.canonical
            == sum(grown[fate] for fate in FATES)
        )
        assert (grown["unreadable"], grown["master"]) == (odds.sent.canonical, grown["committed"])

    def test_named_ones_on_the_raw_topics_are_dead_letters_of_their_reason(
        self, loop: Loop, after: Counter[str]
    ) -> None:
        expected = Counter(odd.outcome for odd in odd_messages() if odd.outcome != ACCEPTED)

        found = Counter(letter.reason for letter in dead_letters(loop.settings))

        assert {
            reason: (found[reason], count)
            for reason, count in expected.items()
            if found[reason] < count
        } == {}
        assert found["unreadable"] == 2 * len(unreadable_records(datetime.now(UTC)))

    def test_no_process_has_ended(
        self, loop: Loop, before: tuple[object, dict[str, int]], after: Counter[str]
    ) -> None:
        assert {name: state["pid"] for name, state in loop.status().items()} == before[1]


def _send_mutations(odds: Odds, count: int) -> None:
    offered, put = mutations(SEED, count, odds.now), mutations(SEED + 1, count, odds.now)
    while some := list(islice(offered, AT_ONCE)):
        odds.offer_lines(some)
        for other in islice(put, len(some)):
            odds.put(TOPICS["pos"], other)
        odds.good(min(2, GOOD - odds.sent.good))


def good_sums(rows: dict[Any, Parts]) -> Parts:
    """All parts of the good store."""
    return tuple(
        map(
            sum,
            zip(
                *(parts for (store, *_), parts in rows.items() if store == GOOD_STORE), strict=True
            ),
        )
    )
