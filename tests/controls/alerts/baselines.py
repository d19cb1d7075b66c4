"""What is usual as it must not be read."""

from collections.abc import Sequence
from datetime import date

from typing_extensions import override

from alerting.evaluate.snapshot.baseline_days import BaselineSnapshotReader
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from tally.families.generation import Generation


class FollowsWhatServes(BaselineSnapshotReader):
    """Reads the generations that serve now, whatever the snapshot has noted."""

    @override
    async def generations(self, family: str, days: Sequence[date]) -> dict[date, Generation]:
        """Those of the pointers."""
        return await SnapshotReader.generations(self, family, days)
