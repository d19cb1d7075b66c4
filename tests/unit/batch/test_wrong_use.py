"""`tally backfill` and `tally rebuild`, used wrongly: exit code 2 and the option's name, before
anything is asked of a service."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            [
                "ops.cli",
                "backfill",
                "declare",
                "salse",
                "--days",
                "2017-01-01..2017-01-02",
                "--source",
                "x",
            ],
            "salse",
        ),
        (
            ["ops.cli", "backfill", "declare", "sales", "--days", "2017-01-01", "--source", "x"],
            "--days",
        ),
        (
            [
                "ops.cli",
                "backfill",
                "declare",
                "sales",
                "--days",
                "2017-01-02..2017-01-01",
                "--source",
                "x",
            ],
            "--days",
        ),
        (
            [
                "ops.cli",
                "backfill",
                "declare",
                "sales",
                "--days",
                "0001-01-01..9999-12-31",
                "--source",
                "x",
            ],
            "--days",
        ),
        (
            ["ops.cli", "backfill", "declare", "sales", "--days", "2017-01-01..2017-01-02"],
            "--source",
        ),
        (["ops.cli", "audit", "--against", "nothing"], "--against"),
        (["batch_layer.views.rebuild", "--days", "today"], "--days"),
        (["batch_layer.views.rebuild", "--family", "salse"], "--family"),
        (["batch_layer.views.rebuild", "--store", "367"], "--days"),
    ],
)
def test_wrong_use_is_exit_code_2_and_names_the_option(arguments: list[str], named: str) -> None:
    environment = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "NO_COLOR": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

    assert answer.returncode == 2 and named in answer.stderr
