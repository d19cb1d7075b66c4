"""`python -m speed_layer.job`: one Spark application with one query for all families' views."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial

from runtime.kafka.offsets import Offsets
from runtime.registry.stores import load_families
from speed_layer import driver
from speed_layer.floor import compute_floor
from speed_layer.session import FindFloor, ReadStream, StartOptions, read_canonical_stream
from speed_layer.state.sink import MakeSink, RowSink
from speed_layer.supervisor import QueryDefinition
from speed_layer.views import QUERY, start_views
from tally.config.settings import Settings
from tally.errors import BadSettings


def main(
    argv: Sequence[str] | None = None,
    sink: MakeSink = RowSink,
    find_floor: FindFloor = compute_floor,
    read: ReadStream = read_canonical_stream,
) -> int:
    """Run the job and return its exit code; tests inject faults by all arguments but the first."""
    parser = argparse.ArgumentParser(prog="python -m speed_layer.job", description=__doc__)
    parser.add_argument(
        "--starting-offsets",
        default="{}",
        metavar="JSON",
        help='where a query without a checkpoint begins, e.g. {"sales": {"0": 12}}; default: the'
        " earliest records kept",
    )
    given = partial(parse_starting_offsets, parser.parse_args(argv).starting_offsets)
    # By arguments and not by settings: no fault can be switched on in production.
    start_options = StartOptions(find_floor, given, read)
    return driver.main("speed layer", lambda: [define_views_query(sink)], start_options)


def parse_starting_offsets(text: str, topic: str, partitions: int) -> Offsets | None:
    """The starting offsets of a topic, by partition, in a text as '{"sales": {"0": 12}}'.

    None if it does not name the topic; a partition that is not named begins at 0. Raises
    BadSettings for another text, or a partition that the topic does not have.
    """
    try:
        if (offsets := json.loads(text).get(topic)) is None:
            return None
        given = {int(partition): int(offset) for partition, offset in offsets.items()}
    except (ValueError, AttributeError, TypeError) as error:
        advice = 'give JSON such as {"sales": {"0": 12}}'
        raise BadSettings(f"--starting-offsets: {error}; {advice}") from error
    if not given.keys() <= {*range(partitions)}:
        held = f"{topic} has partitions 0 to {partitions - 1}"
        raise BadSettings(f"--starting-offsets: {held}, got {sorted(given)}")
    return {partition: given.get(partition, 0) for partition in range(partitions)}


def define_views_query(sink: MakeSink = RowSink) -> QueryDefinition:
    """The query of the views of all families, for a driver."""
    # With ten queries a micro-batch took 5.5 s on two cores, with one 1.2 (measured).
    families = tuple(load_families(Settings.load()).values())
    return QueryDefinition(
        QUERY,
        tuple(family.topic for family in families),
        families,
        lambda context, records, start_position: start_views(
            records, families, start_position.floors, context.settings, sink
        ),
        # Any bound gives the same rows, since lateness is decided within each partition (ADR 005).
        # This one keeps the heap small: 5 million waiting receipts go through 1 GB.
        lambda settings: settings.micro_batch_records,
    )


if __name__ == "__main__":
    sys.exit(main())
