"""A search through histories of the world of alerts."""

from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.laws.alerting.worlds.alert_shop import Broken
from tests.laws.alerting.worlds.alert_world import World, play

histories = st.binary(min_size=400, max_size=900)


def report_of(kind: type[World], begin: str, most: int) -> tuple[str | None, Counter[str]]:
    """The first report of that begin in so many histories, None without one; and what happened in
    them."""
    fired: Counter[str] = Counter()
    found: list[str] = []

    # Without shrinking: to find is enough, and the same histories find the same every time.
    @seed(20_240_611)
    @settings(
        max_examples=most,
        phases=[Phase.generate],
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(histories)
    def search(data: bytes) -> None:
        world = kind()
        try:
            play(data, world)
        except Broken as error:
            if str(error).startswith(begin):
                found.append(str(error))
                raise
        fired.update(world.fired)

    try:
        search()
    except Broken:
        assert found
    return found[0] if found else None, fired
