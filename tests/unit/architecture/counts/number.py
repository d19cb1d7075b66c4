"""A number of the house, with its limits."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """One line of the table; `most` and `least` are its limits, None where it has none."""

    name: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the value is within its limits."""
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )


def share(flags: Iterable[bool]) -> float:
    """The percentage of those that are true."""
    listed = [*flags]
    return round(100 * sum(listed) / len(listed), 1)
