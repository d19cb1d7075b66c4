import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.process.files import lock_folder
from speed_layer import driver, job
from speed_layer.floor import compute_floor
from speed_layer.session import StartOptions, read_canonical_stream
from speed_layer.supervisor import query_error as failed
from tally.config.settings import Settings
from tally.errors import DataLoss


def test_failure_names_the_workers_error_on_one_line() -> None:
    traceback = (
        "Traceback (most recent call last):\n"
        '  File "runtime/cassandra/writes.py", line 1, in write\n    raise'
    )
    text = (
        f"[STREAM_FAILED] Query\n terminated\n {traceback}\ntally.errors.CassandraWriteTimeout:"
        " Cassandra: 3 writes\nSQLSTATE: 1"
    )

    failure = str(failed("sales", text))

    assert "\n" not in failure
    assert failure.startswith(
        "query sales failed: tally.errors.CassandraWriteTimeout: Cassandra: 3 writes; start again"
    )


def test_lost_records_are_told_as_data_loss() -> None:
    failure = failed(
        "sales", "Some data may have been lost because they are not available in Kafka any more"
    )

    assert isinstance(failure, DataLoss) and "move its checkpoint folder away" in str(failure)


def test_second_driver_on_the_same_checkpoint_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    settings = Settings(checkpoints=tmp_path)

    with lock_folder(settings.checkpoint("views")):
        second = subprocess.run(
            [sys.executable, "-m", "speed_layer.job"],
            env={"TALLY_CHECKPOINTS": str(tmp_path), "PATH": ""},
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
            check=False,
        )

    assert second.returncode == 1
    assert second.stderr.startswith("speed layer:") and "held by process" in second.stderr


def test_what_is_put_in_at_the_seams_of_the_job_is_what_its_driver_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[StartOptions] = []

    def noted(_title: str, _make_definitions: object, start_options: StartOptions) -> int:
        given.append(start_options)
        return 0

    monkeypatch.setattr(driver, "main", noted)
    find_floor, read = cast(Any, object()), cast(Any, object())

    job.main([], find_floor=find_floor, read=read)
    job.main([])

    assert [(options.find_floor, options.read_stream) for options in given] == [
        (find_floor, read),
        (compute_floor, read_canonical_stream),
    ]
