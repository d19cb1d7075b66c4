"""`python -m speed_layer.job`: one Spark application with a streaming query for the view of each family."""

import argparse
import sys
from collections.abc import Sequence

from speed_layer import driver
from speed_layer.keeper import Planned
from speed_layer.view import start_view
from tally.families import FAMILIES, Family


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the job (runtime/job.py)."""
    parser = argparse.ArgumentParser(prog="python -m speed_layer.job", description=__doc__)
    parser.add_argument(
        "--starting-offsets", default="{}", metavar="JSON",
        help='where a query without a checkpoint begins, e.g. {"sales": {"0": 12}}; default: the earliest records kept',
    )  # fmt: skip
    return driver.main("speed layer", [_view(family) for family in FAMILIES.values()], parser.parse_args(argv).starting_offsets)


def _view(family: Family) -> Planned:
    return Planned(
        family.name, family.topic, family, lambda own, records, begins: start_view(records, family, begins.floor, own.settings)
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
