"""Addresses: chosen once, kept, and overruled by the environment."""

from pathlib import Path

import pytest

from ops.stack.addresses import NAMES, settings_with_addresses
from tally.errors import StackError


def test_addresses_are_on_loopback_and_all_different(tmp_path: Path) -> None:
    settings = settings_with_addresses({"TALLY_HOME": str(tmp_path)})

    addresses = [getattr(settings, name) for name in NAMES]

    assert len(set(addresses)) == len(NAMES) and all(address.startswith("127.0.0.1:") for address in addresses)


def test_addresses_are_the_same_the_next_time(tmp_path: Path) -> None:
    first = settings_with_addresses({"TALLY_HOME": str(tmp_path)})

    assert settings_with_addresses({"TALLY_HOME": str(tmp_path)}) == first


def test_environment_wins_over_the_kept_address_and_is_kept(tmp_path: Path) -> None:
    settings_with_addresses({"TALLY_HOME": str(tmp_path)})

    given = settings_with_addresses({"TALLY_HOME": str(tmp_path), "TALLY_API": "127.0.0.1:8000"})

    assert given.api == "127.0.0.1:8000"
    assert settings_with_addresses({"TALLY_HOME": str(tmp_path)}) == given


def test_home_that_cannot_be_made_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StackError, match=r"file/home: .* set TALLY_HOME"):
        settings_with_addresses({"TALLY_HOME": str(tmp_path / "file" / "home")})
