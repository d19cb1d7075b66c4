"""The links that an append brings: found and written before its commit.

A crash in between does no harm: the records come again, and bring the same links. A day must be
noted before a version of the master has the records that change it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cassandra.cluster import Session

from batch_layer.links.changed_days import upsert_days
from batch_layer.links.first_copies import FirstCopyIndex
from batch_layer.links.linked_records import to_date, write_headers
from batch_layer.links.linker import Links, link_records
from batch_layer.links.reading import read_headers
from batch_layer.links.shares import FilesOfDay, link_shares
from runtime.kafka.offsets import Offsets
from runtime.registry.sources import FAMILIES


@dataclass(frozen=True)
class IngestLinks:
    """The links of all families, and the indexes of those whose copies may lie on other days.

    path: the folder of the indexes.
    """

    session: Session
    path: Path

    def unread(self, family: str, last: Offsets) -> Offsets:
        """The first offset that the index lacks, by partition; empty when it lacks nothing.

        last: the offset of the last record that the master has, by partition.
        """
        if not FAMILIES[family].copies_move:
            return {}
        with FirstCopyIndex.open(self.path / family) as index:
            until = index.until()
        has_all = all(offset < until.get(number, 0) for number, offset in last.items())
        return {} if has_all else {number: until.get(number, 0) for number in last}

    def add(
        self,
        family: str,
        files: Sequence[str],
        until: Offsets,
        files_of_day: FilesOfDay,
    ) -> None:
        """Link the records of these files, and note the days of other records that they change.

        until: the first offset behind them, by partition; files_of_day: all files of a UTC day of
        the family, these among them.
        """
        if not FAMILIES[family].copies_move:
            write_headers(self.session, family, link_shares(files, files_of_day))
            return
        with FirstCopyIndex.open(self.path / family) as index:
            for headers in read_headers(files):
                with index.changing() as copies:
                    links = link_records(copies, headers)
                self._write(family, links)
            with index.changing() as copies:
                copies.put_until(until)

    def _write(self, family: str, links: Links) -> None:
        write_headers(self.session, family, links)
        days = (
            (family, to_date(day), partition, until)
            for (day, partition), until in links.until.items()
        )
        upsert_days(self.session, days)
