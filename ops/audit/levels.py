"""Comparison of the API's answers about levels with the master.

A level is the number of persons who came and have not left in a store's day. The catalogue says
which metrics are levels, the stores file says when days begin.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import NamedTuple

from ops.audit.oracle import Difference, claim_matches_coverage
from ops.audit.read.api_answers import ApiRow, FetchRows, QueryParameters, query_parameters
from ops.audit.read.master import WindowKey, WindowValues
from ops.audit.read.served import is_covered
from ops.oracle.complete_journey import WHOLE, Scope
from runtime.registry.stores import StoreEntry, load_stores
from schemas import loader
from schemas.metric import LevelShape
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import format_utc
from tally.time.local_days import LocalDay, local_day_at
from tally.time.windows import WINDOW, window_start, window_starts


@dataclass(frozen=True)
class StoreDayStarts:
    """When stores' days begin, and the stores and UTC days whose records were read."""

    default_zone: str
    entries: Mapping[str, StoreEntry]
    scope: Scope = WHOLE

    @classmethod
    def load(cls, settings: Settings, scope: Scope) -> "StoreDayStarts":
        """Read the stores file. Raises BadSettings for an invalid file."""
        return cls(settings.default_timezone, load_stores(settings.stores_file), scope)

    def day(self, store_id: str, instant: datetime) -> LocalDay:
        """The local day of the store that contains the instant."""
        entry = self.entries.get(store_id, StoreEntry())
        return local_day_at(instant, entry.clock(self.default_zone))


class LevelQuestion(NamedTuple):
    """A level, its query parameters, and the windows it sums, from the reset on (UTC)."""

    metric: LevelShape
    parameters: QueryParameters
    windows: Sequence[datetime]


class WindowFindings(NamedTuple):
    """How many rows were answered about a window, how many levels left out, and the differences."""

    rows: int
    left_out: int
    differences: list[Difference]


@dataclass(frozen=True)
class LevelCheck:
    """Comparison of a family's levels, from their parts by (store, window start in UTC)."""

    family: Family
    values: Mapping[WindowKey, WindowValues]
    claims: Mapping[date, Generation]
    days: StoreDayStarts

    def compare(self, ask: FetchRows, key: WindowKey) -> WindowFindings:
        """Compare the levels at the ends of the window and of its day with the master."""
        questions = [*self.questions(key)]
        # Records of days that were not read are in no sum here.
        whole = [
            question
            for question in questions
            if all(self.days.scope.holds(key[0], start) for start in question.windows)
        ]
        fetches = (ask(question.metric.id, question.parameters, ()) for question in whole)
        answers = [*map(list, fetches)]
        wrong = [
            difference
            for question, rows in zip(whole, answers, strict=True)
            for difference in self._differences(key[0], question, rows)
        ]
        return WindowFindings(sum(map(len, answers)), len(questions) - len(whole), wrong)

    def questions(self, key: WindowKey) -> Iterator[LevelQuestion]:
        """The question for each level about the window, by the level's shortest grain."""
        store, start = key
        day = self.days.day(store, start)
        for metric in loader.metrics():
            if not isinstance(metric, LevelShape):
                continue
            if self.family.name not in metric.families:
                continue
            if "15m" in metric.grains:
                windows = _windows(day.start, start + WINDOW)
                yield LevelQuestion(metric, query_parameters(key), windows)
            else:
                windows = _windows(day.start, day.end)
                yield LevelQuestion(metric, _local_day_question(store, day.day), windows)

    def _differences(
        self, store: str, question: LevelQuestion, rows: Sequence[ApiRow]
    ) -> Iterator[Difference]:
        where = partial(Difference, store, format_utc(question.windows[-1]))
        open_windows = [
            window for window in question.windows if not is_covered(self.claims, window)
        ]
        # A level after a window that neither layer has is unknown, even if later windows are known.
        is_known = all((store, start) in self.values for start in open_windows)
        should = self._compute_expected(store, question) if is_known else None
        name = question.metric.id
        for row in rows:
            got = row["value"]
            # The speed layer may lack a late record, and with it the whole window.
            is_unknown = got is None and row["source"] == "missing" and bool(open_windows)
            if got != should and not is_unknown:
                yield where(name, should, got)
            if not claim_matches_coverage(row, is_covered=not open_windows):
                yield where(f"{name}: {row['source']}, {row['status']}", should, got)
        if not rows:
            yield where(name, should, None)

    def _compute_expected(self, store: str, question: LevelQuestion) -> int:
        signs = question.metric.value.running.items()
        return sum(
            sign * parts[part]
            for start in question.windows
            for parts in self.values.get((store, start), {}).values()
            for part, sign in signs
        )


def _local_day_question(store: str, day: date) -> QueryParameters:
    following = day + timedelta(days=1)
    return {
        "store": store,
        "from": day.isoformat(),
        "to": following.isoformat(),
        "grain": "1d",
        "tz": "store",
    }


def _windows(begin: datetime, end: datetime) -> list[datetime]:
    """The starts of the windows that begin in [begin, end)."""
    first = window_start(begin)
    return window_starts(first if first == begin else first + WINDOW, end)
