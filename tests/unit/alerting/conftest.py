"""A store that is evaluated, for the tests of the evaluator."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from alerting.rules.rule import Rule
from tests.support.alerts.evaluated_shelves import SOLD_OUT, open_shelves
from tests.support.evaluation.evaluating import DAY, ListedRules, Watched, Watching, in_force


@pytest.fixture
def begun() -> Iterator[Watching]:
    """Begins to evaluate a store by rules; all are ended after the test."""
    with ExitStack() as ended:

        def begin(*rules: Rule, since: str = f"{DAY}T08:00", **more: Any) -> Watched:
            known = ListedRules(*(in_force(one, since) for one in rules))
            return ended.enter_context(closing(Watched(known, **more)))

        yield begin


@pytest.fixture
def watched(begun: Watching) -> Watching:
    """The same of a store that has sent receipts for days, and was told what time it is."""

    def watch(*rules: Rule, **more: Any) -> Watched:
        found = begun(*rules, **more)
        found.sends("2026-11-20")
        found.tick(f"{DAY}T07:50")
        return found

    return watch


@pytest.fixture
def shop(begun: Watching) -> Watching:
    """A store whose milk and bread were counted yesterday: ten and twenty."""

    def open_shop(*rules: Rule, **more: Any) -> Watched:
        return open_shelves(begun(*(rules or (SOLD_OUT,)), **more))

    return open_shop
