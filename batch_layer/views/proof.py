"""`python -m batch_layer.views.proof`: recomputes a sample of what is served, from all records.

A rebuild of a day reads the day's files and its links to other days. The proof reads every record
of the sampled stores and no link, and compares its rows with those that are served. Each day has
another sample: some lanes of stores, and one month. A family that is read from presences is left
out: its rows depend on the instant at which they were computed, and on no link.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import msgspec
from cassandra.cluster import Session
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_layer.links.first_copies import LANES, lane_of_store
from batch_layer.master.table import read_records
from batch_layer.views.compute.classification import classify_records
from batch_layer.views.compute.computation import PinnedRecords, Survey, compute
from batch_layer.views.compute.plan import RebuildPlan, plan_rebuild
from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.publication import RebuildJob
from batch_layer.views.publish.stored_rows import StoredRows, days_since_1970, to_plain
from batch_layer.views.publish.written_rows import column_names
from runtime.connect import cassandra_session
from runtime.process.job import run_job
from runtime.registry.stores import load_families
from runtime.spark.arrow import to_rows
from runtime.spark.session import build_session
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.families.family import Family
from tally.time.windows import EPOCH

LANES_AT_ONCE, SHOWN = 8, 3
_GROUPS = LANES // LANES_AT_ONCE
_DAYS_AT_ONCE = 20
# A row by store, day (since 1970), window start (ms since 1970) and axes; its values.
ProofKey = tuple[Any, ...]
ViewRows = dict[ProofKey, tuple[Any, ...]]


@dataclass(frozen=True)
class ProofSample:
    """Lanes of stores (ascending), and the served days of one month."""

    lanes: Sequence[int]
    days: Sequence[date]


_Cells = Sequence[Any]


@dataclass(frozen=True)
class Proof:
    """How many rows of a family were compared, how many differ, and some that do."""

    family: str
    lanes: list[int]
    first: date | None = None
    last: date | None = None
    rows: int = 0
    differ: int = 0
    examples: Sequence[str] = ()


def choose_sample(number: int, days: Iterable[date]) -> ProofSample:
    """The sample of this number: all lanes of one month before those of the next."""
    by_month: defaultdict[tuple[int, int], list[date]] = defaultdict(list)
    for day in sorted(days):
        by_month[day.year, day.month].append(day)
    round_number, group = divmod(number, _GROUPS)
    months = [*by_month.values()]
    chosen = months[-1 - round_number % len(months)] if months else []
    return ProofSample(range(group * LANES_AT_ONCE, (group + 1) * LANES_AT_ONCE), chosen)


def main(argv: Sequence[str] | None = None) -> int:
    """Prove; return the exit code: 0 all rows are equal, 1 some differ, 2 usage."""
    parser = argparse.ArgumentParser(
        prog="python -m batch_layer.views.proof",
        description="Recompute a sample of what is served from all records, and compare.",
    )
    parser.add_argument("--number", type=int, help="of the sample (default: today's)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(argv)
    today = (datetime.now(UTC).date() - EPOCH.date()).days
    number = today if given.number is None else given.number

    def work() -> None:
        """Prove each family, and print what was compared."""
        settings = Settings.load()
        families = [*load_families(settings).values()]
        with cassandra_session(settings) as session:
            build_spark = partial(build_session, settings, "tally-proof")
            job = RebuildJob(build_spark, session, settings, RebuildRequest(), families)
            proofs = [prove(job, family, number) for family in families if family.reading is None]
        print_proofs(proofs, is_json=given.json)
        _refuse_differences(proofs)

    return run_job("proof", work)


def _refuse_differences(proofs: Sequence[Proof]) -> None:
    if wrong := [proof.family for proof in proofs if proof.differ]:
        raise TallyError(
            f"rows of {', '.join(wrong)} differ from their records; `tally rebuild --full`"
            " publishes them again"
        )


def prove(job: RebuildJob, family: Family, number: int) -> Proof:
    """Recompute the sample of a family, and compare it with what is served."""
    current = PointerTable(job.session, family.name).current()
    plan = plan_rebuild(job.session, job.settings, RebuildRequest(), family, current)
    # A dirty day is not what its records say, and need not be until the next rebuild.
    changed = plan.reasons.keys() - plan.kept.keys()
    sample = choose_sample(number, current.keys() - changed)
    if not sample.days:
        return Proof(family.name, [*sample.lanes])
    records = read_lanes(job, plan, sample.lanes)
    found = compute_rows(job, plan, records, sample.days)
    stores = {row["store_id"] for row in records.select("store_id").distinct().collect()}
    stores |= read_store_ids(job.session, family, sample.lanes)
    served = read_served(job.session, plan, stores, sample.days)
    keys = found.keys() | served.keys()
    differ = sorted(key for key in keys if found.get(key) != served.get(key))
    shown = [_show_difference(key, served, found) for key in differ[:SHOWN]]
    return Proof(
        family.name,
        [*sample.lanes],
        first=sample.days[0],
        last=sample.days[-1],
        rows=len(keys),
        differ=len(differ),
        examples=shown,
    )


def _show_difference(key: ProofKey, served: ViewRows, found: ViewRows) -> str:
    return f"{key}: {served.get(key)} and not {found.get(key)}"


def read_lanes(job: RebuildJob, plan: RebuildPlan, lanes: Sequence[int]) -> DataFrame:
    """All records of the lanes' stores at the pinned version.

    In:  lanes: 0 to 255.
    Out: master records as read_records().
    """
    path, version = job.settings.master_path, plan.pin.version
    records = read_records(job.spark, path, version, plan.family.name)
    lane = F.crc32(F.encode("store_id", "UTF-8")) % LANES
    return records.where(lane.isin([*lanes]))


def compute_rows(
    job: RebuildJob, plan: RebuildPlan, records: DataFrame, days: Sequence[date]
) -> ViewRows:
    """The rows that these records give on the days.

    In:  master records as read_records(), of all days.
    Out: the rows by their keys.
    """
    family = plan.family
    fates = classify_records(records).persist()
    try:
        pinned = PinnedRecords(plan.pin, records, fates, Survey([]), plan.current)
        rows = compute(job.spark, job.settings, family, pinned, days).rows
        numbers = {"day": F.unix_date("day"), "window_start": F.unix_millis("window_start")}
        table = rows.withColumns(numbers).select(*column_names(family)).toArrow()
        return dict(_by_key(family, to_rows(table)))
    finally:
        fates.unpersist()


def read_store_ids(session: Session, family: Family, lanes: Sequence[int]) -> set[str]:
    """The known stores of the lanes, also those that the records do not have."""
    rows = session.execute("SELECT store_id FROM store_activity WHERE family = %s", [family.name])
    return {row.store_id for row in rows if lane_of_store(row.store_id) in lanes}


def read_served(
    session: Session, plan: RebuildPlan, stores: Iterable[str], days: Sequence[date]
) -> ViewRows:
    """The rows that are served of the stores on the days."""
    choices = days_since_1970(PointerTable(session, plan.family.name).choices(days, plan.current))
    keys = [(store, day) for store in sorted(stores) for day in choices]
    stored = StoredRows(session, plan.family).read(keys, choices)
    return {
        (*store_day, *key): values
        for store_day, rows in stored.items()
        for key, values in rows.items()
    }


def _by_key(family: Family, rows: Iterable[_Cells]) -> Iterator[tuple[ProofKey, Any]]:
    keys = len(("store_id", "day", *family.row_key))
    for row in rows:
        values = tuple(map(to_plain, row))
        yield values[:keys], values[keys:]


def print_proofs(proofs: Sequence[Proof], *, is_json: bool) -> None:
    """Print what was compared: one JSON object, or a line for each family."""
    if is_json:
        print(msgspec.json.encode({"proofs": proofs}).decode())
        return
    for proof in proofs:
        lanes = f"lanes {proof.lanes[0]} to {proof.lanes[-1]}"
        days = f"{proof.first} to {proof.last}" if proof.first else "no day"
        print(
            f"{proof.family}, {lanes}, {days}: {proof.rows:,} rows compared, {proof.differ} differ"
        )
        for example in proof.examples:
            print(f"  {example}")


if __name__ == "__main__":
    sys.exit(main())
