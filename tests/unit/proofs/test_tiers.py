"""The rules of the tiers, each shown by a run of pytest on a small tree of tests."""

from pathlib import Path

from tests import tiers
from tests.unit.stack.small_tree import REPOSITORY, run_pytest


def test_each_tier_is_counted(tmp_path: Path) -> None:
    files = {
        "unit/test_a.py": "def test_a(): pass\ndef test_b(): pass\n",
        "laws/test_a.py": "def test_c(): pass\n",
    }

    code, output = run_pytest(tmp_path, files, "--tiers", "unit,laws")

    assert code == 0 and "unit         2\nlaws         1\n" in output


def test_tier_that_was_not_asked_for_is_not_even_imported(tmp_path: Path) -> None:
    files = {"unit/test_a.py": "def test_a(): pass\n", "e2e/test_b.py": "raise SystemError\n"}

    assert run_pytest(tmp_path, files, "--tiers", "unit")[0] == 0


def test_files_of_a_folder_with_one_stack_go_to_one_worker(tmp_path: Path) -> None:
    told = (
        "import os, time\ndef test_it():\n    time.sleep({})\n    open(__file__ + '.' +"
        " os.environ['PYTEST_XDIST_WORKER'], 'w').close()\n"
    )
    # Longer than all of the other folder: whoever has that is done before these are.
    seconds = {"today": 0, "other": 0.1}
    files = {
        f"e2e/{folder}/test_{number}.py": told.format(seconds[folder])
        for folder in seconds
        for number in range(8)
    }

    assert (
        run_pytest(
            tmp_path,
            files,
            "--tiers",
            "e2e",
            "-n",
            "2",
            "--dist",
            "loadfile",
            "--no-loadscope-reorder",
        )[0]
        == 0
    )

    workers = {
        folder: {file.suffix for file in (tmp_path / "tests" / "e2e" / folder).glob("*.gw?")}
        for folder in ("today", "other")
    }
    assert (len(workers["today"]), len(workers["other"])) == (1, 2)


def test_files_of_the_real_parts_run_by_name_behind_those_that_take_longest(tmp_path: Path) -> None:
    told = "def test_it(): print('ran', __file__)\n"
    named = ("unit/test_a", "integration/x/test_c", "integration/y/test_b", "integration/x/test_a")
    longest = ("e2e/today/test_z", "integration/batch/test_y", "integration/ingest/test_x")
    files = {f"{name}.py": told for name in (*named, "e2e/test_z", *longest)}

    _, output = run_pytest(tmp_path, files, "-s", "--tiers", "unit,integration,e2e")

    ran = [line.split("/tests/")[1] for line in output.splitlines() if "ran /" in line]
    assert ran == [
        *(f"{name}.py" for name in longest),
        "e2e/test_z.py",
        *(f"integration/{name}.py" for name in ("x/test_a", "y/test_b", "x/test_c")),
        "unit/test_a.py",
    ]


def test_empty_tier_fails_the_run(tmp_path: Path) -> None:
    code, output = run_pytest(
        tmp_path, {"unit/test_a.py": "def test_a(): pass\n"}, "--tiers", "unit,laws"
    )

    assert code == 1 and "FAILED: tier laws has no tests" in output


def test_skip_without_reason_fails_the_run(tmp_path: Path) -> None:
    bare = "import pytest\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n"

    code, output = run_pytest(tmp_path, {"unit/test_a.py": bare}, "--tiers", "unit")

    assert code == 1 and "test_b is skipped without a reason" in output


def test_skip_with_reason_is_accepted(tmp_path: Path) -> None:
    told = (
        "import pytest\ndef test_a(): pass\n@pytest.mark.skip(reason='needs a third node')\ndef"
        " test_b(): pass\n"
    )

    assert run_pytest(tmp_path, {"unit/test_a.py": told}, "--tiers", "unit")[0] == 0


def test_jvm_in_a_fast_tier_fails_where_it_starts(tmp_path: Path) -> None:
    starts = "import subprocess\ndef test_a(): subprocess.run(['java', '-version'])\n"

    code, output = run_pytest(tmp_path, {"unit/test_a.py": starts}, "--tiers", "unit")

    assert code == 1 and "a fast test started java" in output


def test_files_of_one_warm_session_are_as_one_file_and_those_with_processes_are_not() -> None:
    def unit(file: str) -> str:
        return tiers.group_of_file(f"{file}::test_it")

    assert unit("tests/integration/batch/test_told.py") == unit(
        "tests/contract/test_part_columns.py"
    )
    assert unit("tests/integration/speed/test_job.py") == "tests/integration/speed/test_job.py"
    assert unit("tests/unit/proofs/test_tiers.py") == "tests/unit/proofs/test_tiers.py"


def test_what_is_kept_together_or_apart_is_there() -> None:
    named = [*tiers.APART, *(path for group in tiers.TOGETHER for path in group)]

    assert [path for path in named if not (REPOSITORY / path).exists()] == []
