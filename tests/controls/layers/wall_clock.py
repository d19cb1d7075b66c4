"""Wrong on purpose: speed rows written with the clock's timestamp, so that a replay or a second
driver overwrites richer rows.

`python -m tests.controls.layers.wall_clock` is the shipped job with this sink.
"""

import sys
import time

from typing_extensions import override

from speed_layer.job import main
from speed_layer.state.sink import RowSink, SpeedRow
from tally.config.settings import Settings
from tally.families.family import Family
from tests.controls.guard import refuse_outside_tests


class WallClockSink(RowSink):
    """The last to write wins, whatever it has seen."""

    def __init__(self, settings: Settings) -> None:
        refuse_outside_tests(settings)
        super().__init__(settings)

    @override
    def timestamp(self, family: Family, row: SpeedRow) -> int:
        """Microseconds since 1970."""
        return int(time.time() * 1_000_000)


if __name__ == "__main__":
    # Before Spark is started: the workers, who make the sink, come long after it.
    refuse_outside_tests(Settings.load())
    # By its full name, for the workers have to find it.
    from tests.controls.layers.wall_clock import WallClockSink as Shipped

    sys.exit(main(sink=Shipped))
