"""Answers of the API about levels against the master: who came and did not go in a store's day.

The catalogue says which metrics are levels, the stores file when days begin.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import NamedTuple

from ops.audit.asking import AnsweredRow, Ask, Asked, question_of
from ops.audit.master import WindowKey, WindowValues
from ops.audit.oracle import Difference, claims_no_more
from ops.audit.served import is_covered
from ops.oracle.complete_journey import WHOLE, Scope
from runtime.stores import StoreEntry, store_entries
from schemas import loader
from schemas.metric import LevelShape
from tally.calendar.days import LocalDay, day_of
from tally.families import Family
from tally.generation import Generation
from tally.instants import instant_text
from tally.settings import Settings
from tally.windows import WINDOW, window_start, window_starts


@dataclass(frozen=True)
class OwnDays:
    """When stores' days begin, and of which stores and UTC days the records were read."""

    default_zone: str
    entries: Mapping[str, StoreEntry]
    scope: Scope = WHOLE

    @classmethod
    def load(cls, settings: Settings, scope: Scope) -> "OwnDays":
        """Those of the stores file. Raises BadSettings for a file that does not fit."""
        return cls(settings.default_timezone, store_entries(settings.stores_file), scope)

    def day(self, store_id: str, instant: datetime) -> LocalDay:
        """The store's own day that holds the instant."""
        entry = self.entries.get(store_id, StoreEntry())
        return day_of(instant, entry.clock(self.default_zone))


class LevelQuestion(NamedTuple):
    """A level, how it is asked, and the windows that it is of, from the reset on (UTC)."""

    metric: LevelShape
    asked: Asked
    windows: Sequence[datetime]


class WindowFindings(NamedTuple):
    """How many rows were answered about a window, how many levels not asked, and what differs."""

    rows: int
    left_out: int
    differences: list[Difference]


@dataclass(frozen=True)
class LevelCheck:
    """The levels of a family: by (store, window start in UTC) the parts that they are made of."""

    family: Family
    values: Mapping[WindowKey, WindowValues]
    claims: Mapping[date, Generation]
    days: OwnDays

    def compared(self, ask: Ask, key: WindowKey) -> WindowFindings:
        """The levels at the end of the window, and at the end of its day, against the master."""
        asked = [*self.questions(key)]
        # What came on a day that was not read is in no sum here.
        whole = [
            one
            for one in asked
            if all(self.days.scope.holds(key[0], start) for start in one.windows)
        ]
        answers = [[*_answered(ask, one)] for one in whole]
        wrong = [
            difference
            for one, rows in zip(whole, answers, strict=True)
            for difference in self._differences(key[0], one, rows)
        ]
        return WindowFindings(sum(map(len, answers)), len(asked) - len(whole), wrong)

    def questions(self, key: WindowKey) -> Iterator[LevelQuestion]:
        """Of each level how it is asked about the window, by its shortest grain."""
        store, start = key
        day = self.days.day(store, start)
        for metric in loader.metrics():
            if not isinstance(metric, LevelShape):
                continue
            if self.family.name not in metric.families:
                continue
            if "15m" in metric.grains:
                windows = _windows(day.start, start + WINDOW)
                yield LevelQuestion(metric, question_of(key), windows)
            else:
                windows = _windows(day.start, day.end)
                yield LevelQuestion(metric, _own_day(store, day.day), windows)

    def _differences(
        self, store: str, question: LevelQuestion, rows: Sequence[AnsweredRow]
    ) -> Iterator[Difference]:
        where = partial(Difference, store, instant_text(question.windows[-1]))
        open_ones = [one for one in question.windows if not is_covered(self.claims, one)]
        # A level behind a window that neither layer has is not known, however much is known since.
        is_known = all((store, start) in self.values for start in open_ones)
        should = self._expected(store, question) if is_known else None
        name = question.metric.id
        for row in rows:
            got = row["value"]
            # The speed layer may lack a record that came late, and a window with it.
            is_unknown = got is None and row["source"] == "missing" and bool(open_ones)
            if got != should and not is_unknown:
                yield where(name, should, got)
            if not claims_no_more(row, is_covered=not open_ones):
                yield where(f"{name}: {row['source']}, {row['status']}", should, got)
        if not rows:
            yield where(name, should, None)

    def _expected(self, store: str, question: LevelQuestion) -> int:
        signs = question.metric.value.running.items()
        return sum(
            sign * parts[part]
            for start in question.windows
            for parts in self.values.get((store, start), {}).values()
            for part, sign in signs
        )


def _answered(ask: Ask, question: LevelQuestion) -> Iterable[AnsweredRow]:
    return ask(question.metric.id, question.asked, ())


def _own_day(store: str, day: date) -> Asked:
    following = day + timedelta(days=1)
    return {
        "store": store,
        "from": day.isoformat(),
        "to": following.isoformat(),
        "grain": "1d",
        "tz": "store",
    }


def _windows(begin: datetime, end: datetime) -> list[datetime]:
    """Those that begin in the stretch."""
    first = window_start(begin)
    return window_starts(first if first == begin else first + WINDOW, end)
