"""Days that are named for many rules together are those of which each alone has something to look
at; and each window is evaluated by the version that is in force in it."""

from collections.abc import Sequence
from decimal import Decimal
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from alerting.evaluate.scope.calendar import StoreCalendarDays, WindowSpan
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.scope.scope import PartitionChanges, select_days
from alerting.evaluate.state.memory import Hint
from alerting.rules.rule import Rule, RuleVersion, Threshold, version_at
from serving.questions.stores import Store
from tally.alerts.tick import Tick, last_closed_end
from tally.time.day_clock import DayClock
from tally.time.instants import from_millis, to_millis
from tally.time.windows import WINDOW_MILLIS
from tests.support.serving.serving_world import at

# The night in which the clocks of Rome go forward is among them.
BEGIN, WINDOWS = to_millis(at("2026-03-28T20:00")), 40
STORES = ("1", "2")
DAYS = StoreCalendarDays(Store("1", "1", DayClock.from_zone(ZoneInfo("Europe/Rome")), "EUR"))
METRICS = {
    "transactions": {"sales"},
    "visitors_in": {"traffic"},
    "conversion": {"sales", "traffic"},
}
places = st.integers(0, WINDOWS)
instants = st.integers(0, WINDOWS * WINDOW_MILLIS).map(lambda more: BEGIN + more)


def start_at(place: int) -> int:
    return BEGIN + place * WINDOW_MILLIS


@st.composite
def evaluated_rules(draw: st.DrawFn) -> list[VersionedRule]:
    """Up to six rules, of one to three versions each."""
    found = []
    for number in range(draw(st.integers(1, 6))):
        versions = []
        for version in range(1, draw(st.integers(1, 3)) + 1):
            rule = Rule(
                rule_id=f"rule-{number}",
                metric=draw(st.sampled_from([*METRICS])),
                condition=Threshold(">=", Decimal(1)),
                delay=draw(st.sampled_from([0, 60, 900])),
                stores=draw(st.sampled_from(["all", ("1",), ("2", "3")])),
            )
            # A broker's clock may have been set back between two.
            since = start_at(draw(places))
            retired = draw(st.integers(0, 4)) == 0
            one = RuleVersion(rule=rule, version=version, effective_from=since, retired=retired)
            versions.append(one)
        found.append(VersionedRule(f"rule-{number}", versions))
    return found


@st.composite
def sinces(draw: st.DrawFn) -> PartitionChanges:
    """What may have come: hints, closed windows, generations."""
    family = st.sampled_from(["sales", "traffic"])
    hints = st.builds(Hint, family, st.sampled_from(STORES), places.map(start_at))
    days = st.lists(st.sampled_from([at("2026-03-28T00:00"), at("2026-03-29T00:00")]), max_size=1)
    before, now = sorted([draw(instants), draw(instants)])
    through = [
        {name: draw(instants) for name in ("sales", "traffic")},
        {name: draw(instants) for name in ("sales", "traffic")},
    ]
    return PartitionChanges(
        Tick(at=before, through={name: min(one[name] for one in through) for name in through[0]}),
        Tick(at=now, through={name: max(one[name] for one in through) for name in through[0]}),
        draw(st.lists(hints, max_size=3)),
        {name: [one.date() for one in draw(days)] for name in ("sales", "traffic")},
        WindowSpan(BEGIN, now - (now - BEGIN) % WINDOW_MILLIS + WINDOW_MILLIS),
    )


def is_looked_at(since: PartitionChanges, rule: VersionedRule, store_id: str, window: int) -> bool:
    """Whether anything that has come speaks of the window, to any version of the rule."""
    if window < rule.since:
        return False
    day = from_millis(window).date()
    hinted = {(one.family, one.store_id, one.window) for one in since.hints}
    for one in rule.versions:
        families = METRICS[one.rule.metric or ""]
        ends = [
            last_closed_end(tick, families, one.rule.delay * 1000)
            for tick in (since.last_tick, since.tick)
        ]
        if ends[0] <= window < ends[1]:
            return True
        if any(
            day in since.changed_days[name] or (name, store_id, window) in hinted
            for name in families
        ):
            return True
    return False


@settings(max_examples=400)
@given(evaluated_rules(), sinces())
def test_days_of_many_rules_are_those_of_each(
    rules: list[VersionedRule], since: PartitionChanges
) -> None:
    is_woken = DAYS.day(since.last_tick.at).end < since.span.end
    expected: dict[str, dict[str, set[int]]] = {}
    for rule in rules:
        names = [one.rule.stores for one in rule.versions]
        for store_id in STORES:
            if all(isinstance(one, tuple) and store_id not in one for one in names):
                continue
            windows = since.span.windows
            looked_at = [one for one in windows if is_looked_at(since, rule, store_id, one)]
            days = {DAYS.day(one).start for one in looked_at}
            if days or (is_woken and rule.since < since.span.end):
                expected.setdefault(store_id, {})[rule.rule_id] = days

    stores = {"sales": STORES, "traffic": STORES}
    found = dict(select_days(since, rules, stores, lambda _: DAYS))

    assert found == expected


def in_force_in(versions: Sequence[RuleVersion], window: int) -> RuleVersion | None:
    found = version_at(versions, window)
    return None if found is None or found.retired else found


@given(evaluated_rules(), places, places)
def test_each_window_is_evaluated_by_the_version_in_force(
    rules: list[VersionedRule], first: int, last: int
) -> None:
    for rule in rules:
        for span in (
            WindowSpan(start_at(first), start_at(last)),
            WindowSpan(start_at(0), start_at(last)),
        ):
            in_force = {
                one: by and by.version
                for by, piece in rule.split(span).pieces
                for one in piece.windows
            }

            assert in_force == {one: in_force_in(rule.versions, one) for one in span.windows}
