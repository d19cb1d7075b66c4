"""What a rebuild notes beside the rows, in registers that every run may write again.

Stores' days, currencies, tills, the ledger.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from cassandra.cluster import Session

from batch_layer.views.check import CheckedGeneration
from runtime.day_spans import SpanTable
from runtime.writes import write_groups, write_rows
from tally.families import Family


def note_days(session: Session, family: Family, checked: CheckedGeneration) -> None:
    """First and last day of each store, and of each of its currencies.

    Two registers by day number (the earlier first day and the later last day win).
    """
    stores = SpanTable(session, "store_activity", family.name, ("store_id",))
    currencies = SpanTable(session, "store_currency", family.name, ("store_id", "currency"))
    days = checked.stores.items()
    of_stores = (write for store, span in days for write in stores.writes((store,), span))
    of_currencies = (
        write
        for store, spans in checked.currencies.items()
        for name, span in spans.items()
        for write in currencies.writes((store, name), span)
    )
    # Over those of the speed layer too: the registers decide, not who came last.
    write_groups(session, ([write] for write in chain(of_stores, of_currencies)))


def note_ledger(
    session: Session, family: Family, generation: int, lines: Iterable[Mapping[str, int]]
) -> None:
    """The ledger of one generation, a row for each partition.

    Nothing is erased yet: erased is 0.
    """
    columns = ("partition", "committed", "counted", "duplicate", "conflict", "unreadable")
    text = (
        f"INSERT INTO batch_ledger (family, generation, {', '.join(columns)}, erased)"
        f" VALUES (?, ?, {', '.join('?' * len(columns))}, 0)"
    )
    rows = (
        (
            family.name,
            generation,
            *(line[name] for name in columns),
        )
        for line in lines
    )
    write_rows(session, text, rows)
