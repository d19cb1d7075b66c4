"""Settings that cannot be kept are refused where they are read, with the variable and what to
do."""

from pathlib import Path

import pytest

from tally.errors import BadSettings
from tally.settings import Settings


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
