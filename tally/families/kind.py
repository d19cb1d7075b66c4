"""The interface of a family's kind to the layers: pure functions over values.

A kind says how the rows of two writers are ordered (`register`), which side a reader believes
(`merge`), how the windows of a stretch become one value (`join_over_time`), and why
(`explain_choice`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tally.algebra.merge import MergedWindow, Parts, WindowState, register
from tally.algebra.parts import Part

Side = WindowState | None


class Kind(ABC):
    """One kind of family; it has no state of its own."""

    name: ClassVar[str]

    def __eq__(self, other: object) -> bool:
        # The copy of a family that a Python worker receives is equal to the driver's.
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def register(self, epoch: int, seen: int) -> int:
        """The write timestamp of a speed row: a row that has seen more wins, from any writer.

        `seen` is the row's `events`: distinct events of the window, or in a derived family the
        position up to which its partition was read.
        """
        return register(epoch, seen)

    @abstractmethod
    def merge(
        self,
        parts: Sequence[Part],
        speed: Side,
        batch: Side,
        covered: bool,
    ) -> MergedWindow:
        """The window as it is served, for a family with these parts; the sides are never added.

        `covered` says that a published generation covers the window, so that a missing row means
        that nothing happened.
        """

    def join_over_time(self, parts: Sequence[Part], earlier: Parts, later: Parts) -> Parts:
        """Two stretches as one, part by part; an absent part is its zero.

        The operation is associative, and {} is its neutral element.
        """
        try:
            # Rows of one family have all its parts.
            return {
                part.name: part.join_over_time(earlier[part.name], later[part.name])
                for part in parts
            }
        except KeyError:
            return {
                name: part.join_over_time(
                    earlier.get(name, part.zero),
                    later.get(name, part.zero),
                )
                for name, part in ((part.name, part) for part in parts)
                if name in earlier or name in later
            }

    @abstractmethod
    def explain_choice(self, speed: Side, batch: Side, covered: bool) -> str:
        """A sentence that says which side was believed, and why.

        `batch` is the generation's row; where it covers the window and has none, a state without
        events.
        """
