"""The windows of a day that a rule looks at: of its `within` those that no rule holds back."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from serving.alerts.evaluator.calendar import StoreCalendarDays, WindowSpan, watched_windows
from serving.alerts.evaluator.grains import grain_spans, watched_ends
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.moment import ViewsMoment
from tally.alerts.fold import Episode
from tally.alerts.rule import Rule, RuleVersion
from tally.windows import WINDOW_MILLIS

# Eight bits for each window of a day from its first one on, all of them set or none.
DayBits = int
_EACH_WINDOW = 0xFF
# A store, and the windows of a day of it that have begun.
DayOfStore = tuple[str, WindowSpan]
# Episodes of a rule in which a store's day, by its start in ms since 1970 (UTC), has a part.
EpisodesOf = Callable[[JudgedRule, str, int], Iterable[Episode]]


class WatchedWindows:
    """Looked for once for each store and day."""

    def __init__(self, rules: JudgedRules, moment: ViewsMoment) -> None:
        self._rules, self._moment = rules, moment
        self._watched: dict[Hashable, frozenset[int]] = {}
        # By store and start of a day, and by rule, the windows that episodes of it contain.
        self._held: dict[tuple[str, int], dict[str, DayBits]] = defaultdict(dict)

    def looked_at(
        self, rule: JudgedRule, version: RuleVersion, of: DayOfStore, episodes: EpisodesOf
    ) -> DayBits | None:
        """The windows that no other rule holds back; None: all.

        `episodes`: of the rules that it waits for. Not kept: whoever has them has this object too,
        and would be let go of by the garbage collector alone.
        """
        wanted, (store_id, day) = version.rule, of
        if wanted.within == "always" and not wanted.unless:
            # As most are.
            return None
        days = self._moment.days(store_id)
        held = self._held_back(rule, wanted.unless, of, episodes)
        if wanted.within == "always" and not held:
            return None
        key = wanted.within, store_id, day
        if key not in self._watched:
            self._watched[key] = watched_windows(wanted, days, day)
        watched = self._watched[key]
        if wanted.grain in ("hour", "day"):
            return _bits_of(_ends(wanted, days, day, (watched, held)), day)
        return _bits_of(watched, day) & ~held

    def forget_held(self) -> None:
        """Drops what episodes of other rules contain: their folds begin in other states now."""
        self._held.clear()

    def _held_back(
        self, rule: JudgedRule, names: tuple[str, ...], of: DayOfStore, episodes: EpisodesOf
    ) -> DayBits:
        """The windows of the day that an episode of these rules contains, of whichever subject."""
        store_id, day = of
        known, held = self._held[store_id, day.start], 0
        for other in self._rules.waits_for(rule, names):
            # Each rule once, however many wait for it.
            if other.rule_id not in known:
                for one in self._rules.waited_for(other, day, known):
                    known[one.rule_id] = _contained(episodes(one, store_id, day.start), day)
            held |= known[other.rule_id]
        return held


def only(verdicts: bytes, first: int, looked_at: DayBits) -> bytes:
    """The verdicts, of which the first is that of the window of a number, on these windows."""
    found = int.from_bytes(verdicts, "little") & (looked_at >> 8 * first)
    return found.to_bytes(len(verdicts), "little")


def _ends(
    rule: Rule, days: StoreCalendarDays, day: WindowSpan, of: tuple[frozenset[int], DayBits]
) -> Iterable[int]:
    watched, held = of
    held_starts = {one for one in day.windows if held >> 8 * _place(one, day) & _EACH_WINDOW}
    spans = grain_spans(rule.grain, days, days.day(day.start))
    found = watched_ends(rule.grain, spans, watched, held_starts)
    # An hour or a day that goes on has no end yet.
    return [one for one in found if one < day.end]


def _contained(episodes: Iterable[Episode], day: WindowSpan) -> DayBits:
    found = 0
    for episode in episodes:
        found |= _bits_of(filter(episode.contains, day.windows), day)
    return found


def _bits_of(windows: Iterable[int], day: WindowSpan) -> DayBits:
    found = bytearray(len(day.windows))
    for window in windows:
        found[_place(window, day)] = _EACH_WINDOW
    return int.from_bytes(found, "little")


def _place(window: int, day: WindowSpan) -> int:
    return (window - day.start) // WINDOW_MILLIS
