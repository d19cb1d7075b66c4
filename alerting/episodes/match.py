"""Matching of published alerts to episodes: by the episode that contains an alert's window.

Starts are not compared, so an episode whose start moves because of a late event keeps its alert.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from alerting.alert.published import PublishedAlert
from alerting.episodes.fold import Episode


class Matching(Struct, frozen=True):
    """Each episode with its alert, or None where no alert was published.

    `merged`: alerts in an episode that already has another alert, after two episodes became one.
    `unmatched`: alerts that lie in no episode.
    """

    pairs: tuple[tuple[Episode, PublishedAlert | None], ...]
    merged: tuple[PublishedAlert, ...]
    unmatched: tuple[PublishedAlert, ...]


def match_alerts(raises: Iterable[PublishedAlert], episodes: Sequence[Episode]) -> Matching:
    """The standing raises of one chain, matched to the episodes that contain their windows.

    If several raises lie in one episode, the earliest is matched. Episodes do not overlap, so each
    alert lies in at most one of them, and the order of either argument makes no difference.
    """
    left = sorted(raises, key=lambda alert: (alert.window, alert.occurrence, alert.alert_id))
    pairs: list[tuple[Episode, PublishedAlert | None]] = []
    merged: list[PublishedAlert] = []
    for episode in sorted(episodes, key=lambda span: span.start):
        # The earliest stays, because its id is the one that subscribers received first.
        inside = [alert for alert in left if episode.contains(alert.window)]
        pairs.append((episode, inside[0] if inside else None))
        merged += inside[1:]
        left = [alert for alert in left if alert not in inside]
    return Matching(tuple(pairs), tuple(merged), tuple(left))
