"""An evaluator's evaluation of a partition, on the shipped functions: verdicts of windows, the fold
of the days that are named, and what is to be told of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import ChainDays, FoldedDays, FoldTimeline, Refolding, refold
from alerting.episodes.alert_diff import EvaluationContext, Transition, diff_alerts
from alerting.episodes.fold import WindowVerdict
from alerting.episodes.verdict import WindowFacts, evaluate_window
from alerting.rules.rule import Rule, Threshold
from tally.time.windows import WINDOW_MILLIS
from tests.laws.alerting.worlds.alert_shop import DAY, DAYS, WINDOWS, Published, Shop

# 2026-03-29T00:00:00Z, in milliseconds since 1970.
FIRST_WINDOW = 1_774_742_400_000
# Raised at once, also by a sum that may fall again: harder than what rules are allowed.
BUSY = Rule(
    rule_id="busy",
    metric="amount",
    condition=Threshold(">=", Decimal(2)),
    clear=Threshold("<=", Decimal(0)),
    evaluate="eager",
)
SILENT = Rule(rule_id="silent", kind="silence", family="receipts", on_silence="raise")
RULES = (BUSY, SILENT)
LATE_AFTER_SECONDS = 900
DayVerdicts = Callable[[int], Sequence[WindowVerdict]]


@dataclass
class Memory:
    """What a process knows of a partition, and keeps in the state topic.

    `closed`: windows before it are; `evaluated`: by day the token of the generation that was read;
    `days`: how many had begun at the last evaluation.
    """

    told: dict[str, PublishedAlert] = field(default_factory=dict)
    states: dict[Chain, FoldTimeline] = field(default_factory=dict)
    closed: int = 0
    days: int = 0
    edit: int | None = None
    evaluated: dict[int, int] = field(default_factory=dict)
    position: int = 0

    def copy(self) -> "Memory":
        states = {chain: FoldTimeline(line.entries) for chain, line in self.states.items()}
        return replace(self, told=dict(self.told), states=states, evaluated=dict(self.evaluated))


def instant(window: int) -> int:
    """Start of a window by its number."""
    return FIRST_WINDOW + window * WINDOW_MILLIS


def number(start: int) -> int:
    """The number of a window by its start."""
    return (start - FIRST_WINDOW) // WINDOW_MILLIS


def chain_of(rule: Rule, store: int) -> Chain:
    """The rule at a store."""
    return Chain(rule.rule_id, str(store), "none")


def version(rule_id: str, edit: int | None, window: int) -> int:
    """The version in force in a window: of the one rule that is edited the second from there on.

    Version n wants n windows in a row.
    """
    return 2 if rule_id == BUSY.rule_id and edit is not None and window >= edit else 1


def reaching(told: Iterable[PublishedAlert], since: int) -> list[PublishedAlert]:
    """Those of the alerts that reach the instant, each with its raise and its ends, and no other:
    so few does an evaluator's memory give out."""
    last: dict[str, int] = {}
    for one in told:
        of = one.of or one.alert_id
        last[of] = max(last.get(of, 0), one.window)
    return [one for one in told if last[one.of or one.alert_id] >= since]


def remember(line: ChainDays, refolding: Refolding) -> None:
    """The states at the starts of the days that were folded."""
    for days, states in zip(refolding.spans, refolding.states, strict=True):
        line.states.set_days(states, days.until if days.until < line.boundaries[-1] else None)


class EvaluatedShop(Shop):
    """The stores, and how a partition of them is evaluated."""

    def __init__(self) -> None:
        super().__init__()
        self.fired: Counter[str] = Counter()

    def evaluate_store(
        self,
        store: int,
        memory: Memory,
        pointers: Mapping[int, Published],
        named: Collection[int],
    ) -> list[Transition]:
        """What is to be told of the days that are named; `memory` remembers it."""
        found: list[Transition] = []
        last = min(memory.closed, WINDOWS - 1)
        begun = [instant(day * DAY) for day in DAYS if day * DAY <= last]
        for rule in RULES:
            chain = chain_of(rule, store)
            line = ChainDays(
                [*begun, instant(last + 1)],
                memory.states.setdefault(chain, FoldTimeline()),
                [instant(day * DAY) for day in named],
                instant(memory.days * DAY),
            )
            evaluate_day = partial(self.window_verdicts, rule, store, memory, pointers)
            found += self.evaluate_chain(chain, line, memory, evaluate_day)
        memory.days = len(begun)
        return found

    def evaluate_chain(
        self, chain: Chain, line: ChainDays, memory: Memory, evaluate_day: DayVerdicts
    ) -> list[Transition]:
        """The same of one rule."""
        own = {key: one for key, one in memory.told.items() if one.chain == chain}
        refolding = refold(line, partial(reaching, own.values()), evaluate_day)
        found: list[Transition] = []
        for days in refolding.spans:
            before = reaching(own.values(), days.since)
            told_now = self.tell(chain, days, before, instant(memory.closed))
            own |= {one.alert.alert_id: one.alert for one in told_now}
            found += told_now
        memory.told |= own
        remember(line, refolding)
        folded = sum(days.until - days.start for days in refolding.spans)
        self.fired["days left alone"] += folded < line.boundaries[-1] - line.boundaries[0]
        return found

    def tell(
        self, chain: Chain, days: FoldedDays, told: Sequence[PublishedAlert], at: int
    ) -> list[Transition]:
        """What is to be told of days that were folded."""
        return diff_alerts(
            chain, days, told, EvaluationContext(at=at, late_after=LATE_AFTER_SECONDS)
        )

    def window_verdicts(
        self,
        rule: Rule,
        store: int,
        memory: Memory,
        pointers: Mapping[int, Published],
        start: int,
    ) -> Sequence[WindowVerdict]:
        """The verdicts on a day's windows that have begun, by the day's start."""
        first = number(start)
        last = min(first + DAY - 1, memory.closed, WINDOWS - 1)
        return [
            self.window_verdict(rule, store, window, memory, pointers)
            for window in range(first, last + 1)
        ]

    def window_verdict(
        self,
        rule: Rule,
        store: int,
        window: int,
        memory: Memory,
        pointers: Mapping[int, Published],
    ) -> WindowVerdict:
        """The verdict on one window."""
        served = self.served(store, window, pointers)
        is_covered = served is not None and served.is_covered
        is_closed = memory.closed > window
        row = served.row if served is not None and served.row.events else None
        value = None if row is None else row.events if rule is SILENT else row.amount
        facts = WindowFacts(
            phase="covered" if is_covered else "closed" if is_closed else "open",
            value=value,
            is_known=is_covered or not self.is_old_epoch(window, pointers),
        )
        number_of = version(rule.rule_id, memory.edit, window)
        return WindowVerdict(
            window=instant(window),
            verdict=evaluate_window(rule, facts),
            version=number_of,
            for_=number_of,
            is_covered=is_covered,
        )
