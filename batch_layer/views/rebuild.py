"""`python -m batch_layer.views.rebuild`: views computed anew from the master dataset and published by one flip.

Token first, then the pin, then compute, write, check, flip: readers never see half a rebuild, and a late run cannot go back.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import uuid4

from batch_layer.session import build_session
from batch_layer.views.publication import Job, publish
from batch_layer.views.scope import Wanted, parse_days
from tally.connect import cassandra_session
from tally.errors import TallyError
from tally.families import FAMILIES
from tally.settings import Settings


@dataclass(frozen=True)
class Report:
    """What one run did: days and rows published, windows changed against the generation before, the highest generation's number.

    A family in which there was nothing to do publishes nothing: 0 days, generation 0. A dry run counts days only.
    """

    run: str
    days: int
    rows: int
    changed_windows: int
    seconds: float
    generation: int


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 published (or nothing to do), 1 failed, 2 wrong use. With --json one object on standard output."""
    parser = argparse.ArgumentParser(prog="python -m batch_layer.views.rebuild", description="Rebuild views from the master dataset.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--full", action="store_true", help="every day of the master dataset")
    what.add_argument("--days", metavar="A..B", help="UTC days, both inclusive")
    what.add_argument("--dirty", action="store_true", help="days that have records beyond their generation (default)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be rebuilt")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(argv)
    try:
        wanted = parse_days(given.days) if given.days else Wanted("full" if given.full else "dirty")
    except ValueError as error:
        parser.error(str(error))
    settings = Settings.load()
    try:
        with cassandra_session(settings) as session:
            report = rebuild(Job(build_session(settings, "tally-rebuild"), session, settings, wanted, given.dry_run))
    except TallyError as error:
        print(f"rebuild: {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(report)) if given.json else f"rebuild {report.run}: {asdict(report)}")
    return 0


def rebuild(job: Job) -> Report:
    """Every family rebuilt. Raises TallyError when a check fails or the flip is refused; nothing is published then."""
    started = time.monotonic()
    published = [publish(job, family) for family in FAMILIES.values()]
    return Report(
        run=uuid4().hex[:12],
        days=max(one.days for one in published),
        rows=sum(one.rows for one in published),
        changed_windows=sum(one.changed_windows for one in published),
        seconds=round(time.monotonic() - started, 1),
        generation=max(one.generation for one in published),
    )


if __name__ == "__main__":
    sys.exit(main())
