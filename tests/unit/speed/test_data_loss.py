"""A query that needs what the brokers no longer keep does not begin."""

import pytest

from speed_layer.session import RetainedOffsets, refuse_data_loss
from tally.errors import DataLoss

HELD = RetainedOffsets(earliest={0: 5}, end={0: 9})


@pytest.mark.parametrize("needed", [4, 10])
def test_offsets_that_the_topic_does_not_hold_are_data_loss(needed: int) -> None:
    with pytest.raises(
        DataLoss,
        match=(
            rf"goes on at offset {needed}, the broker holds 5 to 9; move the checkpoint folder away"
        ),
    ):
        refuse_data_loss({0: needed}, "sales", HELD)


@pytest.mark.parametrize("needed", [5, 9])
def test_offsets_that_the_topic_holds_are_not_data_loss(needed: int) -> None:
    refuse_data_loss({0: needed}, "sales", HELD)
