"""The bounds that every accepted message keeps, as a reader of the canonical topic would find
them broken."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ingest.installation.arrival import Arrival
from ingest.normaliser.normalise import Normaliser
from ingest.sources.registry import conversions
from runtime.processor.step import Input
from runtime.registry.sources import FAMILIES
from tally.algebra.parts import MAX_PART
from tally.errors import RejectedEvent
from tests.support.odd.odd import ACCEPTED
from tests.unit.ingest.messages import RULES

NOW = datetime.now(UTC)
TOPICS = {"pos": "posTransactionTopic", "traffic": "raw-traffic"}
FAMILY = {"posTransactionTopic": "sales", "raw-traffic": "traffic"}
MAX_CANONICAL_BYTES = 2_500_000
MAX_DIGITS, MAX_NAME = 1000, 256
STRING, NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"'), re.compile(rb"[-+.0-9eE]+")


def outcome(kind: str, body: bytes, arrived: datetime = NOW) -> str:
    """`accepted`, or the reason of the rejection."""
    try:
        conversions()[FAMILY[TOPICS[kind]]](body, Arrival(arrived, 0, 0), RULES)
    except RejectedEvent as error:
        return error.reason
    return ACCEPTED


def written(kind: str, body: bytes) -> bytes:
    """The canonical bytes of an accepted message, of the first where it is several records."""
    normaliser = Normaliser(RULES, 4, FAMILY)
    output, *_ = normaliser.process(
        Input(TOPICS[kind], 0, 0, int(NOW.timestamp() * 1000), None, body)
    )
    return output.value or b""


def beyond_bounds(family: str, value: bytes) -> list[str]:
    """What of a canonical record a reader may refuse."""
    record = json.loads(value)
    numbers = NUMBER.findall(STRING.sub(b"", value))
    found = [
        f"number of {len(number)} characters" for number in numbers if len(number) > MAX_DIGITS
    ]
    found += [f"name of {len(name)} characters" for name in names(record) if len(name) > MAX_NAME]
    found += [
        f"{part.name} is {record[part.name]}"
        for part in FAMILIES[family].parts
        # One that is optional is absent where it is 0.
        if abs(int(record.get(part.name, 0) if part.is_optional else record[part.name])) > MAX_PART
    ]
    return found + ([f"{len(value)} bytes"] if len(value) > MAX_CANONICAL_BYTES else [])


def names(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        yield from tree
    for inner in (
        tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    ):
        yield from names(inner)
