"""Wrong on purpose: `python -m tests.controls.no_floor` is the shipped job whose queries begin
anew without a floor."""

import sys

from speed_layer.job import main
from tests.controls.guard import refuse_outside_tests

if __name__ == "__main__":
    refuse_outside_tests()
    sys.exit(main(find_floor=lambda driver, family, starting: None))
