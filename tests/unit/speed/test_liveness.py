"""A driver whose queries make no progress while records wait is stuck, and ends its process."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException

from speed_layer import driver
from speed_layer.driver import MAX_STUCK_BEATS, Liveness


class World:
    """The driver's surroundings: what the brokers hold, what was read, what the stages did."""

    def __init__(self) -> None:
        self.held: dict[str, dict[int, int]] | None = {"sales": {0: 10}}
        self.read = {"sales": {0: 7}}
        self.work = [(1, 0, 100, 0, 0)]
        self.now = 0.0

    def ends(self, *_: object) -> dict[str, dict[int, int]]:
        """The ends of the topics. Raises KafkaException while there are none."""
        if self.held is None:
            raise KafkaException
        return self.held


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    planted = World()
    monkeypatch.setattr(driver, "read_ends_quickly", planted.ends)
    monkeypatch.setattr(driver, "stage_progress", lambda spark: planted.work)
    monkeypatch.setattr("speed_layer.driver.time.monotonic", lambda: planted.now)
    return planted


@pytest.fixture
def health(world: World) -> Liveness:
    supervisor = SimpleNamespace(
        definition=SimpleNamespace(topics=("sales",), name="views"),
        position=world.read,
    )
    owner = SimpleNamespace(settings=SimpleNamespace(heartbeat_file=None), spark=None)
    return Liveness(cast(Any, owner), cast(Any, [supervisor]))


def pass_seconds(world: World, health: Liveness, seconds: int) -> None:
    """Beat once a second for so many seconds."""
    for _ in range(seconds):
        world.now += 1.0
        health.beat()


def test_query_that_hangs_while_records_wait_is_stuck(world: World, health: Liveness) -> None:
    pass_seconds(world, health, MAX_STUCK_BEATS)
    before = health.is_stuck

    pass_seconds(world, health, 1)

    assert (before, health.is_stuck) == (False, True)


def test_task_that_reads_is_not_stuck(world: World, health: Liveness) -> None:
    pass_seconds(world, health, MAX_STUCK_BEATS)
    world.work = [(1, 0, 101, 0, 0)]

    pass_seconds(world, health, MAX_STUCK_BEATS)

    assert not health.is_stuck


@pytest.mark.parametrize("held", [{"sales": {0: 7}}, None], ids=["no records wait", "no broker"])
def test_idle_query_is_not_stuck(
    world: World, health: Liveness, held: dict[str, dict[int, int]] | None
) -> None:
    world.held = held

    pass_seconds(world, health, 3 * MAX_STUCK_BEATS)

    assert not health.is_stuck


def test_frozen_process_beats_before_it_is_stuck(world: World, health: Liveness) -> None:
    pass_seconds(world, health, 2)
    world.now += 10_000

    pass_seconds(world, health, 2)

    assert not health.is_stuck


def test_stuck_driver_ends_its_process(
    world: World, health: Liveness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[tuple[str, str]] = []
    looks = iter([False] * (MAX_STUCK_BEATS + 2) + [True])
    supervisor = SimpleNamespace(definition=SimpleNamespace(name="views"), check=lambda: None)

    def wait(_: float) -> bool:
        world.now += 1.0
        return bool(ended) or next(looks)

    monkeypatch.setattr(driver, "exit_failed", lambda *reason: ended.append(reason))

    driver.watch(cast(Any, [supervisor]), health, cast(Any, SimpleNamespace(wait=wait)))

    assert ended == [("query views", "no progress while records wait; start the process again")]
