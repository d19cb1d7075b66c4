"""The windows of a day that a rule looks at: inside `within`, and not held back by other rules."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from alerting.episodes.fold import Episode
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.snapshot.calendar import StoreCalendarDays, WindowSpan, windows_in_schedule
from alerting.evaluate.snapshot.grains import eligible_ends, grain_spans
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.rules.rule import Rule, RuleVersion
from tally.time.windows import WINDOW_MILLIS

# Eight bits for each window of a day, from the first window on; either all or none are set.
DayBits = int
_EACH_WINDOW = 0xFF
# A store, and the windows of one of its days that have begun.
StoreDaySpan = tuple[str, WindowSpan]
# The episodes of a rule that overlap a store's day, given by its start in ms since 1970 (UTC).
EpisodeLookup = Callable[[VersionedRule, str, int], Iterable[Episode]]


class EligibleWindows:
    """The windows that rules look at, computed once for each store and day."""

    def __init__(self, rules: RuleSet, snapshot: SnapshotReader) -> None:
        self._rules, self._snapshot = rules, snapshot
        self._scheduled: dict[Hashable, frozenset[int]] = {}
        # The windows inside episodes, by store and start of a day, and by rule.
        self._inhibited: dict[tuple[str, int], dict[str, DayBits]] = defaultdict(dict)

    def eligible_bits(
        self,
        rule: VersionedRule,
        version: RuleVersion,
        store_day: StoreDaySpan,
        episodes: EpisodeLookup,
    ) -> DayBits | None:
        """The windows of the day that the rule looks at; None means all windows.

        `episodes`: the episodes of the rules that it waits for. The function is not stored: its
        owner also holds this object, and only the garbage collector would free such a cycle.
        """
        version_rule, (store_id, day) = version.rule, store_day
        if version_rule.within == "always" and not version_rule.unless:
            # The usual case.
            return None
        days = self._snapshot.days(store_id)
        inhibited = self._inhibition_bits(rule, version_rule.unless, store_day, episodes)
        if version_rule.within == "always" and not inhibited:
            return None
        key = version_rule.within, store_id, day
        if key not in self._scheduled:
            self._scheduled[key] = windows_in_schedule(version_rule, days, day)
        watched = self._scheduled[key]
        if version_rule.grain in ("hour", "day"):
            return _day_bits(_eligible_ends(version_rule, days, day, (watched, inhibited)), day)
        return _day_bits(watched, day) & ~inhibited

    def _inhibition_bits(
        self,
        rule: VersionedRule,
        names: tuple[str, ...],
        store_day: StoreDaySpan,
        episodes: EpisodeLookup,
    ) -> DayBits:
        """The windows of the day that lie in an episode of these rules, of any subject."""
        store_id, day = store_day
        known, inhibited = self._inhibited[store_id, day.start], 0
        for other in self._rules.find_dependencies(rule, names):
            # Each rule is folded once, however many rules wait for it.
            if other.rule_id not in known:
                for waited in self._rules.iter_dependencies(other, day, known):
                    known[waited.rule_id] = _episode_bits(
                        episodes(waited, store_id, day.start), day
                    )
            inhibited |= known[other.rule_id]
        return inhibited


def mask_verdicts(verdicts: bytes, first: int, looked_at: DayBits) -> bytes:
    """The verdicts on these windows only; other windows get 0.

    `first`: the number in the day of the window of the first verdict.
    """
    found = int.from_bytes(verdicts, "little") & (looked_at >> 8 * first)
    return found.to_bytes(len(verdicts), "little")


def _eligible_ends(
    rule: Rule, days: StoreCalendarDays, day: WindowSpan, windows: tuple[frozenset[int], DayBits]
) -> Iterable[int]:
    watched, inhibited = windows
    inhibited_starts = {
        window for window in day.windows if inhibited >> 8 * _place(window, day) & _EACH_WINDOW
    }
    spans = grain_spans(rule.grain, days, days.day(day.start))
    found = eligible_ends(rule.grain, spans, watched, inhibited_starts)
    # An hour or a day that has not ended yet has no last window.
    return [end for end in found if end < day.end]


def _episode_bits(episodes: Iterable[Episode], day: WindowSpan) -> DayBits:
    found = 0
    for episode in episodes:
        found |= _day_bits(filter(episode.contains, day.windows), day)
    return found


def _day_bits(windows: Iterable[int], day: WindowSpan) -> DayBits:
    found = bytearray(len(day.windows))
    for window in windows:
        found[_place(window, day)] = _EACH_WINDOW
    return int.from_bytes(found, "little")


def _place(window: int, day: WindowSpan) -> int:
    return (window - day.start) // WINDOW_MILLIS
