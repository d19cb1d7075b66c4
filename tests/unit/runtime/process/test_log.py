"""The log of a process: JSON a line, whatever is in it."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from runtime.process.job import escape_unprintable, run_command, run_job
from tally.errors import TallyError

HOSTILE = "\x1b[2J\r\nforged line\x00 \u202eabc\ud800 ü"


def lines(text: str) -> list[dict[str, Any]]:
    """Each line of a log, which is JSON and has no sign that moves a cursor."""
    assert text.replace("\n", "").isprintable() and text.isascii()
    return [json.loads(line) for line in text.splitlines()]


def test_values_are_escaped_and_stay_what_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger()

    run_job("job", lambda: log.warning("views unreachable", path=HOSTILE, reason=b"\x1b", of=3))

    [line] = lines(capsys.readouterr().err)
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "views unreachable",
        "level": "warning",
        "path": HOSTILE,
        "reason": repr(b"\x1b"),
        "of": 3,
    }


def test_an_error_is_one_line_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        try:
            raise RuntimeError(HOSTILE)
        except RuntimeError as error:
            structlog.get_logger().error("request failed", exc_info=error)

    run_job("job", work)

    [line] = lines(capsys.readouterr().err)
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert HOSTILE.splitlines()[0] in line["exception"]


@given(st.text())
def test_any_text_is_one_line(text: str) -> None:
    said = list[str]()
    renderer = structlog.processors.JSONRenderer()
    said.append(str(renderer(None, "info", {"event": text, "path": text})))

    assert lines(said[0]) == [{"event": text, "path": text}]
    assert escape_unprintable(text).isprintable()


def test_libraries_log_in_the_same_way() -> None:
    program = (
        "import logging\n"
        "from runtime.process.job import run_job\n"
        "def work():\n"
        f"    logging.getLogger('library').warning('said %s', {HOSTILE!r})\n"
        "    logging.getLogger('library').info('nothing')\n"
        "    try:\n"
        "        1 / 0\n"
        "    except ZeroDivisionError:\n"
        "        logging.getLogger('uvicorn.error').exception('failed')\n"
        "run_job('job', work)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    said, failed = lines(ended.stderr)
    assert (said["event"], said["level"]) == (f"said {HOSTILE}", "warning")
    assert failed["exception"].endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("run", [run_job, run_command])
def test_the_reason_of_an_end_is_a_line_for_people(
    run: Callable[[str, Callable[[], None]], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TALLY_EXIT_FILE", raising=False)

    def work() -> None:
        raise TallyError("store Zürich\x1b[2J\nforged: line")

    run("job", work)

    assert capsys.readouterr().err == "job: store Zürich\\x1b[2J\\nforged: line\n"
