"""Wrong on purpose: `python -m tests.controls.layers.no_floor` is the shipped job whose queries
begin anew without a floor."""

import sys

from runtime.kafka.offsets import Offsets
from speed_layer.job import main
from speed_layer.session import Driver
from tally.config.settings import Settings
from tally.families.family import Family
from tests.controls.guard import refuse_outside_tests


def no_floor(driver: Driver, family: Family, starting: Offsets) -> None:
    """Of every window, wherever the query begins."""
    refuse_outside_tests(driver.settings)


if __name__ == "__main__":
    refuse_outside_tests(Settings.load())
    sys.exit(main(find_floor=no_floor))
