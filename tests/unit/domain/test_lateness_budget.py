"""What the normaliser may take out of order leaves honest records time to be seen
(docs/adr/003-sharp-lateness.md, point 3)."""

import pytest

from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.families.family import Family

DISORDER_SECONDS = 300  # within a partition, as the replay's `--disorder 5m` makes it


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_what_alignment_lets_one_partition_lead_makes_no_record_of_another_late(
    family: Family,
) -> None:
    settings = Settings()

    lead = settings.alignment_seconds + DISORDER_SECONDS

    assert lead < settings.lateness_seconds(family)
