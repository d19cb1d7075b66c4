"""Settings that cannot be kept are refused where they are read, with the variable and what to
do."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from tally.algebra.parts import Sum
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.families.family import Family
from tests.unit.architecture.counts.sources import parsed, python_files

HOME = Path("tally/config/settings.py")


@pytest.mark.parametrize("sign", ["%", "[", "]"])
def test_home_that_delta_cannot_open_is_refused(
    tmp_path: Path, sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / f"a{sign}41b"
    odd.mkdir()
    monkeypatch.chdir(odd)

    for home in (str(odd / "tally"), ".tally"):
        with pytest.raises(BadSettings, match=rf"TALLY_HOME: .*\{sign}.*choose another"):
            Settings.load({"TALLY_HOME": home})


def test_home_with_a_blank_an_umlaut_or_a_quote_is_taken(tmp_path: Path) -> None:
    home = tmp_path / "Größe it's 100 #1"

    assert Settings.load({"TALLY_HOME": str(home)}).home == home


QUEUES = Family("queues", axes=(), parts=(Sum("arrived"),), epoch=1, lateness_seconds=600)


def test_lateness_of_a_family_is_its_own_unless_a_variable_names_another() -> None:
    assert Settings.load({}).lateness_seconds(QUEUES) == 600
    assert Settings.load({"TALLY_QUEUES_LATENESS_SECONDS": "60"}).lateness_seconds(QUEUES) == 60
    assert Settings.load({"TALLY_SALES_LATENESS_SECONDS": "60"}).lateness_seconds(QUEUES) == 600


@pytest.mark.parametrize("text", ["0", "soon"])
def test_lateness_that_is_none_is_refused_by_the_name_of_its_variable(text: str) -> None:
    with pytest.raises(BadSettings, match=rf"TALLY_QUEUES_LATENESS_SECONDS: .* \(got '{text}'\)"):
        Settings.load({"TALLY_SALES_LATENESS_SECONDS": "60", "TALLY_QUEUES_LATENESS_SECONDS": text})


def test_settings_can_name_what_is_kept_for_them() -> None:
    one, other = (Settings.load({"TALLY_SALES_LATENESS_SECONDS": "60"}) for _ in range(2))

    # A worker of Spark keeps one session for each.
    assert {one: "session"}[other] == "session"


def reads(trees: Iterable[ast.Module]) -> set[str]:
    """What is taken of a settings object in these modules: `settings.x`, `self._settings.x`."""
    found = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.attr for node in found if ast.unparse(node.value).lower().endswith("settings")}


def through(method: str) -> set[str]:
    """The settings that a method of Settings reads."""
    bodies = [
        node
        for node in ast.walk(parsed(HOME))
        if isinstance(node, ast.FunctionDef) and node.name == method
    ]
    return {
        node.attr
        for body in bodies
        for node in ast.walk(body)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    }


def test_each_setting_is_read_by_code_of_the_product() -> None:
    beside = [file for file in python_files() if file.parts[0] not in ("tests", "bench")]
    read = reads(parsed(file) for file in beside if file != HOME)
    read |= {name for method in read for name in through(method)}

    assert set(Settings.model_fields) - read == set()


def test_a_setting_that_is_only_named_or_set_elsewhere_is_not_read() -> None:
    text = "x = Settings(home=1).cache\nother.kafka = self._settings.api\nsite.settings.airflow"

    assert reads([ast.parse(text)]) == {"api", "airflow"}
    assert through("checkpoint") == {"checkpoints", "home"}
