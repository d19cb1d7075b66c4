"""The file of retentions names everything that is stored, and each setting that it names exists."""

import re
from typing import Any

import pytest

from runtime.process.files import REPOSITORY
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.config.settings import Settings
from tests.unit.schemas.cql import tables

ENTRIES = loader.retention()
DAYS = {"while it is needed", "for good", "an hour", "see tables", "see topics"}


def named_tables() -> dict[str, Any]:
    return {
        name.replace("{family}", family): entry
        for name, entry in ENTRIES["tables"].items()
        for family in FAMILIES
    }


def test_every_table_has_a_retention_and_no_other_has_one() -> None:
    assert named_tables().keys() == tables().keys()


def test_every_kind_of_topic_has_a_retention_and_no_other_has_one() -> None:
    assert {*ENTRIES["topics"]} == {topic["kind"] for topic in loader.topics().values()}


@pytest.mark.parametrize("place", ENTRIES)
def test_each_says_for_how_long_and_what_removes_it(place: str) -> None:
    for name, entry in ENTRIES[place].items():
        keeps = entry["keeps"]
        is_number = isinstance(keeps, int) or keeps in Settings.model_fields
        assert is_number or keeps in DAYS or name == "logs", name
        assert is_number == ("since" in entry) or keeps == "an hour", name
        assert entry["by"] and set(entry) <= {"keeps", "since", "by"}, name


def test_each_table_that_a_sweep_removes_from_is_in_a_sweep() -> None:
    files = (REPOSITORY / "batch_layer" / "views").glob("sweep*.py")
    texts = [file.read_text("utf-8") for file in files]
    swept = {name for name, entry in ENTRIES["tables"].items() if "sweep" in entry["by"]}
    found = {name for name in swept if re.search(rf"\b{name}\b", "".join(texts))}

    assert swept - found == {"batch_{family}_15min"} and "family.batch_table" in "".join(texts)
