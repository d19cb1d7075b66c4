"""Which told alert is which episode: by what contains its window, not by an equal start.

So an episode whose start moves, because an event came late, keeps its alert.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tally.alerts.fold import Episode
from tally.alerts.told import ToldAlert


class Matching(Struct, frozen=True):
    """Each episode with its alert, None where none was told.

    `merged`: lies in an episode that another alert is already, after two of them became one.
    `unwanted`: lies in none.
    """

    pairs: tuple[tuple[Episode, ToldAlert | None], ...]
    merged: tuple[ToldAlert, ...]
    unwanted: tuple[ToldAlert, ...]


def match(raises: Iterable[ToldAlert], episodes: Sequence[Episode]) -> Matching:
    """The raises of one chain that stand, told apart by the episodes that contain their windows.

    Of several in one episode the earliest stays. Episodes do not overlap, so each alert lies in one
    of them at most, and the order of either argument makes no difference.
    """
    left = sorted(raises, key=lambda one: (one.window, one.occurrence, one.alert_id))
    pairs: list[tuple[Episode, ToldAlert | None]] = []
    merged: list[ToldAlert] = []
    for episode in sorted(episodes, key=lambda one: one.start):
        # The earliest: whoever was told of the episode first has the id that the others wait for.
        inside = [one for one in left if episode.contains(one.window)]
        pairs.append((episode, inside[0] if inside else None))
        merged += inside[1:]
        left = [one for one in left if one not in inside]
    return Matching(tuple(pairs), tuple(merged), tuple(left))
