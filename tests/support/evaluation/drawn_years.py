"""Years of verdicts of twelve rules at five stores, drawn at random: what is true in the end, what
is known before, and what ends alerts besides their numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from random import Random

from msgspec import structs

from alerting.alert.ids import Chain, subject_text
from alerting.episodes.fold import Episode
from alerting.episodes.verdict import CLEARS, ENDS, LEAVES, RAISES, RESOLVES
from alerting.rules.rule import AgainstBaseline, Rule, RuleVersion, Threshold
from tally.events.identity import partition_number
from tally.time.instants import from_millis, to_millis
from tally.time.windows import WINDOW_MILLIS
from tests.support.serving.serving_world import PARTITIONS, at

A_DAY = 96
FIRST = to_millis(at("2026-01-01T00:00"))
STORES = [str(one) for one in range(1_000) if partition_number(str(one), PARTITIONS) == 1][:5]
CLOSED, ARTICLES = STORES[4], ("milk", "bread", "tea")
USUAL = AgainstBaseline("same_weekday_4w", "<= -30 %")
# Above all windows that a rule waits for.
SETTLED_BY_THEN = 3


def rules() -> list[Rule]:
    """Twelve of every kind. Each has a delay of its own, by which its verdicts are found."""
    over = Threshold(">=", Decimal(5))
    made = [
        Rule(rule_id="t1", metric="transactions", condition=over),
        Rule(rule_id="t2", metric="revenue", condition=over, for_=3, clear_for=2),
        Rule(rule_id="t3", metric="visitors_in", condition=over, for_=2),
        Rule(rule_id="t4", metric="units", condition=over, clear_for=4),
        Rule(rule_id="q1", kind="silence", family="sales", on_silence="raise"),
        Rule(rule_id="q2", kind="silence", family="traffic", on_silence="raise", for_=4),
        Rule(rule_id="q3", kind="silence", family="inventory", on_silence="raise", for_=8),
        Rule(rule_id="b1", kind="baseline", metric="revenue", condition=USUAL),
        Rule(rule_id="b2", kind="baseline", metric="visitors_in", condition=USUAL, for_=2),
    ]
    shelf = Rule(rule_id="s1", kind="stock", metric="stock_on_hand", subject="item", condition=over)
    made += [
        replace(shelf, rule_id=name, for_=for_, condition=Threshold("<=", Decimal(for_)))
        for name, for_ in (("s1", 1), ("s2", 2), ("s3", 3))
    ]
    return [replace(one, delay=number) for number, one in enumerate(made)]


@dataclass
class Plan:
    """All that happens in `days` days; windows are numbered from 0. `raw`: by chain a byte for each
    window, as it is known now."""

    seed: int
    days: int
    back: int
    random: Random = field(init=False)
    raw: dict[Chain, bytearray] = field(init=False)
    resolved: dict[Chain, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.rules = {one.rule_id: one for one in rules()}
        self.raw = {chain: self._drawn() for chain in self.chains()}

    @property
    def count(self) -> int:
        """How many windows there are."""
        return self.days * A_DAY

    def chains(self) -> Iterator[Chain]:
        """Every rule at every store, of stock at every article."""
        for rule in self.rules.values():
            articles = [subject_text("item", one) for one in ARTICLES]
            for subject in articles if rule.subject == "item" else [subject_text("none")]:
                for store_id in STORES:
                    yield Chain(rule.rule_id, store_id, subject)

    def versions(self) -> list[RuleVersion]:
        """Of some rules there is a second one: retired, of other stores, of longer runs."""
        found = [self._version(one, 1, 0) for one in self.rules.values()]
        third = self.days // 3
        t1, t2, q2, s3 = (self.rules[one] for one in ("t1", "t2", "q2", "s3"))
        found.append(self._version(replace(t2, for_=1, clear_for=1), 2, third))
        found.append(self._version(replace(t1, stores=tuple(STORES[1:])), 2, third))
        found.append(structs.replace(self._version(q2, 2, 2 * third), retired=True))
        found.append(structs.replace(self._version(s3, 2, third), retired=True))
        return found

    def closed(self) -> date:
        """The first day on which one of the stores is closed for good."""
        return day_of(self.days // 2 * A_DAY)

    def delisted(self) -> date:
        """The first day on which tea is sold no more in the first store."""
        return day_of(self.days // 4 * A_DAY)

    def stores_file(self) -> str:
        """The stores file that says so."""
        listed = [f'"{one}": {{tz: UTC}}' for one in STORES[1:4]]
        first = f'"{STORES[0]}": {{tz: UTC, delisted: {{tea: {self.delisted()}}}}}'
        last = f'"{CLOSED}": {{tz: UTC, closed: {self.closed()}}}'
        return "\n".join([first, *listed, last])

    def corrected(self, now: int) -> tuple[Chain, range]:
        """Late data changes some windows of a chain, which were over before `now`."""
        chain = self.random.choice([*self.raw])
        age = int(self.back * A_DAY * self.random.random() ** 6)
        first = max(0, now - 1 - age)
        windows = range(first, min(now, first + self.random.randint(1, 8)))
        kind = self.random.choice((LEAVES, RAISES, CLEARS))
        self.raw[chain][windows.start : windows.stop] = kind * len(windows)
        return chain, windows

    def verdicts(self, chain: Chain) -> bytes:
        """What is true of the chain in the end, with what ends episodes whatever their numbers."""
        found = bytearray(self.raw[chain])
        for end in self._over(chain):
            found[end:] = ENDS * (len(found) - end)
        for window in self.resolved.get(chain, ()):
            if found[window] != ENDS[0]:
                found[window] = RESOLVES[0]
        return bytes(found)

    def episodes(self, chain: Chain) -> list[Episode]:
        """The episodes of the chain, window by window, in another way than the product folds."""
        found: list[Episode] = []
        run = clear_run = 0
        is_resolved = False
        runs = {version.effective_from: version.rule for version in self._of(chain.rule_id)}
        rule = self.rules[chain.rule_id]
        for number, kind in enumerate(self.verdicts(chain)):
            rule = runs.get(start_of(number), rule)
            is_open = bool(found) and found[-1].ended is None
            run = run + 1 if kind == RAISES[0] and not is_open and not is_resolved else 0
            clear_run = clear_run + 1 if kind == CLEARS[0] and is_open else 0
            is_resolved = is_resolved and kind not in (CLEARS[0], ENDS[0])
            if run >= rule.for_:
                start = start_of(number - run + 1)
                found.append(Episode(start, start_of(number), 1))
                run = 0
            elif is_open and (clear_run >= rule.clear_for or kind in (ENDS[0], RESOLVES[0])):
                found[-1] = structs.replace(found[-1], ended=start_of(number))
                clear_run, is_resolved = 0, kind == RESOLVES[0]
        return found

    def _of(self, rule_id: str) -> list[RuleVersion]:
        return [one for one in self.versions() if one.rule.rule_id == rule_id]

    def _over(self, chain: Chain) -> Iterator[int]:
        """Windows from which on nothing of the chain is evaluated."""
        for version in self._of(chain.rule_id):
            stores = version.rule.stores
            is_gone = isinstance(stores, tuple) and chain.store_id not in stores
            if version.retired or is_gone:
                yield number_of(version.effective_from)
        if chain.store_id == CLOSED:
            yield number_of(midnight(self.closed()))
        if (chain.store_id, chain.subject) == (STORES[0], subject_text("item", "tea")):
            yield number_of(midnight(self.delisted()))

    def _version(self, rule: Rule, number: int, day: int) -> RuleVersion:
        return RuleVersion(rule=rule, version=number, effective_from=start_of(day * A_DAY))

    def _drawn(self) -> bytearray:
        """Quiet for hours or weeks, then loud for a while; one time in twenty for a year."""
        found = bytearray()
        while len(found) < self.count:
            quiet = self.random.choice((6, 40, A_DAY, 5 * A_DAY, 20 * A_DAY))
            loud = self.random.choice((1, 1, 2, 5, 12, A_DAY, 9 * A_DAY))
            if self.random.random() < 0.05:
                loud = self.back * A_DAY
            between = self.random.choice((LEAVES * 3, b""))
            found += CLEARS * quiet + RAISES * loud + between
        return found[: self.count]


def start_of(number: int) -> int:
    """Start of a window, milliseconds since 1970 (UTC)."""
    return FIRST + number * WINDOW_MILLIS


def number_of(start: int) -> int:
    """The number of the window that starts then, milliseconds since 1970 (UTC)."""
    return (start - FIRST) // WINDOW_MILLIS


def day_of(number: int) -> date:
    """The UTC day of a window."""
    return from_millis(start_of(number)).date()


def midnight(day: date) -> int:
    """Its start, milliseconds since 1970 (UTC)."""
    return to_millis(at(f"{day}T00:00"))


def instant_of(number: int) -> datetime:
    """Start of a window, UTC."""
    return from_millis(start_of(number))
