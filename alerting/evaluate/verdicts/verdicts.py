"""The verdicts on a store's windows in one snapshot, by the rule versions in force in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from alerting.alert.ids import WHOLE_STORE, Chain
from alerting.episodes.fold import (
    IDLE_STATE,
    Episode,
    VerdictRange,
    WindowVerdict,
    fold,
    reduce_to_grain,
)
from alerting.episodes.verdict import ENDS, LEAVES, decode_verdict
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.snapshot.calendar import WindowSpan, start_of_window
from alerting.evaluate.snapshot.grains import ending_windows
from alerting.evaluate.snapshot.rule_readings import VersionMetrics
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader, list_requests
from alerting.evaluate.snapshot.window_facts import DayWindow
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.evaluate.verdicts.ending import apply_forced_ends, lapse_reason
from alerting.evaluate.verdicts.facts_cache import DayFacts, FactsCache
from alerting.evaluate.verdicts.watched import EligibleWindows, mask_verdicts
from alerting.rules.rule import RuleVersion
from tally.alerts.message import Reason
from tally.time.windows import WINDOW_MILLIS

# Reads all of these, and returns when they are in memory.
ReadNow = Callable[[Sequence[ReadRequest]], None]
_NEVER = 1 << 62


class _DayPiece(NamedTuple):
    """Windows of a day that one version evaluates, or that no version evaluates.

    `ends`: the starts of the windows that end an hour or a day which is evaluated by its total.
    """

    verdict_range: VerdictRange
    version: RuleVersion | None = None
    facts: DayFacts | None = None
    ends: frozenset[int] | None = None


def build_chain(rule: VersionedRule, store_id: str, subject: str = WHOLE_STORE) -> Chain:
    """The chain of the rule for the store as a whole, or for one subject in it."""
    return Chain(rule.rule_id, store_id, subject)


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
        self._eligible = EligibleWindows(rules, snapshot)
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
        for version, metrics in self._rules.readings(rule, span).values():
            yield from list_requests(version.rule, metrics, store_id, span)

    def list_chains(
        self,
        rule: VersionedRule,
        store_id: str,
        days: Sequence[int],
    ) -> list[Chain]:
        """The chains to evaluate on the days (given by their starts).

        These are the store as a whole, or each article that has alerts of the rule or calls for
        one now.
        """
        place = rule.rule_id, store_id, min(days, default=_NEVER)
        live = self._memory.chains.subjects(*place)
        if rule.evaluates_stores and not rule.is_cumulative and not live:
            return [build_chain(rule, store_id)]
        subjects = {*live}
        if rule.evaluates_stores:
            subjects.add(WHOLE_STORE)
        # Only a few of hundreds of articles: those that are far from running out have nothing to
        # fold.
        for start in days if rule.is_cumulative else ():
            subjects.update(self._matching_subjects(rule, store_id, start))
        return [build_chain(rule, store_id, subject) for subject in sorted(subjects)]

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
        for version, _ in rule.split_by_version(self.span(chain.store_id, start)):
            metrics = rule.metrics(version.version) if version else None
            if version is None or metrics is None:
                continue
            # The stock of single articles is not checked here.
            if metrics.metric.stock is not None:
                return True
            known = self._load_facts(rule, (version, metrics), chain.store_id, start)
            if known.raises(version.rule):
                return True
        return False

    def day_windows(
        self, rule: VersionedRule, store_id: str, start: int, subject: str = WHOLE_STORE
    ) -> list[DayWindow]:
        """The verdicts on the day window by window, including windows that do not count."""
        pieces = self._evaluate_day(rule, build_chain(rule, store_id, subject), start)
        return [
            _day_window(piece, place)
            for piece in pieces
            for place in range(len(piece.verdict_range.verdicts))
        ]

    def find_window(
        self, rule: VersionedRule, store_id: str, window: int, subject: str = WHOLE_STORE
    ) -> DayWindow | None:
        """The verdict on the window that begins at `window`; None if it has not begun."""
        day = self._snapshot.days(store_id).day(window)
        for piece in self._evaluate_day(rule, build_chain(rule, store_id, subject), day.start):
            place = (window - piece.verdict_range.start) // WINDOW_MILLIS
            if 0 <= place < len(piece.verdict_range.verdicts):
                return _day_window(piece, place)
        return None

    def episodes(self, rule: VersionedRule, store_id: str, start: int) -> Iterable[Episode]:
        """The episodes that overlap the day, folded from the stored state at its start."""
        for chain in self.list_chains(rule, store_id, [start]):
            state = self._memory.chains.fold_line(chain).state_at(start)
            # A fold at rest stays at rest until a window raises.
            if state != IDLE_STATE or self.may_raise(rule, chain, start):
                yield from fold(self.ranges(rule, chain, start), state).episodes

    def _evaluate_day(self, rule: VersionedRule, chain: Chain, start: int) -> list[_DayPiece]:
        key = chain, start
        if key not in self._days:
            span = self.span(chain.store_id, start)
            version_spans = rule.split_by_version(span)
            forced = self._memory.chains.find_forced_ends(chain)
            found = [
                self._evaluate_piece(rule, chain, version, piece)
                for version, piece in version_spans
            ]
            for number, piece in enumerate(found if forced else ()):
                verdicts = apply_forced_ends(piece.verdict_range, forced)
                verdict_range = structs.replace(piece.verdict_range, verdicts=verdicts)
                found[number] = piece._replace(verdict_range=verdict_range)
            self._days[key] = found
        return self._days[key]

    def end_reason(self, rule: VersionedRule, chain: Chain, window: int) -> Reason | None:
        """Why an episode ends with the window regardless of its numbers; None if they end it."""
        if forced := self._memory.chains.find_forced_ends(chain).get(window):
            return forced.reason
        day = self._snapshot.days(chain.store_id).day(window)
        version_spans = rule.split_by_version(day)
        [(version, begin)] = [
            (version, span.start) for version, span in version_spans if window in span.windows
        ]
        days = self._snapshot.days(chain.store_id)
        # Checked at the start of the span, as the verdicts are: a store's day may end after
        # midnight.
        return lapse_reason(rule, version, days, (chain.subject, begin))

    def _evaluate_piece(
        self, rule: VersionedRule, chain: Chain, version: RuleVersion | None, span: WindowSpan
    ) -> _DayPiece:
        metrics = rule.metrics(version.version) if version else None
        count = len(span.windows)
        days = self._snapshot.days(chain.store_id)
        is_over = lapse_reason(rule, version, days, (chain.subject, span.start)) is not None
        if version is None or metrics is None or is_over:
            # No served row calls for an alert here, so the windows count as covered and delay no
            # confirmation.
            verdicts = (ENDS if is_over else LEAVES) * count
            number = version.version if version else 0
            all_covered = VerdictRange(span.start, verdicts, number, covered_count=count)
            return _DayPiece(all_covered, version)
        whole = self.span(chain.store_id, span.start)
        known = self._load_facts(rule, (version, metrics), chain.store_id, whole.start)
        # Everything but the stock is the same for the hundreds of articles of a store.
        if (stock := metrics.metric.stock) is not None:
            article = version, chain.store_id, chain.subject
            known = self._facts.article_facts(known, stock, article)
        first = known.window_number(span.start)
        verdicts = known.verdicts(version.rule)[first : first + count]
        looked_at = self._eligible.eligible_bits(
            rule, version, (chain.store_id, whole), self.episodes
        )
        if looked_at is not None:
            verdicts = mask_verdicts(verdicts, first, looked_at)
        uncovered = known.final.find(0, first, first + count)
        verdict_range = VerdictRange(
            span.start,
            verdicts,
            version.version,
            version.rule.for_,
            version.rule.clear_for,
            count if uncovered < 0 else uncovered - first,
        )
        if version.rule.grain == "quarter_hour":
            # The usual case: each window counts.
            return _DayPiece(verdict_range, version, known)
        ends = ending_windows(version.rule.grain, days, days.day(span.start))
        return _DayPiece(verdict_range, version, known, ends)

    def _load_facts(
        self, rule: VersionedRule, by: tuple[RuleVersion, VersionMetrics], store_id: str, start: int
    ) -> DayFacts:
        """The day's windows as a version of the rule knows them; reads them where necessary."""
        version, metrics = by
        known = self._facts.find(rule.reading_key(version.version), store_id, start)
        if known is None:
            self._read_now([*self.list_requests(rule, store_id, start)])
            known = self._facts.compute(version, metrics, store_id, self.span(store_id, start))
        return known

    def _matching_subjects(self, rule: VersionedRule, store_id: str, start: int) -> Iterable[str]:
        """The subjects whose stock in a window of the day fulfils the condition."""
        span = self.span(store_id, start)
        self._read_now([*self.list_requests(rule, store_id, start)])
        for version, _ in rule.split_by_version(span):
            metrics = rule.metrics(version.version) if version else None
            condition = version.rule.condition if version else None
            if metrics is not None and metrics.metric.stock is not None and condition is not None:
                yield from self._facts.matching_subjects(condition, metrics, store_id, span)


def _day_window(piece: _DayPiece, place: int) -> DayWindow:
    verdict_range, version, known, ends = piece
    window = verdict_range.window_start(place)
    number = 0 if known is None else known.window_number(window)
    cells = None if known is None else known.cells_at(number)
    window_verdict = WindowVerdict(
        window,
        decode_verdict(verdict_range.verdicts[place]),
        verdict_range.version,
        verdict_range.for_,
        verdict_range.clear_for,
        known is None or bool(known.covered[number]),
    )
    return DayWindow(window_verdict, version, cells, ends is None or window in ends)
