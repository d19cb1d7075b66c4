import ast
from pathlib import Path

import pytest

from tests.unit.architecture.imports import OURS, bring_spark, bringing, forbidden_imports
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
        ("ops.oracle.sums", "from schemas import generated", "schemas.generated"),
        ("ops.oracle.sums", "import pyarrow", "pyarrow"),
        ("ops.oracle.sums", "from ops.audit import report", "ops.audit.report"),
        ("ops.oracle.sums", "from ..audit import report", "ops.audit.report"),
        ("serving.query.question", "from fastapi import Query", "fastapi.Query"),
        ("serving.query.question", "from pydantic import BaseModel", "pydantic.BaseModel"),
        ("serving.query.answer", "from serving.api import cursor", "serving.api.cursor"),
        ("serving.merge.reading", "from serving.query import cells", "serving.query.cells"),
        ("serving.merge.reading", "import msgspec", "msgspec"),
        ("serving.api.app", "from serving.merge import reading", "serving.merge.reading"),
        ("serving.api.app", "from serving.dashboard import page", "serving.dashboard.page"),
        ("serving.api.app", "from cassandra.cluster import Session", "cassandra.cluster.Session"),
        ("serving.dashboard.page", "from serving.api import answers", "serving.api.answers"),
        ("serving.dashboard.page", "from serving.merge import served", "serving.merge.served"),
        ("serving.dashboard.page", "import httpx", "httpx"),
        ("serving.merge.reading", "from runtime import jvm_lock", "runtime.jvm_lock"),
        ("serving.__main__", "import runtime.workers", "runtime.workers"),
        ("ops.audit.cut", "from ops.local.stack import control", "ops.local.stack.control"),
        ("ops.audit.cut", "from ops import lag", "ops.lag"),
        ("ops.lag", "from ops.local.stack import probes", "ops.local.stack.probes"),
        ("ops.gaps", "from ops.cli import gaps", "ops.cli.gaps"),
        ("ops.local.stack.kafka", "from ops.cli import app", "ops.cli.app"),
        ("ops.local.demo.run", "from ops.audit import report", "ops.audit.report"),
        ("ops.docs.api", "from serving.api import app", "serving.api.app"),
        ("ops.docs.api", "from ops.local import stack", "ops.local.stack"),
        ("ops.cli.app", "from ops.docs import pages", "ops.docs.pages"),
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
        ("ops.cli.app", "from ops.local.stack import control"),
        ("ops.local.demo.run", "from ops.local.stack import control"),
        ("ops.local.stack.sample_session", "import pyspark"),
        ("serving.api.app", "import fastapi, pydantic\nfrom serving.query import answer"),
        ("serving.__main__", "from serving.merge import cassandra_views"),
        ("dags.rebuild_views", "from airflow.sdk import dag"),
    ],
)
def test_what_the_table_allows_is_not_found(module: str, line: str) -> None:
    assert forbidden_imports(module, ast.parse(line)) == []


@pytest.mark.parametrize("package", ["serving", "ops"])
def test_every_folder_of_a_package_whose_folders_differ_has_a_row(package: str) -> None:
    """Without one its own package would be its row, and all of that open to it."""
    inside = {f"{package}.{file.parts[1].removesuffix('.py')}" for file in files_of(package)}

    assert inside - {*OURS} == {f"{package}.__init__"} | (
        {"serving.__main__"} if package == "serving" else set()
    )


def files_of(package: str) -> list[Path]:
    return [file for file in python_files() if file.parts[0] == package]


def test_what_brings_spark_is_what_comes_to_it_however_far() -> None:
    graph = {"near": {"pyspark"}, "far": {"near"}, "farther": {"far", "json"}, "apart": {"json"}}

    assert bringing(graph, ("pyspark",)) == {"near", "far", "farther"}


def test_the_modules_that_bring_spark_are_known_by_their_imports() -> None:
    assert {"tally.frames", "runtime.jvm_lock", "runtime.workers"} <= bring_spark()
    assert not {"tally.families", "runtime.sparkconf", "serving.__main__"} & bring_spark()
