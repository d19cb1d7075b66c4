"""The log of the master, explored exhaustively: two ingesters and two maintenances that open it at
any moment and commit at any later one, and a clean-up of the log between any two commits.

Each variant leaves out one rule, and the shortest history that breaks it is found.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest

RECORDS, MOST_COMMITS = 3, 5
File = tuple[int, ...]
INGESTERS, MAINTAINERS = ("ingester 1", "ingester 2"), ("maintenance 1", "maintenance 2")


@dataclass(frozen=True)
class Rules:
    """Whether the rule is kept: see the names of the variants."""

    appends_share_a_name: bool = True
    merges_share_a_name: bool = True
    checkpoints_keep_offsets: bool = True


class Commit(NamedTuple):
    """Files added and removed, who made it, and the offset held after it, if it says."""

    writer: str
    added: tuple[File, ...]
    removed: tuple[File, ...] = ()
    until: int | None = None


class Opened(NamedTuple):
    """What a process has read of the log when it opened it."""

    version: int
    files: tuple[File, ...]
    until: int


@dataclass(frozen=True)
class Log:
    """The live files, the offset that is stated, the commits, and who has the table open."""

    files: tuple[File, ...] = ()
    until: int = 0
    commits: tuple[Commit, ...] = ()
    opened: tuple[tuple[str, Opened], ...] = ()

    def open(self, who: str) -> "Log":
        """Who opens it now, and forgets what it had read before."""
        others = tuple(entry for entry in self.opened if entry[0] != who)
        now = Opened(len(self.commits), self.files, self.until)
        return replace(self, opened=tuple(sorted((*others, (who, now)))))

    def close(self, who: str) -> "Log":
        """Who is killed, refused, or done."""
        return replace(self, opened=tuple(entry for entry in self.opened if entry[0] != who))

    def commit(self, commit: Commit) -> "Log":
        """The next version; a file may be removed twice, and is gone once."""
        left = [file for file in self.files if file not in commit.removed]
        until = self.until if commit.until is None else commit.until
        files = tuple(sorted((*left, *commit.added)))
        return replace(self, files=files, until=until, commits=(*self.commits, commit))

    def conflicts(self, seen: Opened, writers: tuple[str, ...]) -> bool:
        """Whether one of them has committed since."""
        return any(commit.writer in writers for commit in self.commits[seen.version :])


def moves(log: Log, rules: Rules) -> Iterator[tuple[str, Log]]:
    """What may happen next, and what is then."""
    for who in (*INGESTERS, *MAINTAINERS):
        if len(log.commits) < MOST_COMMITS:
            yield f"{who} opens", log.open(who)
    for who, seen in log.opened:
        yield f"{who} is killed", log.close(who)
        if who in INGESTERS:
            yield from appends(log, rules, who, seen)
        else:
            yield from merges(log, rules, who, seen)
    if not rules.checkpoints_keep_offsets and log.commits and log.commits[-1].until is None:
        yield "the log is cleaned up behind a merge", replace(log, until=0)


def appends(log: Log, rules: Rules, who: str, seen: Opened) -> Iterator[tuple[str, Log]]:
    """It appends one record or all that it lacks."""
    writers = INGESTERS if rules.appends_share_a_name else (who,)
    if log.conflicts(seen, writers):
        yield f"{who} is refused", log.close(who)
        return
    for until in range(seen.until + 1, RECORDS + 1):
        commit = Commit(who, (tuple(range(seen.until, until)),), until=until)
        yield f"{who} appends up to {until}", log.commit(commit).close(who)


def merges(log: Log, rules: Rules, who: str, seen: Opened) -> Iterator[tuple[str, Log]]:
    """It merges all files that it has seen."""
    writers = MAINTAINERS if rules.merges_share_a_name else (who,)
    if log.conflicts(seen, writers):
        yield f"{who} is refused", log.close(who)
    elif len(seen.files) > 1:
        merged = tuple(sorted(offset for file in seen.files for offset in file))
        yield f"{who} merges", log.commit(Commit(who, (merged,), seen.files)).close(who)


def wrong(log: Log) -> str | None:
    """What is wrong with the master, if anything."""
    held = sorted(offset for file in log.files for offset in file)
    if held != [*range(len(held))]:
        return f"it holds {held}"
    return None


def explore(rules: Rules) -> tuple[int, list[str]]:
    """How many states there are, and the shortest way to a wrong one; empty if there is none."""
    start = Log()
    before: dict[Log, tuple[Log, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        log = waiting.popleft()
        if reason := wrong(log):
            steps = [reason]
            while (step := before[log]) is not None:
                log, name = step
                steps.append(name)
            return len(before), steps[::-1]
        for name, after in moves(log, rules):
            if after not in before:
                before[after] = (log, name)
                waiting.append(after)
    return len(before), []


def test_master_holds_each_record_once_in_every_history() -> None:
    states, steps = explore(Rules())

    print(f"{states:,} states")
    assert steps == [] and states > 10_000


@pytest.mark.parametrize(
    ("variant", "found"),
    [
        (Rules(appends_share_a_name=False), "it holds [0, 0]"),
        (Rules(merges_share_a_name=False), "it holds [0, 0, 1, 1]"),
        (Rules(checkpoints_keep_offsets=False), "it holds [0, 0, 1]"),
    ],
    ids=["appends without a common name", "merges without one", "offsets that go with the log"],
)
def test_negative_control_without_a_rule_records_are_repeated(variant: Rules, found: str) -> None:
    _, steps = explore(variant)

    print(*steps, sep="\n")
    assert steps[-1] == found
