"""What is usual as it must not be read."""

from collections.abc import Sequence
from datetime import date

from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.usual_days import PinnedMoment
from tally.generation import Generation


class FollowsWhatServes(PinnedMoment):
    """Reads the generations that serve now, whatever the snapshot has noted."""

    async def published(self, family: str, days: Sequence[date]) -> dict[date, Generation]:
        """Those of the pointers."""
        return await ViewsMoment.published(self, family, days)
