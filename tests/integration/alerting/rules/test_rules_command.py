"""`tally rules` on a real broker: what a file changes, from when it is in force, and exit codes."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from ops.cli.app import build_app
from tally.config.settings import Settings
from tally.errors import TallyError


@pytest.fixture
def rule_id(kafka: str) -> str:
    """One that nobody else has: the topic is that of the whole run."""
    return f"r-{uuid4().hex}"


@pytest.fixture
def tally(kafka: str, settings: Settings, tmp_path: Path) -> Any:
    """Runs a verb of `tally rules`."""
    variables = {"TALLY_KAFKA": settings.kafka, "TALLY_HOME": str(tmp_path / "home")}
    return lambda *arguments: CliRunner().invoke(build_app(), ["rules", *arguments], env=variables)


def file_of(folder: Path, rule_id: str, *lines: str) -> str:
    named = {line.partition(":")[0] for line in lines}
    good = ("metric: transactions", 'condition: {op: ">=", value: 40}')
    kept = [line for line in good if line.partition(":")[0] not in named]
    file = folder / f"{rule_id}.yaml"
    file.write_text("\n".join([f"rule_id: {rule_id}", *kept, *lines]), "utf-8")
    return str(file)


def told(done: Result) -> dict[str, Any]:
    [rule] = json.loads(done.stdout)["rules"]
    return dict(rule)


def test_a_rule_is_applied_changed_told_otherwise_and_retired(
    tally: Any, rule_id: str, tmp_path: Path
) -> None:
    file = file_of(tmp_path, rule_id)

    new = tally("diff", file, "--json")
    first = tally("apply", file, "--json")
    same = tally("diff", file, "--json")
    again = tally("apply", file, "--json")

    assert (new.exit_code, told(new)["change"], told(new)["version"]) == (1, "new", 1)
    assert (first.exit_code, told(first)["change"], told(first)["version"]) == (0, "new", 1)
    assert told(first)["effective_from"].endswith(
        (":00:00.000Z", ":15:00.000Z", ":30:00.000Z", ":45:00.000Z")
    )
    assert (same.exit_code, told(same)["change"], told(same)["fields"]) == (0, "same", [])
    assert (again.exit_code, told(again)) == (0, {**told(first), "change": "same"})

    file = file_of(tmp_path, rule_id, "for: 2", "title: Busy")
    changed = tally("diff", file, "--json")
    assert (changed.exit_code, told(changed)["change"]) == (1, "version")
    assert told(changed)["fields"] == [
        {"field": "for", "before": 1, "after": 2},
        {"field": "title", "before": "", "after": "Busy"},
    ]
    assert told(tally("apply", file, "--json"))["version"] == 2
    revised = tally("apply", file_of(tmp_path, rule_id, "for: 2", "title: Very busy"))
    assert revised.stdout.startswith(f"{rule_id} version 2.2, in force from 20")

    ended = tally("retire", rule_id)
    assert (ended.exit_code, f"{rule_id} version 3, retired from 20" in ended.stdout) == (0, True)
    listed = json.loads(tally("list", "--json").stdout)["rules"]
    [newest] = [one for one in listed if one["rule_id"] == rule_id]
    assert (newest["version"], newest["retired"]) == (3, True)
    assert isinstance(tally("retire", rule_id).exception, TallyError)


def test_tables_are_for_people(tally: Any, rule_id: str, tmp_path: Path) -> None:
    tally("apply", file_of(tmp_path, rule_id, "title: '[bold]A'"))

    changed = tally("diff", file_of(tmp_path, rule_id, "for: 7"))
    listed = tally("list")

    assert (changed.exit_code, listed.exit_code) == (1, 0)
    assert "for" in changed.stdout and "7" in changed.stdout
    assert "[bold]A" in listed.stdout


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["effective_from: 2017-01-01T00:00:00Z"], "effective_from: is no field"),
        (["metric: profit"], "metric: there is no 'profit'"),
        (["unless: [r-nowhere]"], "unless: there is no rule r-nowhere in force"),
        (["subject: till"], "subject: transactions cannot be split by till"),
        (
            ["kind: baseline", "condition: {baseline: same_weekday_4w, sigmas: 3}"],
            "condition: four values say nothing of deviations",
        ),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused_and_nothing_is_written(
    tally: Any, rule_id: str, tmp_path: Path, lines: list[str], said: str
) -> None:
    file_of(tmp_path, f"{rule_id}-good")
    file = file_of(tmp_path, rule_id, *lines)

    done = tally("apply", str(tmp_path))

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"rules: {file}: {said}" in done.stderr
    listed = json.loads(tally("list", "--json").stdout)["rules"]
    assert [one for one in listed if one["rule_id"].startswith(rule_id)] == []


def test_a_rule_that_another_waits_for_is_not_retired(
    tally: Any, rule_id: str, tmp_path: Path
) -> None:
    tally("apply", file_of(tmp_path, rule_id))
    tally("apply", file_of(tmp_path, f"{rule_id}-b", f"unless: [{rule_id}]"))

    done = tally("retire", rule_id)

    assert f"{rule_id}-b names {rule_id} in `unless`" in str(done.exception)
    circle = tally("apply", file_of(tmp_path, rule_id, f"unless: [{rule_id}-b]"))
    assert (circle.exit_code, "is a circle" in circle.stderr) == (1, True)
