"""Folding day by day is folding everything, and evaluating the days of which something has changed
is evaluating all of them."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import ChainDays, FoldTimeline, refold
from alerting.episodes.alert_diff import EvaluationContext, Transition, diff_alerts, match_alerts
from alerting.episodes.fold import IDLE_STATE, Episode, WindowVerdict, fold
from alerting.episodes.verdict import Verdict
from tally.time.windows import WINDOW_MILLIS
from tests.laws.alerting.worlds.alert_evaluation import reaching, remember

CHAIN = Chain("queue", "367", "device:q-2")
PER_DAY, COUNT = 3, 12
BASIS = EvaluationContext(at=COUNT * WINDOW_MILLIS, late_after=900)
RULINGS: tuple[Verdict, ...] = (-1, 0, 1, 1)
rulings = st.sampled_from(RULINGS)
runs = st.integers(1, 3)
# Of one window: what it says now, and whether a generation says it.
changes = st.dictionaries(
    st.integers(0, COUNT - 1), st.tuples(rulings, st.booleans()), min_size=1, max_size=5
)


def start_of(window: int) -> int:
    return window * WINDOW_MILLIS


@st.composite
def verdict_lists(draw: st.DrawFn) -> list[WindowVerdict]:
    """Up to thirty consecutive windows, whose versions change wherever they like."""
    said = draw(st.lists(st.tuples(rulings, runs, runs, st.integers(1, 2)), max_size=30))
    return [
        WindowVerdict(start_of(place), ruling, version, for_, clear_for)
        for place, (ruling, for_, clear_for, version) in enumerate(said)
    ]


def episodes_by_looking_back(verdicts: Sequence[WindowVerdict]) -> list[Episode]:
    """The same as the fold by another way: of each window it looks at those before it."""
    found: list[Episode] = []
    begin = 0
    for place, one in enumerate(verdicts):
        is_open = bool(found) and found[-1].ended is None
        need, wanted = (one.clear_for, -1) if is_open else (one.for_, 1)
        run = place
        while run > begin and verdicts[run - 1].verdict == wanted:
            run -= 1
        if one.verdict != wanted or place - run + 1 < need:
            continue
        if is_open:
            found[-1] = structs.replace(found[-1], ended=one.window)
        else:
            found.append(Episode(verdicts[run].window, one.window, one.version))
        begin = place + 1
    return found


@given(verdict_lists())
def test_fold_says_what_looking_back_from_each_window_says(verdicts: list[WindowVerdict]) -> None:
    assert list(fold(verdicts).episodes) == episodes_by_looking_back(verdicts)


@given(verdict_lists(), st.lists(st.integers(0, 30), max_size=5))
def test_day_by_day_from_states_is_all_at_once(
    verdicts: list[WindowVerdict], cuts: list[int]
) -> None:
    borders = [0, *sorted(cuts), len(verdicts)]
    state, episodes = IDLE_STATE, list[Episode]()
    for begin, end in pairwise(borders):
        folded = fold(verdicts[begin:end], state)
        # One that goes on is in both.
        episodes = [one for one in episodes if one.ended is not None] + list(folded.episodes)
        state = folded.state

    assert (tuple(episodes), state) == (fold(verdicts).episodes, fold(verdicts).state)


class Told:
    """One chain, as evaluators evaluate it that know of its views what has been named."""

    def __init__(self, for_: int, clear_for: int, edit: int) -> None:
        self.for_, self.clear_for, self.edit = for_, clear_for, edit
        self.views: dict[int, tuple[Verdict, bool]] = {}
        self.states = FoldTimeline()
        self.told: dict[str, PublishedAlert] = {}
        self.begun, self.days = 1, 0

    @property
    def borders(self) -> list[int]:
        return [*map(start_of, range(0, self.begun, PER_DAY)), start_of(self.begun)]

    def verdicts(self, day: int) -> list[WindowVerdict]:
        first = day // WINDOW_MILLIS
        windows = range(first, min(first + PER_DAY, self.begun))
        return [self._verdict(window) for window in windows]

    def _verdict(self, window: int) -> WindowVerdict:
        ruling, is_covered = self.views.get(window, (0, False))
        is_new = window >= self.edit
        for_ = 1 + self.for_ % 3 if is_new else self.for_
        version = 2 if is_new else 1
        start = start_of(window)
        return WindowVerdict(start, ruling, version, for_, self.clear_for, is_covered)

    def line(self, named: Collection[int]) -> ChainDays:
        return ChainDays(self.borders, self.states, named, start_of(self.days * PER_DAY))

    def evaluate(self, line: ChainDays) -> list[Transition]:
        """What is to be told of the days that are named; nothing is remembered."""
        told = dict(self.told)
        found: list[Transition] = []
        since = partial(reaching, told.values())
        for days in refold(line, since, self.verdicts).spans:
            now = diff_alerts(CHAIN, days, reaching(told.values(), days.since), BASIS)
            told |= {one.alert.alert_id: one.alert for one in now}
            found += now
        return found

    def evaluate_all(self) -> list[Transition]:
        return self.evaluate(ChainDays(self.borders, FoldTimeline(), self.borders, 0))

    def learn(self, change: Mapping[int, tuple[Verdict, bool]], begun: int) -> set[int]:
        """The days that are named by what is new."""
        self.views |= change
        new = range(self.begun, max(self.begun, begun))
        self.begun = max(self.begun, begun)
        return {start_of(window - window % PER_DAY) for window in [*change, *new]}

    def tell(self, named: Collection[int]) -> None:
        line = self.line(named)
        found = self.evaluate(line)
        remember(line, refold(line, partial(reaching, self.told.values()), self.verdicts))
        self.told |= {one.alert.alert_id: one.alert for one in found}
        self.days = len(self.borders) - 1


chains = st.builds(Told, runs, runs, st.integers(0, COUNT))
histories = st.lists(st.tuples(changes, st.integers(1, COUNT)), min_size=1, max_size=12)


def by_id(found: Sequence[Transition]) -> dict[str, tuple[PublishedAlert, str | None]]:
    """By id, without the end of an episode: of a later day it is known as it was told."""
    return {
        one.alert.alert_id: (structs.replace(one.alert, ended=None), one.reason) for one in found
    }


@settings(max_examples=1_000)
@given(chains, histories)
def test_evaluating_what_is_named_is_evaluating_all(
    told: Told, history: list[tuple[dict[int, tuple[Verdict, bool]], int]]
) -> None:
    for change, begun in history:
        named = [*told.learn(change, begun)]

        assert by_id(told.evaluate(told.line(named))) == by_id(told.evaluate_all())

        told.tell(named)
        assert told.evaluate_all() == []


@given(chains, histories, st.randoms(use_true_random=False))
def test_in_any_order_of_evaluation_the_same_is_true_at_the_end(
    told: Told, history: list[tuple[dict[int, tuple[Verdict, bool]], int]], random: object
) -> None:
    named: set[int] = set()
    for change, begun in history:
        named |= told.learn(change, begun)
        days = sorted(named, key=lambda _: random.random())  # type: ignore[attr-defined]
        # One of them now, the others with what comes next.
        told.tell(days[:1])
        named -= {*days[:1]}
    for day in named:
        told.tell([day])

    assert told.evaluate_all() == []
    wanted = fold([one for day in told.borders[:-1] for one in told.verdicts(day)]).episodes
    raises = [one for one in told.told.values() if one.is_unretracted and one.edge == "raise"]
    assert all(one is not None for _, one in match_alerts(raises, wanted).pairs)


@given(chains, histories)
def test_nothing_is_confirmed_or_taken_back_without_a_generation(
    told: Told, history: list[tuple[dict[int, tuple[Verdict, bool]], int]]
) -> None:
    for change, begun in history:
        named = [*told.learn(change, begun)]
        found = told.evaluate(told.line(named))
        taken_back = {one.alert.alert_id for one in found if one.alert.state == "retracted"}
        for one in found:
            if one.alert.state != "provisional" and one.alert.of not in taken_back:
                first = one.alert.window // WINDOW_MILLIS
                day = range(first - first % PER_DAY, first + 1)
                assert all(told.views.get(window, (0, False))[1] for window in day)
        told.tell(named)
