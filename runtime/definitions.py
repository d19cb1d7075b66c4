"""A job starts only with the computation that its families' epochs stand for.

Rows of one epoch are compared by how much they have seen: two computations under one epoch would
mix, window by window, and nobody could tell.
"""

import json
from collections.abc import Iterable

from runtime.repository import REPOSITORY
from schemas import loader
from tally.definition import definition_digest, sources
from tally.errors import DefinitionChanged
from tally.families import Family

# Beside a source's descriptor: the epoch and the digest of what its rows are computed by.
RECORDED = "definition.json"


def digest_of(family: Family) -> str:
    """The digest of the family as the code is now (hex)."""
    return definition_digest(family, sources(REPOSITORY), tables_of(family))


def tables_of(family: Family) -> list[str]:
    """The CREATE TABLE statements of the family's two tables."""
    own = {family.speed_table, family.batch_table}
    return [one for one in loader.table_statements() if loader.table_name(one) in own]


def refuse_changed(families: Iterable[Family]) -> None:
    """Each family is computed as was recorded for its epoch, or nothing was recorded of it yet.

    Raises DefinitionChanged for the first that is not.
    """
    for family in families:
        source = loader.sources().get(family.name)
        # A source that is being written has no promise to keep yet.
        if source is None or not (file := source.folder / RECORDED).is_file():
            continue
        now = {"epoch": family.epoch, "digest": digest_of(family)}
        if json.loads(file.read_bytes()) != now:
            raise DefinitionChanged(
                f"{family.name}: rows of epoch {family.epoch} would be computed in another way"
                f" than {file} has it; raise the family's epoch if a number can change,"
                f" then write there {json.dumps(now)}"
            )
