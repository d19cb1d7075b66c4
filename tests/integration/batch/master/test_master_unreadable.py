"""Records that no layer can read are in the master like any other, and stop nothing behind them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cassandra.cluster import Session
from deltalake import DeltaTable

from batch_layer.master.extent import read_extent
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tests.integration.batch.conftest import Ingest
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import interval, receipt, send

NOON = datetime.now(UTC).replace(microsecond=0)
GOOD = msgspec.json.encode(receipt("1", 1, NOON))
ODD: dict[str, bytes | None] = {
    "tombstone": None,
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[1]",
    "no UTF-8": b"\xff\xfe\x00" + GOOD,
    "2,000 digits": GOOD.replace(b'"kind"', b'"x":1.' + b"3" * 2000 + b',"kind"'),
    "long name": GOOD.replace(b'"kind"', b'"' + b"n" * 60_000 + b'":1,"kind"'),
    "no store": GOOD.replace(b'"store_id":"1",', b""),
    "no happened_at": GOOD.replace(b'"happened_at"', b'"happened"'),
    "year 0": GOOD.replace(b'"happened_at":"20', b'"happened_at":"00'),
    "huge year": GOOD.replace(b'"happened_at":"', b'"happened_at":"+99'),
    "no number": GOOD.replace(b'"gross_minor":100', b'"gross_minor":"ten"'),
    "too large a number": GOOD.replace(b'"gross_minor":100', b'"gross_minor":1000000000001'),
    "garbage of 6 MB": b"x" * 6_000_000,
}
READABLE = ("year 0",)


def send_raw(settings: Settings, values: list[bytes | None]) -> None:
    producer = connected_producer(settings, {"message.max.bytes": 6_200_000})
    for value in values:
        producer.produce(
            "sales", value, b"\xff any key", 0, headers=[("odd", None), ("odd", b"\xff")]
        )
    assert producer.flush(60) == 0


def rows(settings: Settings) -> list[dict[str, Any]]:
    # Not the instants: Arrow has no room for the year 9999.
    columns = ["source", "event_date", "store_id", "event_id", "fingerprint", "partition", "offset"]
    table = DeltaTable(str(settings.master_path)).to_pyarrow_table(columns=columns)
    return sorted(
        (row for row in table.to_pylist() if row["source"] == "sales"),
        key=lambda row: (row["partition"], row["offset"]),
    )


def test_unreadable_records_are_held_by_their_coordinates_and_good_ones_behind_them_too(
    ingest: Ingest, batch_settings: Settings, session: Session
) -> None:
    send_raw(batch_settings, [*ODD.values()])
    old = [
        receipt("1", 2, datetime(year, 1, 1, tzinfo=UTC))
        for year in (1, 1582, 1899, 2000, 2017, 9999)
    ]
    send(batch_settings, "sales", [receipt("1", 1, NOON), *old])
    send(batch_settings, "traffic", [interval("1", "door", NOON)])

    ingest()

    held = rows(batch_settings)
    unreadable = [row for row in held if row["event_id"] is None]
    assert len(held) == len(ODD) + 1 + len(old) and len(unreadable) == len(ODD) - len(READABLE)
    assert {(row["store_id"], row["fingerprint"]) for row in unreadable} == {(None, None)}
    assert {abs(row["event_date"] - NOON.date()) <= timedelta(days=1) for row in unreadable} == {
        True
    }
    # The day of their arrival, which is the next one if midnight passed since this file's import.
    for day in {row["event_date"] for row in unreadable}:
        found = session.execute(
            "SELECT day FROM master_progress WHERE family = 'sales' AND day = %s AND partition = 0",
            [day],
        )
        assert found.one() is not None, day
    assert read_extent(batch_settings.master_path).fingerprints.keys() == {*FAMILIES}
