"""Addresses of local services in TALLY_HOME/addresses.env: free ports that no other home uses."""

import fcntl
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ops.local.machine import explain_unwritable, make_private, port_is_free
from runtime.process.files import write_atomically
from tally.config.settings import ADDRESSES_FILE, Settings, home_folder, load_addresses
from tally.errors import StackError

NAMES = ("kafka", "kafka_controller", "cassandra", "cassandra_storage", "gateway", "api", "airflow")
HOST = "127.0.0.1"
# Below the range of ephemeral ports for outgoing connections: a stored port must still be free at
# the next start.
FIRST_PORT, LAST_PORT = 20000, 32000
TRIES = 1000
HOMES_FILE = "homes"


def settings_with_addresses(environment: Mapping[str, str]) -> Settings:
    """Settings with all addresses: of the environment, else stored, else free and then stored."""
    home = home_folder(environment)
    stored, current = load_addresses(home), _current_addresses(environment, home)
    if any(stored.get(name) != address for name, address in current.items()):
        make_private(home)
        with _lock_other_homes(Settings.load(environment).cache, home) as others:
            chosen = _current_addresses(environment, home)
            taken = {address for address in (*chosen.values(), *others) if address}
            for name in chosen:
                chosen[name] = chosen[name] or _free_address(taken)
                taken.add(chosen[name])
            _write_addresses(home, chosen)
    return Settings.load(environment)


def separate_environment(home: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment for a separate home: of Tally's variables only the cache is inherited."""
    # A variable of the caller's home would make a test or a benchmark use that home.
    ours = {name for name in inherited if name.startswith("TALLY_")} - {variable("cache")}
    others = {name: value for name, value in inherited.items() if name not in ours}
    return {**others, "TALLY_HOME": str(home)}


def _current_addresses(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """The address by variable, "" where none is chosen yet."""
    stored = load_addresses(home)
    names = map(variable, NAMES)
    return {name: environment.get(name) or stored.get(name) or "" for name in names}


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"TALLY_{name.upper()}"


def _free_address(taken: set[str]) -> str:
    for _ in range(TRIES):
        port = random.randint(FIRST_PORT, LAST_PORT)
        if f"{HOST}:{port}" not in taken and port_is_free(HOST, port):
            return f"{HOST}:{port}"
    raise StackError(
        f"ports: none free on {HOST} between {FIRST_PORT} and {LAST_PORT}; end what holds them"
    )


def _write_addresses(home: Path, addresses: Mapping[str, str]) -> None:
    heading = "# Written by `tally up`; an environment variable of the same name wins.\n"
    lines = "".join(f"{name}={address}\n" for name, address in addresses.items())
    with explain_unwritable(home, "set TALLY_HOME"):
        write_atomically(home / ADDRESSES_FILE, heading + lines)


@contextmanager
def _lock_other_homes(cache: Path, home: Path) -> Iterator[list[str]]:
    """Yield the addresses of all other homes of this user, and register this home.

    Only one process does it at a time. A port is free until its service has started, so two homes
    that ask the system for a free port could get the same one.
    """
    with explain_unwritable(cache, "set TALLY_CACHE"):
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / HOMES_FILE).open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            # A deleted home has no addresses, so its ports are free for others.
            homes = {
                line: load_addresses(Path(line))
                for line in file.read().splitlines()
                if line != str(home.resolve())
            }
            yield [address for addresses in homes.values() for address in addresses.values()]
            # Written only now: no other process may read the list before this home has stored its
            # addresses.
            file.truncate(0)
            used = [line for line, addresses in homes.items() if addresses]
            file.writelines(f"{line}\n" for line in (*used, home.resolve()))
