"""Lines of stored receipts, and the rules for their sums."""

from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from runtime.registry.sources import SALES
from schemas import loader
from schemas.source import read_yaml
from tally.events.receipt_rules import LineFacts, LineRule, ReceiptRule, ReceiptRuleSet

FILE = "rules.yaml"
# The canonical topic of receipts.
RECEIPTS = SALES.topic


class StoredLine(msgspec.Struct, frozen=True):
    """The fields read from a line: its amount in thousandths, its total in minor units."""

    item: str
    item_id: str
    amount_milli: int
    total_minor: int
    category: str | None = None
    line_type: str = "item"
    cancelled: bool = False

    @property
    def facts(self) -> LineFacts:
        """The facts of the line that the rules use."""
        return LineFacts(self.line_type, self.cancelled, self.amount_milli, self.total_minor)


class _AddingTable(msgspec.Struct, frozen=True):
    """The part of the file about sums; the rest was applied when the receipt was ingested."""

    lines: tuple[LineRule, ...]
    receipts: tuple[ReceiptRule, ...]


_LINE = msgspec.json.Decoder(StoredLine)


def parse_lines(texts: Iterable[str]) -> Iterator[StoredLine]:
    """Parse the texts as lines, each the JSON of one line of a canonical record."""
    for text in texts:
        try:
            yield _LINE.decode(text)
        except msgspec.DecodeError:
            # An unreadable line must not discard the others: the sum shows that one is missing.
            continue


@cache
def load_adding_rules() -> ReceiptRuleSet:
    """The rules of the source of receipts. Raises BadSource."""
    folder = loader.builtin_sources()[SALES.name].folder
    table = read_yaml(folder / FILE, _AddingTable)
    return ReceiptRuleSet(table.lines, table.receipts)
