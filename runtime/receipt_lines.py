"""The lines of stored receipts, and the rules by which they add up."""

from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from runtime.sources import SALES
from schemas import loader
from schemas.source import read_yaml
from tally.receipt_rules import AddingRules, LineFacts, LineRule, ReceiptRule

FILE = "rules.yaml"
# Canonical topic of receipts.
RECEIPTS = SALES.topic


class StoredLine(msgspec.Struct, frozen=True):
    """What is read of a line: its amount in thousandths, its total in minor units."""

    item: str
    item_id: str
    amount_milli: int
    total_minor: int
    category: str | None = None
    line_type: str = "item"
    cancelled: bool = False

    @property
    def facts(self) -> LineFacts:
        """What the rules ask of it."""
        return LineFacts(self.line_type, self.cancelled, self.amount_milli, self.total_minor)


class _AddingTable(msgspec.Struct, frozen=True):
    """Of the file what lines add: the rest of it was settled as the receipt was taken in."""

    lines: tuple[LineRule, ...]
    receipts: tuple[ReceiptRule, ...]


_LINE = msgspec.json.Decoder(StoredLine)


def readable_lines(texts: Iterable[str]) -> Iterator[StoredLine]:
    """The lines that the texts are, each the JSON of a canonical record's."""
    for text in texts:
        try:
            yield _LINE.decode(text)
        except msgspec.DecodeError:
            # One that nobody can read must not take the rest: the sum tells that it lacks.
            continue


@cache
def adding_rules() -> AddingRules:
    """The rules of the source of receipts. Raises BadSource."""
    folder = loader.own_sources()[SALES.name].folder
    table = read_yaml(folder / FILE, _AddingTable)
    return AddingRules(table.lines, table.receipts)
