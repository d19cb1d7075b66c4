"""`tally stores`: a file becomes the registry whole or not at all; what that changes is told."""

import json
import os
from datetime import date
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.cli.app import build_app
from ops.stores import FieldChange, RegistryChange, registry_change, replace_registry
from runtime.registry.stores import StoreEntry, parse_stores
from tally.config.settings import Settings
from tally.errors import BadSettings, TallyError

BEFORE = """
367:
  tz: Europe/Bratislava
  floor_area_m2: 380
  networks: [L_1]
  changes: {2026-05-01: {tills: 4}, 2026-07-01: {groups: [west]}}
406: {}
"""
AFTER = """
367:
  tz: Europe/Bratislava
  floor_area_m2: 400
  networks: [L_1, L_2]
  changes: {2026-05-01: {tills: 5}}
500: {}
"""


def tally(home: Path, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(
        build_app(), ["stores", *arguments], env={"TALLY_HOME": str(home), **environment}
    )


TODAY = date(2026, 11, 28)


def written(folder: Path, text: str) -> str:
    file = folder / "new.yaml"
    file.write_text(text, "utf-8")
    return str(file)


def entries(text: str) -> dict[str, StoreEntry]:
    return parse_stores(text.encode(), Path("stores.yaml"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_what_a_file_changes_is_told_by_store_field_and_day() -> None:
    assert registry_change(entries(BEFORE), entries(AFTER), TODAY) == RegistryChange(
        ["500"],
        ["406"],
        [
            FieldChange("367", "networks", None, ["L_1"], ["L_1", "L_2"]),
            FieldChange("367", "floor_area_m2", None, 380, 400),
            FieldChange("367", "tills", "2026-05-01", 4, 5),
            FieldChange("367", "groups", "2026-07-01", ["west"], None),
        ],
    )


def test_a_store_that_comes_or_goes_had_or_gets_the_defaults_and_that_is_a_warning() -> None:
    known, unknown = entries("7: {tz: Europe/Rome, tills: 4}"), entries("8: {tills: 2}")

    gone = registry_change(known, unknown, TODAY)
    come = registry_change(unknown, known, TODAY)

    for change in (gone, come):
        (warning,) = change.warnings
        assert warning.startswith("store 7: tz:")
    assert registry_change(unknown, unknown | entries("9: {tills: 1}"), TODAY).warnings == []


def test_the_same_content_changes_nothing() -> None:
    assert registry_change(entries(BEFORE), entries(BEFORE), TODAY).is_none
    assert not registry_change(entries(BEFORE), entries(AFTER), TODAY).is_none


@pytest.mark.parametrize(
    ("before", "after", "warns"),
    [
        ("tz: Europe/Rome", "tz: Asia/Tokyo", True),
        ("", "tz: Europe/Rome", True),
        ("networks: [L_1]", "networks: [L_1, L_2]", False),
        ("networks: [L_1]", "networks: [L_2]", True),
        ("sensors: {a: {}}", "sensors: {a: {door: main}, b: {}}", False),
        ("sensors: {a: {}}", "", True),
        ("sensors: {a: {}}", "sensors: {a: {device_id: door-1}}", True),
        ("sensors: {a: {}}", "sensors: {a: {clock_ahead_seconds: 7}}", True),
        ("sensors: {a: {}}", "sensors: {a: {until: 2026-06-01}}", False),
        ("tz: Europe/Rome", "tz: Europe/Rome, changes: {2026-05-01: {tz: Asia/Tokyo}}", True),
        ("tz: Europe/Rome", "tz: Europe/Rome, changes: {2026-12-01: {tz: Asia/Tokyo}}", False),
        ("tills: 4", "tills: 5", False),
    ],
)
def test_what_decides_identities_or_days_is_changed_with_a_warning(
    before: str, after: str, warns: bool
) -> None:
    [*changed] = registry_change(
        entries(f"367: {{{before}}}"), entries(f"367: {{{after}}}"), TODAY
    ).changed

    assert [one.warning(TODAY) is not None for one in changed] == [warns]


def test_a_file_becomes_the_registry_of_the_home_as_it_is_written(home: Path) -> None:
    file = written(home.parent, "# Ours.\n" + BEFORE)

    done = tally(home, "import", file, "--json")

    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "file": file,
        "registry": str(home / "stores.yaml"),
        "written": True,
        "stores": 2,
        "added": ["367", "406"],
        "removed": [],
        "changed": [],
        "moved": [],
        "warnings": [],
    }
    assert (home / "stores.yaml").read_text("utf-8") == "# Ours.\n" + BEFORE
    assert S_IMODE(home.stat().st_mode) == 0o700
    assert Settings.load({"TALLY_HOME": str(home)}).stores_file == home / "stores.yaml"


def test_a_dry_run_tells_the_same_and_writes_nothing(home: Path) -> None:
    done = tally(home, "import", written(home.parent, BEFORE), "--dry-run", "--json")

    told = json.loads(done.stdout)
    assert (done.exit_code, told["written"], told["added"]) == (0, False, ["367", "406"])
    assert not home.exists() and "without --dry-run FILE becomes it" in done.stderr


def test_a_second_import_tells_what_changes_and_how_services_come_to_read_it(home: Path) -> None:
    tally(home, "import", written(home.parent, BEFORE))

    done = tally(home, "import", written(home.parent, AFTER), COLUMNS="120")

    assert done.exit_code == 0
    assert [
        word for word in ("380", "400", "2026-05-01", "removed", "added") if word not in done.stdout
    ] == []
    assert (
        "`tally down gateway normaliser speed api evaluator dispatcher`, then `tally up`"
        in done.stderr
    )
    assert parse_stores((home / "stores.yaml").read_bytes(), home) == entries(AFTER)


def test_changes_are_told_to_scripts(home: Path) -> None:
    tally(home, "import", written(home.parent, BEFORE))

    done = tally(home, "import", written(home.parent, AFTER), "--dry-run", "--json")

    assert json.loads(done.stdout)["changed"][2] == {
        "store": "367",
        "field": "tills",
        "from": "2026-05-01",
        "before": 4,
        "after": 5,
    }


def test_warnings_are_told_to_people_and_to_scripts(home: Path) -> None:
    tally(home, "import", written(home.parent, "367: {currency: EUR}"))

    done = tally(home, "import", written(home.parent, "367: {currency: CZK}"), "--json")

    (warning,) = json.loads(done.stdout)["warnings"]
    assert warning.startswith("store 367: currency: amounts are whole numbers of its minor units")
    assert f"{warning}; harmless only if nothing of the store has been taken yet" in done.stderr


def test_a_file_that_does_not_fit_leaves_the_registry_as_it_was(home: Path) -> None:
    tally(home, "import", written(home.parent, BEFORE))

    refused = tally(home, "import", written(home.parent, AFTER + "600: {tz: Mars}\n"))

    assert isinstance(refused.exception, BadSettings)
    assert "new.yaml: store 600.tz: 'Mars' does not fit; wanted: an IANA time zone" in str(
        refused.exception
    )
    assert (home / "stores.yaml").read_text("utf-8") == BEFORE


@pytest.mark.parametrize("content", ["", "# none\n", "{}"])
def test_a_file_without_stores_removes_none(home: Path, content: str) -> None:
    tally(home, "import", written(home.parent, BEFORE))

    refused = tally(home, "import", written(home.parent, content))

    assert isinstance(refused.exception, BadSettings)
    assert (home / "stores.yaml").read_text("utf-8") == BEFORE


def test_a_registry_that_does_not_fit_can_be_replaced(home: Path) -> None:
    home.mkdir()
    (home / "stores.yaml").write_text("367: {tz: Mars}\n", "utf-8")

    done = tally(home, "import", written(home.parent, BEFORE), "--json")

    assert (done.exit_code, json.loads(done.stdout)["added"]) == (0, ["367", "406"])
    assert "every store counts as added" in done.stderr


def test_the_registry_is_the_file_that_the_setting_names(home: Path) -> None:
    named = home.parent / "named.yaml"

    done = tally(home, "import", written(home.parent, BEFORE), TALLY_STORES_FILE=str(named))

    assert (done.exit_code, named.read_text("utf-8"), home.exists()) == (0, BEFORE, False)


def test_a_link_and_the_rights_of_the_file_are_kept(tmp_path: Path) -> None:
    file, link = tmp_path / "repository.yaml", tmp_path / "stores.yaml"
    file.write_text(BEFORE, "utf-8")
    file.chmod(0o644)
    link.symlink_to(file)

    before = os.umask(0o077)
    try:
        replace_registry(link, AFTER.encode())
    finally:
        os.umask(before)

    assert link.is_symlink() and file.read_text("utf-8") == AFTER
    assert S_IMODE(file.stat().st_mode) == 0o644


def test_a_registry_that_cannot_be_written_is_told_with_its_fix(tmp_path: Path) -> None:
    with pytest.raises(TallyError, match=r"cannot be written .*; make its folder"):
        replace_registry(tmp_path / "none" / "stores.yaml", b"")


@pytest.mark.parametrize(("on", "tills"), [("", None), ("2026-04-30", None), ("2026-05-01", 4)])
def test_a_store_is_shown_as_it_is_on_a_day(home: Path, on: str, tills: int | None) -> None:
    tally(home, "import", written(home.parent, BEFORE))

    shown = tally(home, "show", "367", "--json", *(["--on", on] if on else []))

    told: dict[str, Any] = json.loads(shown.stdout)
    assert (shown.exit_code, told["on"], [*told["stores"]]) == (0, on or None, ["367"])
    assert told["stores"]["367"].get("tills") == tills
    assert ("changes" in told["stores"]["367"]) is (on == "")


def test_every_store_is_shown_in_a_table_as_it_was_typed(home: Path) -> None:
    tally(home, "import", written(home.parent, "367: {name: '[bold]A', sensors: {a: {}}}\n406:\n"))

    shown = tally(home, "show")

    assert shown.exit_code == 0
    assert "[bold]A" in shown.stdout and "406" in shown.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "9"),
        ("show", "--on", "May"),
        ("import",),
        ("import", "no-such-file.yaml"),
        ("import", "."),
    ],
)
def test_wrong_use_is_exit_code_2(home: Path, arguments: tuple[str, ...]) -> None:
    assert tally(home, *arguments).exit_code == 2
