import ast
from zlib import crc32

from runtime.registry.sources import FAMILIES
from schemas.loader import FOLDER, dead_letter_reasons, master_schema, topics
from tally.events.identity import partition_number
from tests.unit.architecture.counts.sources import parsed, python_files

CONTRACT_REASONS = (
    "not_json not_utf8 too_deep too_large missing_field wrong_type out_of_range"
    " timestamp_without_zone timestamp_not_rfc3339 future_time clock_reset"
    " unknown_schema_version duplicate_field interval_crosses_window unknown_sensor not_xml"
    " total_mismatch key_destroyed wrong_key conflict unreadable reading_failed"
    " letters_left_out circuit_open"
)
SPARK_TYPES = {"string", "date", "timestamp", "int", "bigint"}


def test_every_topic_has_a_known_kind_and_a_meaning() -> None:
    kinds = {"raw", "canonical", "durable", "letters", "compacted", "chronicle", "alerts", "clock"}

    assert {told["kind"] for told in topics().values()} == kinds
    assert [name for name, told in topics().items() if not told["meaning"]] == []


def test_every_family_has_a_canonical_topic_made_from_a_raw_one() -> None:
    made_from = {name: told["raw"] for name, told in topics().items() if "raw" in told}

    assert made_from.keys() == {family.topic for family in FAMILIES.values()}
    assert {topics()[raw]["kind"] for raw in made_from.values()} == {"raw"}
    assert {topics()[name]["kind"] for name in made_from} == {"canonical"}


def test_the_partitioner_that_topics_yaml_names_is_the_one_in_use() -> None:
    assert "\npartitioner: crc32\n" in (FOLDER / "topics.yaml").read_text("utf-8")
    assert [partition_number(store, 4) for store in ("1", "367")] == [
        crc32(store.encode()) % 4 for store in ("1", "367")
    ]


def test_dead_letter_reasons_are_those_of_the_contract() -> None:
    assert dead_letter_reasons() == tuple(CONTRACT_REASONS.split())


def test_no_other_reason_is_given_anywhere_in_the_code() -> None:
    sources = (parsed(file) for file in python_files() if file.parts[0] != "tests")
    calls = (
        node
        for tree in sources
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args
    )
    given = {
        ast.literal_eval(call.args[0])
        for call in calls
        if _rejects(call) and isinstance(call.args[0], ast.Constant)
    }

    assert given and given <= set(dead_letter_reasons())


def test_master_columns_have_a_spark_type_a_unit_and_a_meaning() -> None:
    columns = master_schema()["columns"]

    assert {column["type"] for column in columns} <= SPARK_TYPES
    assert [
        column
        for column in columns
        if set(column) != {"name", "type", "unit", "meaning"} or not column["meaning"]
    ] == []


def test_the_master_is_partitioned_by_columns_that_it_has() -> None:
    assert set(master_schema()["partitioned_by"]) <= {
        column["name"] for column in master_schema()["columns"]
    }


def _rejects(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "RejectedEvent"
