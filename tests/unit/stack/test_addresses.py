"""Addresses: chosen once, kept, and overruled by the environment."""

import shutil
from pathlib import Path

import pytest

from ops.local.processes import addresses
from ops.local.processes.addresses import NAMES, settings_with_addresses
from tally.errors import StackError


def test_addresses_are_on_loopback_and_all_different(tmp_path: Path) -> None:
    settings = settings_with_addresses({"TALLY_HOME": str(tmp_path)})

    addresses = [getattr(settings, name) for name in NAMES]

    assert len(set(addresses)) == len(NAMES) and all(
        address.startswith("127.0.0.1:") for address in addresses
    )


def test_addresses_are_the_same_the_next_time(tmp_path: Path) -> None:
    first = settings_with_addresses({"TALLY_HOME": str(tmp_path)})

    assert settings_with_addresses({"TALLY_HOME": str(tmp_path)}) == first


def test_no_port_is_given_to_two_homes_whose_services_have_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        addresses, "LAST_PORT", addresses.FIRST_PORT + 30
    )  # four homes of seven: by chance alone they would meet
    cache = str(tmp_path / "cache")

    homes = [
        settings_with_addresses({"TALLY_HOME": str(tmp_path / name), "TALLY_CACHE": cache})
        for name in "abcd"
    ]

    given = [getattr(settings, name) for settings in homes for name in NAMES]
    assert len(set(given)) == len(given)


def test_ports_of_a_home_that_is_gone_are_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "LAST_PORT", addresses.FIRST_PORT + 12)
    cache = str(tmp_path / "cache")

    for name in "abc":
        settings_with_addresses({"TALLY_HOME": str(tmp_path / name), "TALLY_CACHE": cache})
        shutil.rmtree(tmp_path / name)

    assert (tmp_path / "cache" / addresses.HOMES_FILE).read_text() == f"{tmp_path / 'c'}\n"


def test_cache_that_cannot_be_made_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StackError, match=r"file/cache: .* set TALLY_CACHE"):
        settings_with_addresses(
            {"TALLY_HOME": str(tmp_path / "home"), "TALLY_CACHE": str(tmp_path / "file" / "cache")}
        )


def test_environment_wins_over_the_kept_address_and_is_kept(tmp_path: Path) -> None:
    settings_with_addresses({"TALLY_HOME": str(tmp_path)})

    given = settings_with_addresses({"TALLY_HOME": str(tmp_path), "TALLY_API": "127.0.0.1:8000"})

    assert given.api == "127.0.0.1:8000"
    assert settings_with_addresses({"TALLY_HOME": str(tmp_path)}) == given


def test_home_that_cannot_be_made_is_named_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StackError, match=r"file/home: .* set TALLY_HOME"):
        settings_with_addresses({"TALLY_HOME": str(tmp_path / "file" / "home")})
