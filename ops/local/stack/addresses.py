"""Addresses of the local services, kept in TALLY_HOME/addresses.env.

They are chosen once, on free loopback ports that no other home has.
"""

import fcntl
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ops.local.stack.machine import port_is_free
from ops.local.stack.private import make_private
from runtime.whole_file import keep_whole
from tally.errors import StackError
from tally.home import ADDRESSES_FILE, home_of, kept_addresses
from tally.settings import Settings

NAMES = ("kafka", "kafka_controller", "cassandra", "cassandra_storage", "gateway", "api", "airflow")
HOST = "127.0.0.1"
# Below the range that systems give to outgoing connections: a kept port must still be free at the
# next start.
FIRST_PORT, LAST_PORT = 20000, 32000
TRIES = 1000
HOMES_FILE = "homes"


def settings_with_addresses(environment: Mapping[str, str]) -> Settings:
    """Settings whose addresses are settled: from the environment, else kept, else a free port.

    The free port is kept from now on.
    """
    home = home_of(environment)
    if any(
        kept_addresses(home).get(name) != address
        for name, address in _chosen(environment, home).items()
    ):
        make_private(home)
        with _other_homes(Settings.load(environment).cache, home) as others:
            chosen = _chosen(environment, home)
            taken = {address for address in (*chosen.values(), *others) if address}
            for name in chosen:
                chosen[name] = chosen[name] or _free_address(taken)
                taken.add(chosen[name])
            _keep(home, chosen)
    return Settings.load(environment)


def apart(home: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables of a home of its own: of Tally's only the cache is inherited."""
    kept = {
        name: value
        # A variable of the caller's own home would lead a test or a benchmark into it.
        for name, value in inherited.items()
        if not name.startswith("TALLY_") or name == variable("cache")
    }
    return {**kept, "TALLY_HOME": str(home)}


def _chosen(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """Variable to address, "" where none is chosen yet."""
    kept = kept_addresses(home)
    variables = [variable(name) for name in NAMES]
    return {name: environment.get(name) or kept.get(name) or "" for name in variables}


def variable(name: str) -> str:
    """The environment variable of one setting."""
    return f"TALLY_{name.upper()}"


def _free_address(taken: set[str]) -> str:
    for _ in range(TRIES):
        port = random.randint(FIRST_PORT, LAST_PORT)
        if f"{HOST}:{port}" not in taken and port_is_free(HOST, port):
            return f"{HOST}:{port}"
    raise StackError(
        f"ports: none free on {HOST} between {FIRST_PORT} and {LAST_PORT}; end what holds them"
    )


def _keep(home: Path, chosen: Mapping[str, str]) -> None:
    lines = "".join(f"{name}={address}\n" for name, address in chosen.items())
    try:
        keep_whole(
            home / ADDRESSES_FILE,
            "# Written by `tally up`; an environment variable of the same name wins.\n" + lines,
        )
    except OSError as error:
        raise StackError(
            f"folder {home}: cannot be written ({error.strerror});"
            " make it writable or set TALLY_HOME"
        ) from error


@contextmanager
def _other_homes(cache: Path, home: Path) -> Iterator[list[str]]:
    """The addresses of every other home of this user; this home is among them from now on.

    One process does it at a time. A port is free until its service has started, so that asking the
    system for a free one gives the same port to two homes.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / HOMES_FILE).open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            # A home that is gone has no addresses: its ports are free for others.
            kept = {
                line: kept_addresses(Path(line))
                for line in file.read().splitlines()
                if line != str(home.resolve())
            }
            yield [address for addresses in kept.values() for address in addresses.values()]
            # Only now: until this home has kept its addresses, nobody else may read the list.
            file.truncate(0)
            file.writelines(
                f"{line}\n"
                for line in (
                    *(line for line, addresses in kept.items() if addresses),
                    home.resolve(),
                )
            )
    except OSError as error:
        raise StackError(
            f"folder {cache}: cannot be written ({error.strerror});"
            " make it writable or set TALLY_CACHE"
        ) from error
