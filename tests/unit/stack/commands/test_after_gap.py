"""What `tally gaps accept` says is to be done next."""

from ops.cli.decisions import SPEED_QUERIES, _after_gap
from speed_layer import receipts, views
from tally.config.settings import Settings


def test_checkpoints_of_the_speed_layers_queries_are_named() -> None:
    settings = Settings()

    text = _after_gap(settings, "sales")

    assert SPEED_QUERIES == (views.QUERY, receipts.QUERY)
    assert [str(settings.checkpoint(name)) in text for name in SPEED_QUERIES] == [True, True]


def test_a_raw_topic_needs_the_normaliser_alone() -> None:
    assert "checkpoint" not in _after_gap(Settings(), "raw-traffic")
