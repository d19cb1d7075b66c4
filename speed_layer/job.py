"""`python -m speed_layer.job`: one Spark application with one query for all families' views."""

import argparse
import sys
from collections.abc import Sequence

from speed_layer import driver
from speed_layer.handover import Begin, FindFloor, floor_of
from speed_layer.keeper import Planned
from speed_layer.sink.rows import MakeSink, RowSink
from speed_layer.views import QUERY, start_views
from tally.families import FAMILIES


def main(
    argv: Sequence[str] | None = None, sink: MakeSink = RowSink, find_floor: FindFloor = floor_of
) -> int:
    """Exit code of the job (runtime/job.py).

    `sink` and `find_floor` are the seams at which tests put in what is wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m speed_layer.job", description=__doc__)
    parser.add_argument(
        "--starting-offsets",
        default="{}",
        metavar="JSON",
        help=(
            'where a query without a checkpoint begins, e.g. {"sales": {"0": 12}}; default: the'
            " earliest records kept"
        ),
    )
    begin = Begin(parser.parse_args(argv).starting_offsets, find_floor)
    return driver.main("speed layer", [planned_views(sink)], begin)


def planned_views(sink: MakeSink = RowSink) -> Planned:
    """The query of the views of all families, for a driver."""
    families = tuple(FAMILIES.values())
    return Planned(
        QUERY,
        tuple(family.topic for family in families),
        families,
        lambda own, records, begins: start_views(
            records, families, begins.floors, own.settings, sink
        ),
        lambda settings: settings.micro_batch_records,
    )


if __name__ == "__main__":
    sys.exit(main())
