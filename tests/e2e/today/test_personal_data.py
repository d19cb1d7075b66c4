"""Personal data in good and broken messages is found in the raw topics, where it arrived, and
nowhere else; article numbers survive."""

import json
import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cassandra.cluster import Session
from deltalake import DeltaTable

from tests.support.clients.gateway_client import GatewayClient
from tests.support.clients.producers import connected_producer
from tests.support.odd.barcodes import article_numbers
from tests.support.odd.personal_data import (
    HEARD,
    MARK,
    PLANTED,
    SAID_BESIDE,
    STORE,
    broken_messages,
    codes_message,
    good_messages,
    heard_bodies,
    keys,
    sighting_with_more,
)
from tests.support.odd.scanner import Scan, scan_files, scan_tables, scan_topics
from tests.support.sources import meraki
from tests.support.sources.generated import PATHS
from tests.support.stack.loop import Loop
from tests.support.twin import night

RAW = ("posTransactionTopic", "raw-traffic", "raw-wifi")
EVERYTHING = {**PLANTED, **HEARD, **SAID_BESIDE}
CODES = article_numbers(13, 1000)


@dataclass(frozen=True)
class Planted:
    """When it was sent, and what the gateway answered to the broken ones."""

    at: datetime
    answers: list[str]


class TestPersonalData:
    @pytest.fixture(scope="class")
    @classmethod
    def planted(cls, loop: Loop, gateway: GatewayClient) -> Planted:
        """Good ones through the gateway, broken ones offered to it and put onto the raw topic
        with telling keys."""
        at, chance = datetime.now(UTC), random.Random(1)
        gateway.post(
            PATHS["pos"],
            [
                *good_messages(at),
                *(codes_message(at, n, CODES[n * 100 : n * 100 + 100]) for n in range(10)),
            ],
        )
        answers = [
            gateway.offer(PATHS["pos"], body, "application/json") for body in broken_messages(at)
        ]
        bodies = heard_bodies(night.NETWORK, at.replace(microsecond=0))
        heard = [gateway.offer(meraki.PATH, body, "application/json") for body in bodies]
        assert heard[0].status_code == 202
        gateway.post("/v1/events/wifi", [sighting_with_more(night.STORE, at)])
        producer = connected_producer(loop.settings)
        for body in broken_messages(at):
            producer.produce(RAW[0], body, chance.choice(keys()))
        assert producer.flush(30) == 0
        loop.catch_up()
        loop.wait_for_receipts()
        answers = [answer for answer in answers if answer.status_code != 202]
        return Planted(at, [answer.text for answer in (*answers, *heard)])

    def test_planted_values_are_in_the_raw_topic_and_in_no_other(
        self, loop: Loop, planted: Planted
    ) -> None:
        scan = Scan({**EVERYTHING, "mark": MARK})

        scan_topics(scan, loop.settings)

        print(f"{scan.records:,} records, {scan.size:,} bytes read; {scan.found}")
        assert {name: places for name, places in scan.found.items() if name != "mark"} == {
            name: {f"topic {RAW[0]}"} for name in PLANTED
        } | {name: {f"topic {RAW[2]}"} for name in SAID_BESIDE}
        assert scan.found["mark"] >= {"topic sales", "topic dead-letters"}

    def test_no_table_holds_a_planted_value(
        self, loop: Loop, planted: Planted, session: Session
    ) -> None:
        scan = Scan({**EVERYTHING, "mark": MARK})

        scan_tables(scan, session, loop.settings.keyspace)

        print(f"{scan.rows:,} rows, {scan.size:,} bytes read; {scan.found}")
        assert scan.found == {"mark": {"table raw_pos_transaction_byday"}}

    def test_no_file_and_no_log_holds_a_planted_value(self, loop: Loop, planted: Planted) -> None:
        scan = Scan({**EVERYTHING, "mark": MARK})

        scan_files(scan, loop.home, but=RAW)

        print(f"{scan.files:,} files, {scan.size:,} bytes read; {scan.found}")
        assert {name: places for name, places in scan.found.items() if name != "mark"} == {}
        assert any("data/master" in place for place in scan.found["mark"])

    def test_no_answer_of_the_gateway_repeats_a_planted_value_that_was_refused(
        self, planted: Planted
    ) -> None:
        scan = Scan({name: value for name, value in EVERYTHING.items() if name != "loyalty id"})

        for answer in planted.answers:
            scan.look(answer.encode(), "answer")

        assert (len(planted.answers) > 5, scan.found) == (True, {})

    def test_article_numbers_come_back_from_the_receipts_as_they_were(
        self, planted: Planted, session: Session
    ) -> None:
        rows = session.execute(
            "SELECT transaction_id, transactions FROM raw_pos_transaction_byday WHERE year_day = %s"
            " AND operation_id = %s",
            [planted.at.date().isoformat(), STORE],
        )

        lines = [
            json.loads(line)
            for row in rows
            if row.transaction_id.startswith("codes-")
            for line in row.transactions
        ]

        assert (
            sorted(line["item"] for line in lines)
            == sorted(line["item_id"] for line in lines)
            == CODES
        )

    def test_article_numbers_come_back_from_the_master_dataset_as_they_were(
        self, loop: Loop, planted: Planted
    ) -> None:
        held = DeltaTable(str(loop.settings.master_path)).to_pyarrow_table(
            columns=["value"], filters=[("store_id", "=", STORE)]
        )

        items = [
            found
            for value in held["value"].to_pylist()
            for found in re.findall(r'"item":"(\d{13,14})"', value)
        ]

        assert sorted(items) == CODES

    def test_scanner_finds_what_is_planted_in_a_topic_a_table_a_file_and_a_log(
        self, loop: Loop, planted: Planted, session: Session, tmp_path: Path
    ) -> None:
        scan = Scan(PLANTED)
        scan_topics(scan, loop.settings, topics=RAW)
        for name, value in PLANTED.items():
            (tmp_path / f"{name}.log").write_bytes(b"x" * 100 + value.upper().encode())
        scan_files(scan, tmp_path)
        session.execute(
            "INSERT INTO backfill (family, first_day, last_day, source) VALUES ('planted', 0,"
            " 0, %s)",
            [PLANTED["phone"]],
        )
        scan_tables(scan, session, loop.settings.keyspace)
        session.execute("DELETE FROM backfill WHERE family = 'planted'")

        assert {name: len(places) for name, places in scan.found.items()} == {
            name: 3 if name == "phone" else 2 for name in PLANTED
        }
