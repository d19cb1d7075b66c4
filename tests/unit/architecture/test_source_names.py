"""A source is named in its own folder: whatever else the product does, it does for each of them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.loader import builtin_sources
from tests.unit.architecture.counts.sources import parsed, python_files

# Who may name one, and why.
MAY = {
    "runtime/registry/sources.py": "the names of the two for what is about receipts, and for tests",
    "runtime/registry/receipt_lines.py": "lines of receipts, by the rules of their source",
    "speed_layer/receipts.py": "the table of raw receipts holds receipts",
    "speed_layer/receipts_job.py": "the table of raw receipts holds receipts",
    "speed_layer/receipts_refill.py": "the table of raw receipts holds receipts",
    "speed_layer/job.py": "an example in a help text, and in an error",
    "ingest/senders/replay/__main__.py": "the real data are receipts",
    "ingest/senders/twin/sensors.py": "a twin's sensors are those of sources",
    "ops/audit/report.py": "the real data are receipts",
    "ops/local/demo/live.py": "the demo sells",
    "web/api/numbers/explain.py": "the family of a question that names none, as it always was",
    "web/dashboard/shared/labels.py": "a word of a sentence",
}
NAMES = [
    name
    for source in builtin_sources().values()
    for name in (source.name, source.raw_topic, source.path)
]
NAMED = re.compile(rf"(?<![\w/-])({'|'.join(map(re.escape, NAMES))})(?![\w-]|\.\w)")
OUTSIDE = ("tests", "bench")


def product_files() -> Iterator[Path]:
    """Python files of the product outside of the sources' own folders."""
    own = [Path("ingest/sources") / name for name in builtin_sources()]
    for file in python_files():
        if file.parts[0] not in OUTSIDE and not any(file.is_relative_to(folder) for folder in own):
            yield file


def names_a_source(tree: ast.Module) -> bool:
    """Whether code (no docstring, no comment) has the name of a source in a text, or its family."""
    remarks = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    families = {name.upper() for name in builtin_sources()}
    return any(
        (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in remarks
            and NAMED.search(node.value) is not None
        )
        or (isinstance(node, ast.Name) and node.id in families)
        for node in ast.walk(tree)
    )


def test_no_other_file_of_the_product_names_a_source() -> None:
    naming = {str(file) for file in product_files() if names_a_source(parsed(file))}

    assert naming - set(MAY) == set(), "take it from the source's descriptor"


def test_each_exception_is_still_one() -> None:
    naming = {str(file) for file in product_files() if names_a_source(parsed(file))}

    assert set(MAY) - naming == set()


@pytest.mark.parametrize(
    "line",
    [
        'family = FAMILIES["sales"]',
        "rows = speed_windows(session, scope, SALES)",
        'TOPIC = "raw-traffic"',
        'client.post("/v1/events/pos")',
        "f\"SELECT until FROM master_position WHERE family = 'sales'\"",
    ],
)
def test_a_planted_name_is_found(line: str) -> None:
    assert names_a_source(ast.parse(line))


@pytest.mark.parametrize(
    "line", ['"""Sums of sales."""', "wholesales = 1", 'NAME = "wholesales"', 'NAME = "sales-x"']
)
def test_what_is_no_name_of_a_source_is_not_found(line: str) -> None:
    assert not names_a_source(ast.parse(line))
