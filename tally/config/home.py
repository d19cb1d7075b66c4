"""Files of TALLY_HOME from which settings are read, beside the environment."""

from collections.abc import Mapping
from pathlib import Path

ADDRESSES_FILE = "addresses.env"
STORES_FILE = "stores.yaml"


def home_folder(environment: Mapping[str, str]) -> Path:
    """The folder of all local data: TALLY_HOME, else `.tally`."""
    return Path(environment.get("TALLY_HOME", ".tally"))


def load_addresses(home: Path) -> dict[str, str]:
    """TALLY_<NAME> to host:port as `tally up` wrote it to this home; empty before that."""
    try:
        lines = (home / ADDRESSES_FILE).read_text("utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = (line for line in lines if "=" in line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in entries)


def add_stores_file(named: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables, with the home's stores file added where it exists and they name none."""
    # docker-compose passes an empty value for a variable that is not set.
    given = {name: value for name, value in named.items() if value or name != "TALLY_STORES_FILE"}
    stores_file = home / STORES_FILE
    return {"TALLY_STORES_FILE": str(stores_file), **given} if stores_file.exists() else given
