"""`tally rules check`: files by themselves and together, without anything that runs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ops.cli.app import build_app

GOOD = 'rule_id: {}\nmetric: transactions\ncondition: {{op: ">=", value: 40}}\n'


def check(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), ["rules", "check", *arguments])


def written(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text, "utf-8")
    return str(file)


def test_rules_of_files_and_folders_fit(tmp_path: Path) -> None:
    one = written(tmp_path, "z.txt", GOOD.format("by-name"))
    folder = tmp_path / "more"
    folder.mkdir()
    for name in ("b.yml", "a.yaml", "notes.md"):
        written(folder, name, GOOD.format(f"r-{name[0]}"))

    done = check(one, str(folder), "--json")

    assert (done.exit_code, done.stderr) == (0, "3 rules fit\n")
    assert json.loads(done.stdout) == {
        "ok": True,
        "rules": ["by-name", "r-a", "r-b"],
        "problems": [],
        "not_judged": [],
    }


def test_one_rule_fits_in_the_singular(tmp_path: Path) -> None:
    done = check(written(tmp_path, "a.yaml", GOOD.format("r-a")))

    assert (done.exit_code, done.stderr) == (0, "1 rule fits\n")


def test_every_problem_is_a_line_with_its_file(tmp_path: Path) -> None:
    first = written(tmp_path, "a.yaml", GOOD.format("r-a") + "for: 97\nseverity: bad\n")
    second = written(tmp_path, "b.yaml", GOOD.format("r-b") + "unless: [r-c]\n")
    third = written(tmp_path, "c.yaml", GOOD.format("r-c") + "unless: [r-b]\n")
    fourth = written(tmp_path, "d.yaml", GOOD.format("r-c"))

    done = check(str(tmp_path))

    lines = done.stderr.splitlines()
    assert done.exit_code == 1
    assert [line.partition(": wanted")[0].split(": ")[1:3] for line in lines] == [
        [first, "for"],
        [first, "severity"],
        [fourth, "rule_id"],
        [third if "c.yaml: unless" in lines[-1] else second, "unless"],
    ]
    assert lines[2].endswith(f"r-c is that of {third}; rename one")


def test_a_rule_against_what_is_usual_fits_and_is_evaluated(tmp_path: Path) -> None:
    text = "rule_id: a\nkind: baseline\nmetric: revenue\n"
    file = written(tmp_path, "a.yaml", text + "condition: {baseline: hour_of_week, sigmas: 3}\n")

    done = check(file, "--json")

    assert (done.exit_code, json.loads(done.stdout)["not_judged"]) == (0, [])


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xff\xfe")

    done = check(str(file))

    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"rules: {file}: it cannot be read as YAML: ")


@pytest.mark.parametrize("arguments", [(), ("no-such-file.yaml",), ("EMPTY",)])
def test_wrong_use_is_exit_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    named = [str(tmp_path) if one == "EMPTY" else one for one in arguments]

    assert check(*named).exit_code == 2
