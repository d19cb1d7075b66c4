"""Tiers of the tests: the folder is the tier.

Counts each, fails an empty one, a skip without reason, and a JVM in a fast one.
"""

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

TIERS = (
    "unit",
    "laws",
    "docs",
    "contract",
    "story",
    "integration",
    "dags",
    "e2e",
    "chaos",
    "browser",
)
FAST = ("unit", "laws", "docs")
FOLDER = Path(__file__).parent
# With several workers the long ones begin first, so that the short ones fill the end; and beside
# those that keep the processor busy the ones that wait for time-outs, which would leave it idle
# beside each other.
BEGIN_WITH = (
    "story",
    "e2e/today",
    "integration/batch",
    "integration/ingest",
    "integration/speed",
    "e2e",
    "chaos",
    "integration",
    "dags",
    "contract",
)
# What shares a stack, or a Spark session that is slow until it has done everything once: for
# several workers each of these is as one file.
TOGETHER = (
    ("tests/e2e/today/",),
    (
        "tests/integration/batch/",
        "tests/contract/test_part_columns.py",
        "tests/contract/test_spark_schemas.py",
    ),
    ("tests/integration/speed/", "tests/integration/stack/test_parts.py"),
)
# Their Spark is that of processes of their own.
APART = ("tests/integration/speed/test_cluster.py", "tests/integration/speed/test_job.py")
NO_REASON = ("", "Skipped: ", "Skipped: unconditional skip")
JVM_STARTERS = ("java", "spark-submit")

# A suite that two tiers share is no test module: without this its failures would not show the
# compared values.
pytest.register_assert_rewrite("tests.support")

counts: Counter[str] = Counter()
bare_skips: list[str] = []
_no_jvm_now = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """--tiers unit,laws: only these, and none of them may be empty."""
    parser.addoption(
        "--tiers",
        default="",
        help=f"comma list of {', '.join(TIERS)}; each asked for must have tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A marker for each tier, and the watch on JVM starts."""
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: set by the folder tests/{tier}")
    unknown = set(_asked(config)) - set(TIERS)
    if unknown:
        raise pytest.UsageError(
            f"--tiers: there is no {', '.join(sorted(unknown))}; there are {', '.join(TIERS)}"
        )
    sys.addaudithook(_refuse_jvm)
    # What a test makes is small and short of life: looked through as often as Python does by
    # itself, a tenth of a fast test's time.
    gc.set_threshold(20_000, 20, 50)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders of tiers that were not asked for are not even imported."""
    tier = tier_of(collection_path)
    return True if _asked(config) and tier in TIERS and tier not in _asked(config) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with its tier; the tiers with the longest files come first."""
    for item in items:
        item.add_marker(tier_of(item.path))
    items.sort(key=lambda item: _rank(item.path))


def pytest_collection_finish() -> None:
    """What collecting has made lives as long as the run: the collector of garbage need not walk
    through thousands of tests again and again."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After a fast file, what is left stays out of the collector's later walks.

    Modules, caches and reports of thousands of tests add up to millions of objects. NiceGUI walks
    through all of them for each application that begins, three seconds of a test of a page.
    """
    yield
    is_last = nextitem is None or nextitem.path != item.path
    if is_last and tier_of(item.path) in FAST:
        gc.collect()
        gc.freeze()


def _rank(path: Path) -> tuple[int, str]:
    """Which files begin first: by BEGIN_WITH, and those of the real parts by name."""
    below = _below_tests(path)
    ranks = (rank for rank, name in enumerate(BEGIN_WITH) if below.startswith(f"{name}/"))
    by_name = path.name if tier_of(path) == "integration" else ""
    return next(ranks, len(BEGIN_WITH)), by_name


@pytest.fixture(autouse=True)
def no_jvm_in_fast_tiers(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of a fast tier that starts a JVM fails where it does so."""
    global _no_jvm_now
    _no_jvm_now = tier_of(request.path) in FAST
    yield
    _no_jvm_now = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers each file goes to one of them, those of one line of TOGETHER to the
    same."""
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = group_of_file
    return scheduler


def group_of_file(nodeid: str) -> str:
    """What a test is run together with: its file, or the folder whose stack it shares."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return file
    return next((group[0] for group in TOGETHER if file.startswith(group)), file)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts a test once it has run, and remembers skips that give no reason."""
    if report.when == "call":
        counts[tier_of(Path(report.nodeid.partition("::")[0]))] += 1
    if report.skipped and not hasattr(report, "wasxfail") and _reason(report.longrepr) in NO_REASON:
        bare_skips.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """An empty tier that was asked for, or a bare skip, fails the run."""
    # What is frozen still as Python ends looks leaked to libraries that count what they have made.
    gc.unfreeze()
    is_worker = hasattr(session.config, "workerinput")
    if (
        not is_worker
        and (_empty(session.config) or bare_skips)
        and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The number of tests that ran, by tier."""
    terminalreporter.section("tests per tier")
    for tier in _asked(config) or [tier for tier in TIERS if counts[tier]]:
        terminalreporter.line(f"{tier:<12} {counts[tier]}")
    for tier in _empty(config):
        terminalreporter.line(f"FAILED: tier {tier} has no tests")
    for name in bare_skips:
        terminalreporter.line(f"FAILED: {name} is skipped without a reason")


def tier_of(path: Path) -> str:
    """Tier of a file or folder below tests/, "" for any other path."""
    return _below_tests(path).partition("/")[0]


def _below_tests(path: Path) -> str:
    parts = path.parts
    return "/".join(parts[parts.index(FOLDER.name) + 1 :]) if FOLDER.name in parts[:-1] else ""


def _asked(config: pytest.Config) -> list[str]:
    return [tier for tier in str(config.getoption("--tiers")).split(",") if tier]


def _empty(config: pytest.Config) -> list[str]:
    return (
        []
        if config.getoption("collectonly") or config.getoption("--until", default=None) is not None
        else [tier for tier in _asked(config) if not counts[tier]]
    )


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else ""


def _refuse_jvm(event: str, arguments: tuple[Any, ...]) -> None:
    if _no_jvm_now and event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        program = os.fsdecode(arguments[0] or arguments[1][0])
        if Path(program).name in JVM_STARTERS and not _is_stand_in(program):
            raise AssertionError(
                f"a fast test started {program}; tests that need a JVM belong in tests/integration"
            )


def _is_stand_in(program: str) -> bool:
    """Whether it is a shell script that a test wrote in Java's place."""
    found = shutil.which(program)
    return (
        found is not None and Path(found).name == "java" and Path(found).read_bytes()[:2] == b"#!"
    )
