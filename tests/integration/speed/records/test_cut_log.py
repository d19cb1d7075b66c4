"""A broker that has lost the end of a log writes other records at the offsets that a query has
read."""

import zlib
from pathlib import Path

import msgspec
import pytest

from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.kafka.log_identity import read_topic_ids
from speed_layer.checkpoint_files import (
    TopicIdentity,
    store_topic_identities,
    verify_topic_identity,
)
from speed_layer.session import read_retained_offsets, refuse_data_loss
from tally.errors import DataLoss
from tally.events.identity import partition_number
from tests.integration.speed.query import NOON
from tests.support.sources.canonical import receipt, send
from tests.support.stack.cut_log import cut

STORE, TOPIC = "7", "sales"
SOLD = [receipt(STORE, number, NOON) for number in range(12)]


def test_log_that_was_cut_and_has_grown_beyond_the_position_is_refused(
    stoppable_broker: Site, tmp_path: Path
) -> None:
    settings, place = (
        stoppable_broker.settings,
        partition_number(STORE, stoppable_broker.settings.partitions),
    )
    for sold in SOLD[:6]:
        send(settings, TOPIC, [sold])
    last = {place: (5, zlib.crc32(msgspec.json.encode(SOLD[5])))}
    store_topic_identities(
        tmp_path, {TOPIC: TopicIdentity(read_topic_ids(settings, [TOPIC])[TOPIC], last)}
    )
    control.down(stoppable_broker, catalogue.select_services(()), print)
    (log,) = settings.home.rglob(f"{TOPIC}-{place}/00000000000000000000.log")
    cut(log, 3)
    control.up(stoppable_broker, catalogue.select_services(["kafka"]), print)
    for sold in SOLD[6:]:
        send(settings, TOPIC, [sold])
    held = read_retained_offsets(settings, TOPIC)

    # The offset alone tells nothing: the log is as long as before, and longer.
    refuse_data_loss({place: 6}, TOPIC, held)
    with pytest.raises(
        DataLoss,
        match=(
            rf"topic sales partition {place}: at offset 5 lies another record than the query has"
            r" read"
        ),
    ):
        verify_topic_identity(settings, tmp_path, {TOPIC: held})
