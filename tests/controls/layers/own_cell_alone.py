"""Wrong on purpose: small cells withheld, and nothing beside them that they follow from."""

from collections.abc import Sequence

from tests.support.oracles.differencing import Asked, IsTold, value_of
from tests.support.serving.small_cells import Day

# Number of cells and their sum, or of one that is hidden among others None.
Published = tuple[tuple[int, int | None], ...]


def own_cell_alone(day: Day, quarters: int, smallest: int) -> IsTold:
    """Tells each number that is not small itself."""

    def is_told(asked: Asked) -> bool:
        return not 0 < value_of(day, quarters, asked) < smallest

    return is_told


def with_smallest_beside(counts: Sequence[int], smallest: int) -> Published:
    """Hides small cells, beside a single one the smallest of the others, and tells zeros and the
    sum: whoever knows the rule reckons back."""
    hidden = {place for place, count in enumerate(counts) if 0 < count < smallest}
    others = sorted((count, place) for place, count in enumerate(counts) if count >= smallest)
    if len(hidden) == 1 and others:
        hidden.add(others[0][1])
    # In good faith: where none is left to hide beside it, or the sum is small, nothing is told.
    if len(hidden) == 1 or 0 < sum(counts) < smallest:
        return ((len(counts), None),)
    cells = tuple((1, None if place in hidden else count) for place, count in enumerate(counts))
    return (*cells, (len(counts), sum(counts)))
