"""Wrong on purpose: `python -m tests.controls.layers.unrevised_rebuild` rebuilds by the visit rules
of now under the epochs of before, as if a rule could change without a new definition of its
windows."""

import sys
from dataclasses import replace
from unittest.mock import patch

from batch_layer.views import rebuild
from runtime.registry.stores import load_families
from tally.config.settings import Settings
from tally.families.epochs import StoreVisitRules
from tally.families.family import Family
from tests.controls.guard import refuse_outside_tests


class Unrevised(StoreVisitRules):
    """The same rules, and no day on which they have changed."""

    epoch_increases = ()


def load_unrevised_families(settings: Settings) -> dict[str, Family]:
    """As runtime.registry.stores.load_families(). Raises NotATest for settings of no test."""
    refuse_outside_tests(settings)
    return {
        name: replace(family, visit_rules=Unrevised(family.visit_rules.by_store))
        for name, family in load_families(settings).items()
    }


if __name__ == "__main__":
    # Refused before the arguments are read.
    refuse_outside_tests(Settings.load())
    with patch.object(rebuild, "load_families", load_unrevised_families):
        sys.exit(rebuild.main(sys.argv[1:]))
