"""A sweep leaves every answer that may still be given: the model is all versions, never swept."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from batch_layer.views.publish.stored_rows import BatchRowVersion
from batch_layer.views.sweep import find_kept, find_superfluous
from tally.families.generation import Generation, first_covering, first_covering_generations
from tally.families.versions import VersionChoice, select_versions
from tally.time.instants import to_millis
from tally.time.windows import WINDOW

DAY = date(2026, 11, 21)
BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
WINDOWS = 4
ONE_HOUR = timedelta(hours=1)

# Whether a run is published, how many windows it covers, and its values of the windows.
runs = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, WINDOWS),
        st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=WINDOWS, max_size=WINDOWS),
    ),
    min_size=1,
    max_size=8,
)


Run = tuple[bool, int, list[int | None]]


def write(
    all_runs: list[Run],
) -> tuple[list[Generation], list[BatchRowVersion]]:
    """The flips and versions of runs, each of which writes what differs from what serves."""
    flips: list[Generation] = []
    versions: list[BatchRowVersion] = []
    served: dict[int, int | None] = {}
    for generation, (is_published, covered, values) in enumerate(all_runs, 1):
        for window, value in enumerate(values):
            if value != served.get(window):
                key = (to_millis(BEGIN + window * WINDOW),)
                versions.append((key, generation, None if value is None else (value,)))
        if is_published:
            at = BEGIN + generation * ONE_HOUR
            until = BEGIN + covered * WINDOW
            flips.append(Generation(DAY, generation, 1, BEGIN, until, generation, at, {}, {}))
            served = dict(enumerate(values))
    return flips, versions


@given(runs, st.integers(0, 9), st.sets(st.integers(1, 8), max_size=2))
def test_sweep_changes_no_answer_that_may_be_given(
    all_runs: list[Run], cutoff: int, named: set[int]
) -> None:
    flips, versions = write(all_runs)
    if not flips:
        return
    published, serving, end = (
        {flip.generation for flip in flips},
        flips[-1],
        BEGIN + cutoff * ONE_HOUR,
    )
    kept = find_kept(flips, serving, end, named & published)

    swept = find_superfluous(versions, kept, published)

    left = [version for version in versions if version[:2] not in swept.superfluous]
    still_published = {
        *kept.whole,
        *swept.staying,
        *(first.covering.generation for first in kept.firsts),
    } & published

    def rows(of: list[BatchRowVersion], generation: int, among: set[int]) -> object:
        return select_versions(of, VersionChoice(generation, among))

    asked = [serving.generation, *(named & published)]
    # Each flip that served at the cutoff or later.
    asked += [flip.generation for flip, later in pairwise(flips) if later.flipped_at > end]
    for generation in asked:
        assert rows(left, generation, still_published) == rows(versions, generation, published)
    firsts = first_covering_generations(flips, serving)
    for window in range(WINDOWS):
        start = BEGIN + window * WINDOW
        if first := first_covering(firsts, start):
            before, after = (
                rows([one for one in of if one[0] == (to_millis(start),)], first.generation, among)
                for of, among in ((versions, published), (left, still_published))
            )
            assert before == after
    # The same first coverages follow from the flips that are left.
    remaining = [flip for flip in flips if flip in kept.flips or flip.generation in still_published]
    assert first_covering_generations(remaining, serving) == firsts


@given(runs)
def test_sweep_with_nothing_to_ask_leaves_one_version_of_what_serves(
    all_runs: list[Run],
) -> None:
    flips, versions = write([(True, 0, values) for _, _, values in all_runs])
    kept = find_kept(flips, flips[-1], BEGIN + timedelta(days=9), ())

    swept = find_superfluous(versions, kept, {flip.generation for flip in flips})

    assert len(versions) - len(swept.superfluous) == len({key for key, _, _ in versions})
