import ast
from pathlib import Path

import pytest

from tests.unit.architecture.counts.import_rules import OURS
from tests.unit.architecture.counts.imports import bring_spark, bringing, forbidden_imports
from tests.unit.architecture.counts.sources import PACKAGES, ROOT, module_name, parsed, python_files


def test_every_file_imports_only_what_the_table_allows() -> None:
    found = {
        str(file): forbidden_imports(module_name(file), parsed(file)) for file in python_files()
    }

    assert {file: names for file, names in found.items() if names} == {}


def test_every_package_is_looked_at() -> None:
    assert {file.parts[0] for file in python_files()} == {
        package for package in PACKAGES if (ROOT / package).is_dir()
    }
    assert Path("tally/spark/frames.py") in python_files()


@pytest.mark.parametrize(
    ("module", "line", "name"),
    [
        ("tally.algebra.merge", "import pyspark", "pyspark"),
        (
            "tally.algebra.merge",
            "from cassandra.cluster import Session",
            "cassandra.cluster.Session",
        ),
        ("tally.spark.frames", "import confluent_kafka", "confluent_kafka"),
        ("tally.events.money", "import yaml", "yaml"),
        ("tally.events.money", "from schemas import loader", "schemas.loader"),
        ("schemas.loader", "from tally.errors import TallyError", "tally.errors.TallyError"),
        (
            "speed_layer.view",
            "from batch_layer.views.publish import written_rows",
            "batch_layer.views.publish.written_rows",
        ),
        (
            "batch_layer.views.publish.written_rows",
            "import speed_layer.state.sink",
            "speed_layer.state.sink",
        ),
        ("ingest.gateway.app", "from web.api import app", "web.api.app"),
        ("serving.merge.reader", "from ingest.contract import wire", "ingest.contract.wire"),
        ("web.api.app", "import pyspark.sql", "pyspark.sql"),
        (
            "web.api.app",
            "from tally.spark.frames import window_rows",
            "tally.spark.frames.window_rows",
        ),
        (
            "dags.rebuild_views",
            "from batch_layer.views import rebuild",
            "batch_layer.views.rebuild",
        ),
        ("dags.rebuild_views", "import pyspark", "pyspark"),
        (
            "ops.cli.jobs",
            "def run():\n    from ingest.senders.replay import perturbation",
            "ingest.senders.replay.perturbation",
        ),
        ("ops.cli.app", "import_module('web.api')", "web.api"),
        (
            "ops.oracle.sums",
            "from tally.time.windows import window_start",
            "tally.time.windows.window_start",
        ),
        ("tally.events.identity", "import confluent_kafka", "confluent_kafka"),
        ("runtime.cassandra.writes", "from pyspark.sql import Row", "pyspark.sql.Row"),
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
        ("serving.questions.question", "from fastapi import Query", "fastapi.Query"),
        ("serving.questions.question", "from pydantic import BaseModel", "pydantic.BaseModel"),
        ("serving.answer", "from web.api.requests import shared", "web.api.requests.shared"),
        ("serving.merge.reading", "from serving.cells import cells", "serving.cells.cells"),
        ("serving.merge.reading", "import msgspec", "msgspec"),
        ("web.api.app", "from inventory.sync import engine", "inventory.sync.engine"),
        ("web.api.app", "from web.dashboard import page", "web.dashboard.page"),
        ("web.client", "from web.api import app", "web.api.app"),
        ("web.api.app", "from cassandra.cluster import Session", "cassandra.cluster.Session"),
        ("web.dashboard.page", "from web.api.requests import shared", "web.api.requests.shared"),
        ("serving.merge.reading", "from alerting.alert import ids", "alerting.alert.ids"),
        ("web.dashboard.page", "import httpx", "httpx"),
        ("serving.merge.reading", "from runtime.spark import session", "runtime.spark.session"),
        ("web.__main__", "import runtime.spark.workers", "runtime.spark.workers"),
        ("ops.audit.ledgers", "from ops.local.stack import control", "ops.local.stack.control"),
        ("ops.audit.ledgers", "from ops import lag", "ops.lag"),
        ("ops.lag", "from ops.local.processes import probes", "ops.local.processes.probes"),
        ("ops.gaps", "from ops.cli import decisions", "ops.cli.decisions"),
        ("ops.local.services.nodes", "from ops.cli import app", "ops.cli.app"),
        ("ops.local.demo.run", "from ops.audit import report", "ops.audit.report"),
        ("ops.docs.api", "from web.api import app", "web.api.app"),
        ("ops.docs.api", "from ops.local import stack", "ops.local.stack"),
        ("ops.cli.app", "from ops.docs import api", "ops.docs.api"),
    ],
)
def test_a_planted_violation_is_found(module: str, line: str, name: str) -> None:
    assert forbidden_imports(module, ast.parse(line)) == [name]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tally.spark.frames", "from pyspark.sql import functions"),
        ("runtime.connect", "import confluent_kafka"),
        ("tally.config.settings", "import pydantic, msgspec, pathlib"),
        ("alerting.evaluate", "from runtime.processor.loop import run"),
        ("ops.oracle.sums", "import duckdb\nfrom schemas import loader"),
        ("ops.cli.app", "from ops.local.stack import control"),
        ("ops.local.demo.run", "from ops.local.stack import control"),
        ("ops.local.setup.jvm_classes", "import pyspark"),
        ("web.api.app", "import fastapi, pydantic\nfrom serving import answer"),
        ("web.__main__", "from serving.storage import views"),
        ("dags.rebuild_views", "from airflow.sdk import dag"),
    ],
)
def test_what_the_table_allows_is_not_found(module: str, line: str) -> None:
    assert forbidden_imports(module, ast.parse(line)) == []


@pytest.mark.parametrize("package", ["tally", "serving", "alerting", "inventory", "ops"])
def test_every_folder_of_a_package_whose_folders_differ_has_a_row(package: str) -> None:
    """Without one its own package would be its row, and all of that open to it."""
    inside = {f"{package}.{file.parts[1].removesuffix('.py')}" for file in files_of(package)}

    alone = {"tally.errors"} if package == "tally" else set()
    assert inside - {*OURS} == {f"{package}.__init__"} | alone


def files_of(package: str) -> list[Path]:
    return [file for file in python_files() if file.parts[0] == package]


def test_what_brings_spark_is_what_comes_to_it_however_far() -> None:
    graph = {"near": {"pyspark"}, "far": {"near"}, "farther": {"far", "json"}, "apart": {"json"}}

    assert bringing(graph, ("pyspark",)) == {"near", "far", "farther"}


def test_the_modules_that_bring_spark_are_known_by_their_imports() -> None:
    assert {
        "tally.spark.frames",
        "runtime.spark.session",
        "runtime.spark.workers",
    } <= bring_spark()
    assert (
        not {"tally.families.family", "runtime.spark.configuration", "web.__main__"} & bring_spark()
    )
