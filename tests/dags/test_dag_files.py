"""Every DAG file imports cheaply and says who owns it, what it is for and how it repeats."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack.nominal_processor import slowness

REPOSITORY = Path(__file__).parents[2]
KNOWN_TAGS = {"batch", "views", "master", "quality", "maintenance"}
LONGEST = 60

Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """By file name what Airflow found in it."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "PYTHONPATH": str(REPOSITORY),
    }
    script = str(Path(__file__).with_name("inspect_dags.py"))
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: Found = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_each_file_defines_the_dag_of_its_name(found: Found) -> None:
    assert found and {name: facts["ids"] for name, facts in found.items()} == {
        name: [name] for name in found
    }


def test_importing_a_dag_file_is_cheap(found: Found) -> None:
    assert {name: facts["heavy"] for name, facts in found.items()} == {name: [] for name in found}
    assert max(facts["seconds"] for facts in found.values()) < slowness()


def test_every_tag_is_a_known_one(found: Found) -> None:
    used = {tag for facts in found.values() for tag in facts["tags"]}

    assert used and used <= KNOWN_TAGS


def test_each_task_has_an_owner_and_is_tried_again(found: Found) -> None:
    tasks = [task for facts in found.values() for task in facts["tasks"]]

    assert tasks and all(task["owner"] == "tally" and task["retries"] >= 1 for task in tasks)


def test_each_dag_is_documented_runs_alone_and_makes_up_for_nothing(found: Found) -> None:
    facts = [
        (facts["documented"], facts["max_active_runs"], facts["catchup"])
        for facts in found.values()
    ]

    assert facts == [([True], [1], [False])] * len(found)


def test_dag_files_are_short() -> None:
    lengths = {
        file.name: len(file.read_text("utf-8").splitlines())
        for file in (REPOSITORY / "dags").glob("*.py")
    }

    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [("dirty", "--dirty"), ("full", "--full"), ("days", "--days 2017-09-01..2017-09-30")],
)
def test_rebuild_views_starts_the_rebuild_job_as_a_process(
    found: Found, mode: str, arguments: str
) -> None:
    assert (
        found["rebuild_views"]["commands"][mode]
        == f"exec {sys.executable} -m batch_layer.views.rebuild --json {arguments}"
    )


def test_rebuild_views_rebuilds_what_is_dirty_unless_told_otherwise(found: Found) -> None:
    assert found["rebuild_views"]["params"] == [{"mode": "dirty", "days": ""}]


def test_snapshot_baselines_starts_its_job_as_a_process(found: Found) -> None:
    [command] = {*found["snapshot_baselines"]["commands"].values()}

    assert command == f"exec {sys.executable} -m batch_layer.views.baselines --json"
