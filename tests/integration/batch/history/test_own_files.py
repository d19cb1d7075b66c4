"""A dirty rebuild of a master of 36 months reads the files of its days and no others.

The files of all other days are away while it runs. It publishes row for row what a full rebuild
publishes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from batch_layer.links.first_copies import lane_of_store
from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.proof import LANES_AT_ONCE, Proof, prove
from batch_layer.views.publish.publication import RebuildJob
from batch_layer.views.publish.written_rows import column_names
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.registry.sources import FAMILIES as ALL_FAMILIES
from runtime.registry.sources import SALES, TRAFFIC
from tally.families.family import Family
from tests.integration.batch.parts import Parts, Stage, at
from tests.support.sources.canonical import interval, receipt, send, sighting, void_of

MONTHS, LAST = 36, date(2026, 11, 1)
DAYS = [LAST - timedelta(days=number) for number in range(MONTHS * 30)]
# The days of 11 months back with a receipt of which a copy comes, and one that is voided.
COPIED, VOIDED = LAST - timedelta(days=330), LAST - timedelta(days=335)
LATE = LAST - timedelta(days=200)
WIFI = ALL_FAMILIES["wifi"]
FAMILIES = (SALES, TRAFFIC, WIFI)
# A visit depends on the key period of each of its minutes: its days are read on both sides.
HEARD = [LATE + timedelta(days=number) for number in range(-4, 5)]
Rows = set[tuple[object, ...]]


@dataclass(frozen=True)
class Served:
    """What stood after a rebuild: that of sales, and the rows of the others."""

    sales: Stage
    others: dict[str, Rows]


def number_of(day: date, hour: int = 0) -> int:
    """The number of a day's receipt."""
    return 3 * day.toordinal() + hour


def rebuilt(parts: Parts, mode: str) -> Served:
    """All families rebuilt."""
    sales = parts.stage(mode, FAMILIES)
    return Served(sales, {family.name: served_rows(parts, family) for family in (TRAFFIC, WIFI)})


def served_rows(parts: Parts, family: Family) -> Rows:
    """What is served of a family, but for the numbers of its generations."""
    days = parts.days(family.name)
    names = ", ".join(f'"{name}"' for name in column_names(family))
    found = parts.session.execute(f"SELECT generation, {names} FROM {family.batch_table}")
    return {tuple(map(str, row[1:])) for row in found if days.get(row.day.date()) == row.generation}


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("history")
    settings = own_site.settings.model_copy(update={"home": home, "ingest_trigger_seconds": 0.0})
    begun = datetime.combine(LAST, time(23), UTC)
    with cassandra_session(settings) as session, pytest.MonkeyPatch.context() as patched:
        patched.setattr("batch_layer.views.compute.plan.read_broker_time", lambda _settings: begun)
        yield Parts(spark, session, settings)


@pytest.fixture(scope="module")
def history(parts: Parts) -> Served:
    """Three receipts, an interval and a device on each day of 36 months, all rebuilt."""
    send(parts.settings, "traffic", [interval("1", "door", at(day, 10)) for day in DAYS])
    send(parts.settings, "wifi", [sighting("1", "till", at(day, 10)) for day in DAYS])
    parts.append(
        *(
            receipt("1", number_of(day, hour), at(day, 9 + hour))
            for day in DAYS
            for hour in range(3)
        )
    )
    return rebuilt(parts, "full")


@pytest.fixture(scope="module")
def dirty(parts: Parts, history: Served) -> Served:
    """A late receipt, interval and sighting, a copy of a receipt of 11 months back, a void of
    another one; rebuilt without the files of other days."""
    send(parts.settings, "traffic", [interval("1", "late", at(LATE, 10), 7)])
    send(parts.settings, "wifi", [sighting("1", "till", at(LATE, 10, 20))])
    parts.append(
        receipt("1", 1, at(LATE, 12), 500),
        receipt("1", number_of(COPIED), at(LAST, 12), 900),
        void_of(receipt("1", number_of(VOIDED), at(VOIDED, 9)), at(LAST, 13)),
    )
    present = {"sales": [LATE, LAST, VOIDED], "traffic": [LATE], "wifi": HEARD}
    with only_days(parts.settings.master_path, present):
        return rebuilt(parts, "dirty")


@pytest.fixture(scope="module")
def full(parts: Parts, dirty: Served) -> Served:
    """Everything again, with all files."""
    return rebuilt(parts, "full")


@contextmanager
def only_days(master: Path, present: Mapping[str, Sequence[date]]) -> Iterator[None]:
    """The files of all other days of each source are away within the block."""
    kept = {
        master / f"source={source}" / f"event_date={day}"
        for source, days in present.items()
        for day in days
    }
    away = [folder for folder in master.glob("source=*/event_date=*") if folder not in kept]
    assert len(away) > 2 * len(DAYS)
    print("present:", *sorted(str(folder.relative_to(master)) for folder in kept), sep="\n  ")
    for folder in away:
        folder.rename(folder.with_name(f"away-{folder.name}"))
    yield
    for folder in away:
        folder.with_name(f"away-{folder.name}").rename(folder)


def test_its_days_are_those_of_records_and_of_what_they_change(
    history: Served, dirty: Served
) -> None:
    changed = {
        day for day, generation in dirty.sales.days.items() if generation != history.sales.days[day]
    }

    assert changed == {LATE, LAST, VOIDED}


def test_rows_are_those_of_the_full_rebuild(dirty: Served, full: Served) -> None:
    wanted = full.sales.cells
    numbers = {family: len(rows) for family, rows in full.others.items()}
    print(f"compared: {len(wanted):,} cells of sales, rows of {numbers}")
    assert len(wanted) > 3 * len(DAYS) and min(numbers.values()) >= len(DAYS)
    assert (dirty.sales.cells, dirty.others) == (wanted, full.others)
    assert full.sales.report.changed_windows == 0


def prove_last_month(parts: Parts) -> Proof:
    """The proof of the lanes of store 1 and of the newest month."""
    spark, session = parts.spark, parts.session
    job = RebuildJob(lambda: spark, session, parts.settings, RebuildRequest(), [SALES])
    return prove(job, SALES, lane_of_store("1") // LANES_AT_ONCE)


def test_proof_compares_a_sample_and_finds_a_planted_wrong_row(parts: Parts, full: Served) -> None:
    proof = prove_last_month(parts)
    window = (
        "batch_sales_15min {} WHERE store_id = '1' AND day = %s AND generation = %s"
        " AND window_start = %s"
    )
    place = [LAST, full.sales.days[LAST], at(LAST, 9)]
    [row] = parts.session.execute(f"SELECT * FROM {window.format('')}", place)
    parts.session.execute(
        f"UPDATE {window.format('SET gross_minor = 1')}"
        " AND currency = %s AND dim = %s AND dim_value = %s",
        [*place, row.currency, row.dim, row.dim_value],
    )
    planted = prove_last_month(parts)

    print(f"{proof.rows} rows compared")
    assert (proof.rows > 3, proof.differ, proof.examples) == (True, 0, [])
    assert (planted.rows, planted.differ) == (proof.rows, 1)


def test_copy_of_another_day_counts_as_event_alone(dirty: Served) -> None:
    assert dirty.sales.cells["1", at(LAST, 12)] == (1, 0, 0, 1, 900)


def test_voided_receipt_of_eleven_months_back_counts_no_more(
    history: Served, dirty: Served
) -> None:
    assert history.sales.cells["1", at(VOIDED, 9)][1] == 1
    assert dirty.sales.cells["1", at(VOIDED, 9)][1:3] == (0, 0)
