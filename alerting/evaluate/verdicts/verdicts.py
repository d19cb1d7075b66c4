"""The verdicts on a store's windows in one snapshot, by the rule versions in force in them."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain as concatenate
from typing import NamedTuple

from msgspec import structs

from alerting.alert.ids import WHOLE_STORE, Chain, subject_text
from alerting.episodes.fold import (
    IDLE_STATE,
    Episode,
    VerdictRange,
    WindowVerdict,
    fold,
    reduce_to_grain,
)
from alerting.episodes.verdict import ENDS, LEAVES, RESOLVES, decode_verdict
from alerting.evaluate.scope.calendar import (
    StoreCalendarDays,
    WindowSpan,
    ending_windows,
    grain_spans,
    start_of_window,
    windows_in_schedule,
)
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule, VersionReading, applies_to
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader, list_requests
from alerting.evaluate.snapshot.window_facts import DayWindow
from alerting.evaluate.state.chain_memory import ForcedEnd
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.evaluate.verdicts.facts_cache import DayFacts, FactsCache
from alerting.rules.rule import Rule
from tally.alerts.message import Reason
from tally.time.windows import WINDOW_MILLIS

# Reads all of these, and returns when they are in memory.
ReadNow = Callable[[Sequence[ReadRequest]], None]
# Eight bits for each window of a day, from the first window on; either all or none are set.
DayBits = int
_EACH_WINDOW = 0xFF
_NEVER = 1 << 62


class _DayPiece(NamedTuple):
    """Windows of a day that one version evaluates, or that no version evaluates.

    `ends`: the starts of the windows that end an hour or a day which is evaluated by its total.
    """

    verdict_range: VerdictRange
    reading: VersionReading | None = None
    facts: DayFacts | None = None
    ends: frozenset[int] | None = None

    def window(self, place: int) -> DayWindow:
        """The window with this number in the piece."""
        verdict_range, reading, known, ends = self
        window = verdict_range.window_start(place)
        number = 0 if known is None else known.window_number(window)
        verdict = decode_verdict(verdict_range.verdicts[place])
        by = verdict_range.version, verdict_range.for_, verdict_range.clear_for
        is_covered = known is None or bool(known.covered[number])
        cells = None if known is None else known.cells_at(number)
        counts = ends is None or window in ends
        return DayWindow(WindowVerdict(window, verdict, *by, is_covered), reading, cells, counts)


class Verdicts:
    """The verdicts of one partition by its current tick; each window is evaluated once."""

    def __init__(
        self,
        rules: RuleSet,
        memory: PartitionMemory,
        snapshot: SnapshotReader,
        read_now: ReadNow,
        current_days: Mapping[FamilyDay, EvaluatedDay] = {},
    ) -> None:
        self._rules, self._memory = rules, memory
        self._snapshot, self._read_now = snapshot, read_now
        self._facts = FactsCache(memory, snapshot, current_days)
        self._days: dict[tuple[Chain, int], list[_DayPiece]] = {}
        self._spans: dict[tuple[str, int], WindowSpan] = {}
        self._scheduled: dict[Hashable, frozenset[int]] = {}
        # The windows inside episodes, by store and start of a day, and by rule.
        self._inhibited: dict[tuple[str, int], dict[str, DayBits]] = defaultdict(dict)
        # The last window that may be evaluated is the one that holds the tick's instant.
        self.end = start_of_window(memory.tick.at) + WINDOW_MILLIS

    def span(self, store_id: str, start: int) -> WindowSpan:
        """The windows that have begun of the local day that begins at `start`."""
        key = store_id, start
        if key not in self._spans:
            day = self._snapshot.days(store_id).day(start)
            self._spans[key] = day.cut_at(self.end)
        return self._spans[key]

    def list_requests(
        self, rule: VersionedRule, store_id: str, start: int
    ) -> Iterable[ReadRequest]:
        """What has to be read to evaluate the day, also for the rules that the rule waits for."""
        span = self.span(store_id, start)
        for reading in self._rules.readings(rule, span):
            yield from list_requests(reading.rule, reading.metrics, store_id, span)

    def read_day(self, rule: VersionedRule, store_id: str, start: int) -> WindowSpan:
        """Read what the day needs where that is missing; the windows of the day that have begun."""
        self._read_now([*self.list_requests(rule, store_id, start)])
        return self.span(store_id, start)

    def list_chains(self, rule: VersionedRule, store_id: str, *days: int) -> list[Chain]:
        """The chains to evaluate on the days (given by their starts).

        These are the store as a whole, or each article that has alerts of the rule or calls for
        one now.
        """
        first = min(days, default=_NEVER)
        subjects = {*self._memory.chains.subjects(rule.rule_id, store_id, first)}
        if rule.evaluates_stores:
            subjects.add(WHOLE_STORE)
        # Only a few of hundreds of articles: those that are far from running out have nothing to
        # fold.
        for start in days if rule.is_cumulative else ():
            span = self.read_day(rule, store_id, start)
            for reading in rule.split(span).readings:
                subjects.update(self._facts.matching_subjects(reading, store_id, span))
        return [Chain(rule.rule_id, store_id, subject) for subject in sorted(subjects)]

    def ranges(self, rule: VersionedRule, chain: Chain, start: int) -> list[VerdictRange]:
        """The windows of the day that have begun and count, in order, ready to be folded."""
        pieces = self._evaluate_day(rule, chain, start)
        if len(pieces) == 1 and pieces[0].ends is None:
            return [pieces[0].verdict_range]
        return reduce_to_grain((piece.verdict_range, piece.ends) for piece in pieces)

    def may_raise(self, rule: VersionedRule, chain: Chain, start: int) -> bool:
        """Whether the rule may raise in a window of the day; False means that no range does.

        For most rules and days no other check is needed.
        """
        for reading in rule.split(self.span(chain.store_id, start)).readings:
            # The stock of single articles is not checked here.
            if reading.metrics.metric.stock is not None:
                return True
            known = self._load_facts(rule, reading, chain.store_id, start)
            if known.raises(reading.rule):
                return True
        return False

    def day_windows(
        self, rule: VersionedRule, store_id: str, start: int, subject: str = WHOLE_STORE
    ) -> list[DayWindow]:
        """The verdicts on the day window by window, including windows that do not count."""
        return [
            piece.window(place)
            for piece in self._evaluate_day(rule, Chain(rule.rule_id, store_id, subject), start)
            for place in range(len(piece.verdict_range.verdicts))
        ]

    def find_window(self, rule: VersionedRule, chain: Chain, window: int) -> DayWindow | None:
        """The verdict on the window that begins at `window`; None if it has not begun."""
        start = self._snapshot.days(chain.store_id).day(window).start
        for piece in self._evaluate_day(rule, chain, start):
            place = (window - piece.verdict_range.start) // WINDOW_MILLIS
            if 0 <= place < len(piece.verdict_range.verdicts):
                return piece.window(place)
        return None

    def episodes(self, rule: VersionedRule, store_id: str, start: int) -> Iterable[Episode]:
        """The episodes that overlap the day, folded from the stored state at its start."""
        for chain in self.list_chains(rule, store_id, start):
            state = self._memory.chains.fold_line(chain).state_at(start)
            # A fold at rest stays at rest until a window raises.
            if state != IDLE_STATE or self.may_raise(rule, chain, start):
                yield from fold(self.ranges(rule, chain, start), state).episodes

    def _evaluate_day(self, rule: VersionedRule, chain: Chain, start: int) -> list[_DayPiece]:
        key = chain, start
        if key not in self._days:
            pieces = rule.split(self.span(chain.store_id, start)).pieces
            found = [self._evaluate_piece(rule, chain, *piece) for piece in pieces]
            if forced := self._memory.chains.find_forced_ends(chain):
                found = [
                    piece._replace(verdict_range=_apply_forced_ends(piece.verdict_range, forced))
                    for piece in found
                ]
            self._days[key] = found
        return self._days[key]

    def end_reason(self, rule: VersionedRule, chain: Chain, window: int) -> Reason | None:
        """Why an episode ends with the window regardless of its numbers; None if they end it."""
        if forced := self._memory.chains.find_forced_ends(chain).get(window):
            return forced.reason
        pieces = rule.split(self._snapshot.days(chain.store_id).day(window)).pieces
        # Checked at the start of the span, as the verdicts are: a store's day may end after
        # midnight.
        [(reading, span)] = [piece for piece in pieces if window in piece[1].windows]
        return self._lapse_reason(rule, reading, chain, span.start)

    def _evaluate_piece(
        self, rule: VersionedRule, chain: Chain, reading: VersionReading | None, span: WindowSpan
    ) -> _DayPiece:
        count = len(span.windows)
        is_over = self._lapse_reason(rule, reading, chain, span.start) is not None
        number = reading.version.version if reading else 0
        if reading is None or is_over:
            # No served row calls for an alert here, so the windows count as covered and delay no
            # confirmation.
            verdicts = (ENDS if is_over else LEAVES) * count
            all_covered = VerdictRange(span.start, verdicts, number, covered_count=count)
            return _DayPiece(all_covered, reading)
        whole, evaluating_rule = self.span(chain.store_id, span.start), reading.rule
        known = self._load_facts(rule, reading, chain.store_id, whole.start)
        # Everything but the stock is the same for the hundreds of articles of a store.
        if reading.metrics.metric.stock is not None:
            known = self._facts.article_facts(known, reading, chain)
        first = known.window_number(span.start)
        verdicts = known.verdicts(evaluating_rule)[first : first + count]
        looked_at = self._eligible_bits(rule, evaluating_rule, chain.store_id, whole)
        if looked_at is not None:
            # All other windows get 0.
            masked = int.from_bytes(verdicts, "little") & (looked_at >> 8 * first)
            verdicts = masked.to_bytes(len(verdicts), "little")
        uncovered = known.final.find(0, first, first + count)
        runs = evaluating_rule.for_, evaluating_rule.clear_for
        covered_count = count if uncovered < 0 else uncovered - first
        verdict_range = VerdictRange(span.start, verdicts, number, *runs, covered_count)
        days = self._snapshot.days(chain.store_id)
        ends = ending_windows(evaluating_rule.grain, days, span.start)
        return _DayPiece(verdict_range, reading, known, ends)

    def _lapse_reason(
        self, rule: VersionedRule, reading: VersionReading | None, chain: Chain, window: int
    ) -> Reason | None:
        """Why the rule no longer evaluates the subject; None if it still does, or never did."""
        days, subject = self._snapshot.days(chain.store_id), chain.subject
        if reading is None:
            return "rule" if rule.is_retired(window) else _removal_reason(days, subject, window)
        is_of_articles = reading.rule.subject != "none"
        if is_of_articles == (subject == WHOLE_STORE):
            return "rule"
        # The local date is computed only for the few rules that need it.
        is_for_all = reading.rule.stores == "all"
        if not is_for_all and not applies_to(reading.rule, days.store, days.date(window)):
            return "rule"
        return _removal_reason(days, subject, window)

    def _load_facts(
        self, rule: VersionedRule, reading: VersionReading, store_id: str, start: int
    ) -> DayFacts:
        """The day's windows as a version of the rule knows them; reads them where necessary."""
        known = self._facts.find(reading.key, store_id, start)
        if known is None:
            span = self.read_day(rule, store_id, start)
            known = self._facts.compute(reading, store_id, span)
        return known

    def _eligible_bits(
        self, rule: VersionedRule, by: Rule, store_id: str, day: WindowSpan
    ) -> DayBits | None:
        """The windows inside `within`, and not held back by other rules; None means all windows."""
        if by.within == "always" and not by.unless:
            # The usual case.
            return None
        inhibited = self._inhibition_bits(rule, by.unless, store_id, day)
        if by.within == "always" and not inhibited:
            return None
        days, key = self._snapshot.days(store_id), (by.within, store_id, day)
        if key not in self._scheduled:
            self._scheduled[key] = windows_in_schedule(by, days, day)
        watched = self._scheduled[key]
        if by.grain not in ("hour", "day"):
            return _day_bits(watched, day) & ~inhibited
        spans = grain_spans(by.grain, days, days.day(day.start))
        # An hour that lies wholly inside, or a day with any window inside; an hour or a day that
        # has not ended yet has no last window.
        quantifier = any if by.grain == "day" else all
        ends = (
            span.windows[-1]
            for span in spans
            if span.windows[-1] < day.end
            and quantifier(window in watched for window in span.windows)
            and not _day_bits(span.windows, day) & inhibited
        )
        return _day_bits(ends, day)

    def _inhibition_bits(
        self, rule: VersionedRule, names: tuple[str, ...], store_id: str, day: WindowSpan
    ) -> DayBits:
        """The windows of the day that lie in an episode of these rules, of any subject."""
        known, inhibited = self._inhibited[store_id, day.start], 0
        for other in self._rules.find_dependencies(rule, names):
            # Each rule is folded once, however many rules wait for it.
            if other.rule_id not in known:
                for waited in self._rules.iter_dependencies(other, day, known):
                    episodes = self.episodes(waited, store_id, day.start)
                    inside = (filter(episode.contains, day.windows) for episode in episodes)
                    known[waited.rule_id] = _day_bits(concatenate.from_iterable(inside), day)
            inhibited |= known[other.rule_id]
        return inhibited


def _day_bits(windows: Iterable[int], day: WindowSpan) -> DayBits:
    found = bytearray(len(day.windows))
    for window in windows:
        found[(window - day.start) // WINDOW_MILLIS] = _EACH_WINDOW
    return int.from_bytes(found, "little")


def _removal_reason(days: StoreCalendarDays, subject: str, window: int) -> Reason | None:
    """The reason if the stores file says that the store is closed or the article delisted."""
    entry = days.store.entry
    if entry.closed is not None and days.date(window) >= entry.closed:
        return "closed"
    if not entry.delisted or subject == WHOLE_STORE:
        return None
    delisted = {subject_text("item", item): day for item, day in entry.delisted.items()}
    is_delisted = subject in delisted and days.date(window) >= delisted[subject]
    return "delisted" if is_delisted else None


def _apply_forced_ends(
    verdict_range: VerdictRange, forced: Mapping[int, ForcedEnd]
) -> VerdictRange:
    verdicts = bytearray(verdict_range.verdicts)
    for window, end in forced.items():
        place = (window - verdict_range.start) // WINDOW_MILLIS
        if 0 <= place < len(verdicts):
            verdicts[place] = (RESOLVES if end.reason == "resolved" else ENDS)[0]
    return structs.replace(verdict_range, verdicts=bytes(verdicts))
