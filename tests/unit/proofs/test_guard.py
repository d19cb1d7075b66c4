"""What is wrong on purpose refuses settings that are no test's, started as a process or used in
one: before it does anything."""

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.processor.delivery import Failpoints
from runtime.registry.sources import SALES
from speed_layer.session import Driver
from tally.config.settings import Settings
from tests.controls.alerts.compacted_rules import compacted_configuration
from tests.controls.alerts.dispatchers import watched_parts
from tests.controls.guard import NotATest
from tests.controls.layers.adding import Adding, AddingSink
from tests.controls.layers.no_floor import no_floor
from tests.controls.layers.no_member import no_member
from tests.controls.layers.uncommitted import uncommitted_stream
from tests.controls.layers.unrevised_rebuild import load_unrevised_families
from tests.controls.layers.wall_clock import WallClockSink
from tests.controls.processes.clock_janitor import ClockJanitor
from tests.controls.processes.crashing import Crash
from tests.controls.processes.crashing_stock import dying
from tests.controls.processes.faulty_evaluator import TellingCrash
from tests.controls.processes.faulty_loops import (
    going_on_although_fenced,
    keeping_memory,
    restoring_too_little,
    sending_by_itself,
)
from tests.controls.processes.killed_drop import KilledFolder
from tests.unit.architecture.counts.sources import ROOT, module_name, parsed, python_files

STARTED = (
    *("adding", "wall_clock", "no_floor", "crashing", "uncommitted", "killed_drop"),
    *("crashing_evaluator", "faulty_evaluator", "crashing_stock", "unrevised_rebuild"),
)
NOTHING = cast(Any, None)
# How each is made, or called where it is a function.
WRONG: dict[str, Callable[[Settings], object]] = {
    "AddingSink": AddingSink,
    "Adding": lambda settings: Adding()(settings),
    "WallClockSink": WallClockSink,
    "no_floor": lambda settings: no_floor(Driver(NOTHING, NOTHING, settings, NOTHING), SALES, {}),
    "uncommitted_stream": lambda settings: uncommitted_stream(NOTHING, settings, {}, 1),
    "ClockJanitor": lambda settings: ClockJanitor(settings, "normaliser", ["sales"]),
    "Crash": lambda settings: Crash.of("after_poll:1", settings),
    "KilledFolder": lambda settings: KilledFolder(Path(), 0, settings),
    "compacted_configuration": compacted_configuration,
    "TellingCrash": lambda settings: TellingCrash.of("after_read:1", settings),
    "restoring_too_little": lambda settings: restoring_too_little(settings, NOTHING, NOTHING),
    "keeping_memory": lambda settings: keeping_memory(settings, NOTHING, NOTHING),
    "sending_by_itself": lambda settings: sending_by_itself(settings, NOTHING, NOTHING),
    "going_on_although_fenced": lambda given: going_on_although_fenced(given, NOTHING, NOTHING),
    "watched_parts": lambda settings: watched_parts(settings, Failpoints(), "intent=after"),
    "load_unrevised_families": load_unrevised_families,
    "dying": lambda settings: dying(1, 1, settings, NOTHING),
    "no_member": lambda settings: no_member(settings, "normaliser").__enter__(),
}
# What has no settings, for it reaches nothing outside of its memory.
PURE = {
    "PoorKey",
    "Unrevised",
    "WithoutStore",
    "WithoutWindow",
    "presences_of_a_longest",
    "own_cell_alone",
    "with_smallest_beside",
    "resumed_by_own_offset",
    "resumed_in_one_partition",
    "BlindRuleEditing",
    "HastyEvaluator",
    "settle_by_window",
    "without_after",
    "ClockOfBefore",
    "DecidedOnce",
    "FollowsWhatServes",
}
# Parts that a function of the same file alone puts together.
PARTS = {
    *("WatchedDispatcher", "CallingFirst", "WatchedCallingFirst"),
    *("WatchedCaller", "KeyOfAttempt", "DyingProducer"),
}
# Nothing in them has.
PURE_FILES = (
    *("alerts_evaluator", "alerts_simulation", "alert_deliveries"),
    *("stock_calls", "tick_watermarks", "links"),
)
CONTROLS = [
    file
    for file in python_files()
    if file.is_relative_to("tests/controls") and file.stem not in ("__init__", "guard")
]
MODULES = {file.stem: module_name(file) for file in CONTROLS}


@pytest.mark.parametrize("name", STARTED)
def test_control_refuses_the_keyspace_of_the_product(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", MODULES[name], "after_poll:1"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "TALLY_KEYSPACE is 'tally' and has to begin with 'test_'" in done.stderr


def test_every_control_that_can_be_started_is_among_them() -> None:
    begins = '__name__ == "__main__"'
    started = {file.stem for file in CONTROLS if begins in (ROOT / file).read_text("utf-8")}

    assert started == set(STARTED)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("keyspace", ["tally", "latest_"])
def test_control_in_a_process_refuses_the_keyspace_of_the_product(name: str, keyspace: str) -> None:
    with pytest.raises(NotATest, match=f"TALLY_KEYSPACE is '{keyspace}' and has to begin"):
        WRONG[name](Settings(keyspace=keyspace))


def test_every_control_is_among_them() -> None:
    public = {
        node.name
        for file in CONTROLS
        if file.stem not in PURE_FILES
        for node in parsed(file).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    }

    assert public == {*WRONG} | PURE | PARTS
