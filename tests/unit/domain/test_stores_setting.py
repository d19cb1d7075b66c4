"""Which stores file is read: the one that is named, else that of the home."""

from pathlib import Path

import pytest

from tally.config.settings import Settings


@pytest.mark.parametrize("named", [{}, {"TALLY_STORES_FILE": ""}])
def test_the_stores_file_of_the_home_is_read_where_none_is_named(
    tmp_path: Path, named: dict[str, str]
) -> None:
    environment = {"TALLY_HOME": str(tmp_path), **named}
    kept = tmp_path / "stores.yaml"

    before = Settings.load(environment)
    kept.touch()
    after = Settings.load(environment)

    assert (before.stores_file, before.registry) == (None, kept)
    assert (after.stores_file, after.registry) == (kept, kept)


def test_a_file_that_is_named_goes_before_that_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "stores.yaml").touch()
    named = tmp_path / "named.yaml"

    found = Settings.load({"TALLY_HOME": str(tmp_path), "TALLY_STORES_FILE": str(named)})

    assert found.stores_file == found.registry == named


def test_a_home_that_is_not_there_has_no_stores_file(tmp_path: Path) -> None:
    assert Settings.load({"TALLY_HOME": str(tmp_path / "none")}).stores_file is None
