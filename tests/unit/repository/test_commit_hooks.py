"""What runs before a commit is what `make check` runs."""

import re
from typing import Any

import yaml

from tests.unit.architecture.counts.sources import ROOT


def steps_of_check(makefile: str) -> list[str]:
    """The commands of `make check`, with the folder of the environment put in."""
    recipe = re.search(r"^check:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    assert recipe is not None, "the Makefile has no check"
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]


def hooks() -> list[dict[str, Any]]:
    """Every hook, in order."""
    text = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    return [hook for repository in yaml.safe_load(text)["repos"] for hook in repository["hooks"]]


def test_hooks_run_the_steps_of_make_check_in_their_order() -> None:
    steps = steps_of_check((ROOT / "Makefile").read_text("utf-8"))

    assert [hook["entry"] for hook in hooks()] == steps


def test_hooks_look_at_everything_with_what_is_installed_here() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    ways = {(hook["language"], hook["pass_filenames"], hook["always_run"]) for hook in hooks()}

    assert [one["repo"] for one in repositories] == ["local"]
    assert ways == {("system", False, True)}


def test_a_step_more_in_make_check_is_seen() -> None:
    planted = "check: setup ## lint\n\t$(BIN)/ruff check .\n\t$(BIN)/new step\n\ntest: setup\n\tx\n"

    assert steps_of_check(planted) == [".venv/bin/ruff check .", ".venv/bin/new step"]
