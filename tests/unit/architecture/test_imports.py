import ast
from pathlib import Path

import pytest

from tests.unit.architecture.imports import forbidden_imports
from tests.unit.architecture.sources import PACKAGES, ROOT, module_name, parsed, python_files


def test_every_file_imports_only_what_the_table_allows() -> None:
    found = {
        str(file): forbidden_imports(module_name(file), parsed(file)) for file in python_files()
    }

    assert {file: names for file, names in found.items() if names} == {}


def test_every_package_is_looked_at() -> None:
    assert {file.parts[0] for file in python_files()} == {
        package for package in PACKAGES if (ROOT / package).is_dir()
    }
    assert Path("tally/frames.py") in python_files()


@pytest.mark.parametrize(
    ("module", "line", "name"),
    [
        ("tally.algebra.merge", "import pyspark", "pyspark"),
        (
            "tally.algebra.merge",
            "from cassandra.cluster import Session",
            "cassandra.cluster.Session",
        ),
        ("tally.frames", "import confluent_kafka", "confluent_kafka"),
        ("tally.money", "import yaml", "yaml"),
        ("tally.money", "from schemas import loader", "schemas.loader"),
        ("schemas.loader", "from tally.errors import TallyError", "tally.errors.TallyError"),
        ("speed_layer.view", "from batch_layer.views import rows", "batch_layer.views.rows"),
        ("batch_layer.views.rows", "import speed_layer.sink.rows", "speed_layer.sink.rows"),
        ("ingest.gateway.app", "from serving.api import app", "serving.api.app"),
        ("serving.merge.reader", "from ingest.contract import wire", "ingest.contract.wire"),
        ("serving.api.app", "import pyspark.sql", "pyspark.sql"),
        ("serving.api.app", "from tally.frames import window_rows", "tally.frames.window_rows"),
        (
            "dags.rebuild_views",
            "from batch_layer.views import rebuild",
            "batch_layer.views.rebuild",
        ),
        ("dags.rebuild_views", "import pyspark", "pyspark"),
        (
            "ops.cli.replay",
            "def run():\n    from ingest.replay import perturbation",
            "ingest.replay.perturbation",
        ),
        ("ops.cli.app", "import_module('serving.api')", "serving.api"),
        ("ops.oracle.sums", "from tally.windows import window_start", "tally.windows.window_start"),
        ("tally.partitions", "import confluent_kafka", "confluent_kafka"),
        ("runtime.writes", "from pyspark.sql import Row", "pyspark.sql.Row"),
        (
            "runtime.processor.loop",
            "from cassandra.cluster import Session",
            "cassandra.cluster.Session",
        ),
        (
            "ingest.sources.sales.contract",
            "from ingest.sources.traffic import contract",
            "ingest.sources.traffic.contract",
        ),
        (
            "ingest.contract.fields",
            "from ingest.sources import registry",
            "ingest.sources.registry",
        ),
        ("ops.oracle.sums", "from ops.audit import report", "ops.audit.report"),
        ("ops.oracle.sums", "from ..audit import report", "ops.audit.report"),
    ],
)
def test_a_planted_violation_is_found(module: str, line: str, name: str) -> None:
    assert forbidden_imports(module, ast.parse(line)) == [name]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tally.frames", "from pyspark.sql import functions"),
        ("runtime.connect", "import confluent_kafka"),
        ("tally.settings", "import pydantic, msgspec, pathlib"),
        ("serving.alerts.evaluator", "from runtime.processor.loop import run"),
        ("ops.oracle.sums", "import duckdb\nfrom schemas import loader"),
        ("dags.rebuild_views", "from airflow.sdk import dag"),
    ],
)
def test_what_the_table_allows_is_not_found(module: str, line: str) -> None:
    assert forbidden_imports(module, ast.parse(line)) == []
