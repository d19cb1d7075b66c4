"""What `tally gaps accept` says is to be done next."""

import pytest

from ops.cli.decisions import SPEED_QUERIES, _after_gap
from speed_layer import receipts, views
from tally.config.settings import Settings


@pytest.mark.parametrize(
    ("topic", "services"), [("sales", ("speed", "receipts")), ("traffic", ("speed",))]
)
def test_checkpoints_of_the_queries_of_the_topic_are_named(
    topic: str, services: tuple[str, ...]
) -> None:
    settings = Settings()

    text = _after_gap(settings, topic)

    folders = [str(settings.checkpoint(SPEED_QUERIES[service])) for service in services]
    assert f"move {' and '.join(folders)} away" in text
    assert f"`tally up {' '.join(services)}`" in text


def test_queries_have_the_names_of_the_speed_layer() -> None:
    assert [*SPEED_QUERIES.values()] == [views.QUERY, receipts.QUERY]


def test_a_raw_topic_needs_the_normaliser_alone() -> None:
    assert "checkpoint" not in _after_gap(Settings(), "pos-receipts")
