"""Allowed lateness as the environment gives it: a variable for each family, named by it."""

import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple, Protocol

from pydantic import Field

# Matches any family: which families there are is not known where settings are read.
_VARIABLE = re.compile("TALLY_([A-Z][A-Z0-9_]*)_LATENESS_SECONDS")


class Lateness(NamedTuple):
    """Seconds that the speed layer keeps a window of one family open."""

    family: str
    seconds: Annotated[int, Field(ge=1)]


class FamilyLateness(Protocol):
    """A family as far as settings know it: its name, and the lateness of its source."""

    @property
    def name(self) -> str:
        """The family's name."""

    @property
    def lateness_seconds(self) -> int:
        """The allowed lateness in seconds where no setting says otherwise."""


def lateness_variable(family: str) -> str:
    """The environment variable of a family.

    >>> lateness_variable("sales")
    'TALLY_SALES_LATENESS_SECONDS'
    """
    return f"TALLY_{family.upper()}_LATENESS_SECONDS"


def find_lateness(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Family and text of each variable that sets a lateness.

    >>> find_lateness({"TALLY_SALES_LATENESS_SECONDS": "60", "TALLY_HOME": "x"})
    [('sales', '60')]
    """
    matches = ((_VARIABLE.fullmatch(name), text) for name, text in environment.items())
    return [(match[1].lower(), text) for match, text in matches if match]
