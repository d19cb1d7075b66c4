"""Which files of a run come first, and which are left for another time.

`--turn N` begins with another file each time, `--until SECONDS` (since 1970) begins no file after
that instant. Files that share a stack are one group (tests/tiers.py) and stay together.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.tiers import group_of_file

# A group that began in time may go on so long; then its remaining tests are left too.
GROUP_SECONDS = 600.0
TURNS = pytest.StashKey["Turns"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """--turn 7 --until 1767225600."""
    parser.addoption("--turn", type=int, help="begin with another group of files for each number")
    parser.addoption("--until", type=float, help="begin no group after this instant (s since 1970)")


@dataclass
class Turns:
    """What a run has begun; in the process that reports, how many tests it has and has run."""

    until: float
    begun: set[str] = field(default_factory=set)
    collected: dict[str, set[str]] = field(default_factory=dict)
    run: set[str] = field(default_factory=set)

    def is_left(self, nodeid: str) -> bool:
        """Whether a test is not begun any more."""
        group, now = group_of_file(nodeid), time.time()
        if now > self.until + GROUP_SECONDS or (now > self.until and group not in self.begun):
            return True
        self.begun.add(group)
        return False

    def lines(self) -> Iterator[str]:
        """Each group in its order, and how many of its tests were run."""
        for group, nodeids in self.collected.items():
            run = len(nodeids & self.run)
            told = "left for another time" if not run else f"{run} of {len(nodeids)} tests run"
            yield f"{group}: {told}"


def pytest_configure(config: pytest.Config) -> None:
    """Keeps what the options ask for."""
    until = config.getoption("--until")
    config.stash[TURNS] = Turns(float("inf") if until is None else until)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the groups that come before the turn's first one behind all others."""
    turn = config.getoption("--turn")
    if turn is not None and items:
        groups = list(dict.fromkeys(group_of_file(item.nodeid) for item in items))
        place = {group: at for at, group in enumerate(rotate(groups, turn))}
        items.sort(key=lambda item: place[group_of_file(item.nodeid)])


def rotate(groups: list[str], turn: int) -> list[str]:
    """The groups from the turn's own on.

    >>> rotate(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    first = turn % len(groups)
    return groups[first:] + groups[:first]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Notes the order, where no workers run the tests."""
    _note(session.config, [item.nodeid for item in session.items])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Notes the order, which is the same in each worker."""
    _note(node.config, ids)


def _note(config: pytest.Config, nodeids: list[str]) -> None:
    for nodeid in nodeids:
        config.stash[TURNS].collected.setdefault(group_of_file(nodeid), set()).add(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Passes over a test that is left for another time."""
    return True if item.config.stash[TURNS].is_left(item.nodeid) else None


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The groups in the order of the run, and what was left of them."""
    turn, turns = config.getoption("--turn"), config.stash[TURNS]
    if turn is None:
        return
    reports = (report for found in terminalreporter.stats.values() for report in found)
    turns.run |= {report.nodeid for report in reports if hasattr(report, "when")}
    groups = len(turns.collected)
    terminalreporter.section(f"turn {turn}: {groups} groups from number {turn % max(groups, 1)} on")
    for line in turns.lines():
        terminalreporter.line(line)
    left = sum(not nodeids & turns.run for nodeids in turns.collected.values())
    terminalreporter.line(f"{groups - left} of {groups} groups were run, {left} left")
