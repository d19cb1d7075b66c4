"""The event time that a transaction spans leaves honest records time to be seen (docs/adr/003-sharp-lateness.md)."""

import pytest

from tally.families import FAMILIES
from tally.settings import Settings

DISORDER_SECONDS = 300  # within a partition, as the replay's `--disorder 5m` makes it


@pytest.mark.parametrize("family", FAMILIES)
def test_a_transaction_half_seen_makes_no_record_of_its_other_half_late(family: str) -> None:
    settings = Settings()

    lead = settings.transaction_span_seconds + settings.alignment_seconds + DISORDER_SECONDS

    assert lead < settings.lateness_seconds(family)
