"""Who may import whom: the table, and what breaks it."""

import ast
import sys
from collections.abc import Container, Iterator, Mapping
from functools import cache

from tests.unit.architecture.sources import PACKAGES, ROOT, module_name, parsed, python_files

# What every layer stands on.
BELOW = ("tally", "schemas", "runtime")
# The longest prefix of a module's name decides which of our packages it may import, beside its own
# folder.
OURS: dict[str, tuple[str, ...]] = {
    "tally": (),
    "schemas": (),
    "runtime": ("tally", "schemas"),
    "ingest": BELOW,
    "ingest.contract": BELOW,
    "ingest.sources": ("tally", "schemas", "ingest.contract"),
    # A source knows no other one, and nothing of who calls it.
    **{
        f"ingest.sources.{file.parent.name}": ("tally", "ingest.contract")
        for file in (ROOT / "ingest" / "sources").glob("*/source.yaml")
    },
    "speed_layer": BELOW,
    "batch_layer": BELOW,
    # Here only what puts the process together: each folder of it has a row of its own.
    "serving": BELOW,
    "serving.merge": BELOW,
    "serving.query": (*BELOW, "serving.merge"),
    # What is asked is asked of serving.query; of the merge they know what they hand it.
    "serving.alerts.ticks": (*BELOW, "serving.merge.connection"),
    "serving.alerts.evaluator": (*BELOW, "serving.alerts.ticks", "serving.merge", "serving.query"),
    # Which stores there are is read there, where no file says it.
    "serving.alerts.dispatch": (*BELOW, "serving.merge"),
    # It judges as the evaluator does, and never speaks to its topics.
    "serving.alerts.simulation": (
        *BELOW,
        "serving.alerts.evaluator",
        "serving.merge.views",
        "serving.query",
    ),
    # It looks as the evaluator does, at the rules that simulations know.
    "serving.alerts.health": (
        *BELOW,
        "serving.alerts.evaluator",
        "serving.alerts.gauges",
        "serving.alerts.simulation",
        "serving.merge.views",
        "serving.query",
    ),
    "serving.stock": BELOW,
    # Which topics a stock is made of, and what is sold of an article, says the catalogue.
    "serving.stock.movements": (*BELOW, "serving.query", "serving.merge"),
    "serving.stock.adapter": BELOW,
    "serving.reports": (*BELOW, "serving.query", "serving.merge.offload"),
    # What is told of the numbers stands on them, as a question does.
    "serving.alerts": (*BELOW, "serving.query", "serving.merge.views"),
    "serving.api": (
        *BELOW,
        "serving.alerts",
        "serving.query",
        "serving.reports",
        "serving.merge.views",
    ),
    "serving.dashboard": (
        *BELOW,
        "serving.alerts",
        "serving.query",
        "serving.reports",
        "serving.merge.letters",
        "serving.merge.views",
        "serving.merge.offload",
    ),
    "dags": (),
    "ops": (),
    "ops.channels": BELOW,
    "ops.conflicts": BELOW,
    "ops.dead_letters": BELOW,
    "ops.gaps": BELOW,
    "ops.lag": BELOW,
    "ops.provision": (*BELOW, "ops.rekeying", "ops.topic_configuration"),
    "ops.moved_days": BELOW,
    "ops.rekeying": BELOW,
    "ops.rules": BELOW,
    "ops.stores": BELOW,
    "ops.topic_configuration": BELOW,
    # How a topic is configured is part of what is told of it.
    "ops.docs": (*BELOW, "ops.topic_configuration"),
    # What is of one machine is known to the verbs alone: all else works on a server too.
    "ops.local": (
        *BELOW,
        "ops.conflicts",
        "ops.lag",
        "ops.provision",
        "ops.topic_configuration",
    ),
    "ops.cli": (
        *BELOW,
        "ops.audit",
        "ops.channels",
        "ops.conflicts",
        "ops.dead_letters",
        "ops.gaps",
        "ops.local",
        "ops.moved_days",
        "ops.oracle",
        "ops.rules",
        "ops.stores",
    ),
    "ops.audit": (*BELOW, "ops.conflicts", "ops.dead_letters", "ops.oracle"),
    # The independent computation shares no code with the pipeline: of schemas it has the files.
    "ops.oracle": ("schemas.loader",),
    "bench": PACKAGES,
    "tests": PACKAGES,
}
# Folders whose third-party imports are settled too; the others take what pyproject.toml lists.
OTHERS: dict[str, tuple[str, ...]] = {
    "tally": ("msgspec", "pydantic"),
    "tally.calendar.holidays": ("holidays",),
    "tally.frames": ("pyspark",),
    "tally.part_columns": ("pyspark",),
    "tally.record_columns": ("pyspark",),
    # Mechanics: a driver, Spark or a web server in the files that are about it, and in no other.
    "runtime": ("msgspec", "structlog", "tenacity", "rich"),
    "runtime.arrow": ("pyarrow",),
    "runtime.connect": ("cassandra", "confluent_kafka"),
    "runtime.backfill": ("cassandra",),
    "runtime.day_spans": ("cassandra",),
    "runtime.dead_letter": ("confluent_kafka",),
    "runtime.binding": ("cassandra",),
    "runtime.gaps": ("cassandra",),
    "runtime.reads": ("cassandra",),
    "runtime.writes": ("cassandra",),
    "runtime.strict_yaml": ("yaml",),
    "runtime.workers": ("pyspark",),
    "runtime.clock": ("confluent_kafka",),
    "runtime.job": ("confluent_kafka",),
    "runtime.marks": ("confluent_kafka",),
    "runtime.problem": ("starlette",),
    "runtime.processor": ("confluent_kafka",),
    "runtime.producer": ("confluent_kafka",),
    "runtime.reading": ("confluent_kafka",),
    "runtime.outbound": ("httpx", "structlog"),
    "runtime.rules.topic": ("confluent_kafka",),
    "runtime.tail": ("confluent_kafka",),
    "runtime.topics": ("confluent_kafka",),
    "runtime.jvm_lock": ("pyspark", "py4j"),
    "runtime.kafka_source": ("pyspark",),
    "runtime.spark": ("pyspark",),
    "runtime.guard": ("starlette",),
    "runtime.openapi": ("fastapi",),
    "runtime.protocol": ("uvicorn",),
    "runtime.web": ("starlette", "uvicorn"),
    "schemas": ("yaml", "msgspec"),
    # HTTP is of the API, the page's server of the dashboard: a question is one without both.
    "serving.query": (),
    "serving.merge": ("cassandra",),
    "serving.alerts": ("msgspec", "structlog"),
    # What the brokers answer to it is an error of theirs.
    "serving.alerts.evaluator": ("confluent_kafka",),
    "serving.alerts.simulation": ("confluent_kafka", "msgspec"),
    "serving.alerts.handling": ("confluent_kafka",),
    "serving.alerts.watch": ("confluent_kafka",),
    "serving.alerts.ticks": ("confluent_kafka", "structlog"),
    "serving.alerts.dispatch": ("confluent_kafka", "msgspec", "structlog"),
    "serving.stock": ("msgspec", "structlog"),
    "serving.api": ("fastapi", "starlette", "pydantic", "msgspec", "structlog"),
    "serving.dashboard": ("nicegui", "fastapi", "starlette", "structlog", "msgspec"),
    "ops.oracle": ("duckdb",),
    "dags": ("airflow",),
}
SPARK = ("pyspark", "delta")
# Where Spark is not imported, and nothing that brings it along, however far.
WITHOUT_SPARK = ("serving", "dags")
Graph = Mapping[str, set[str]]


def forbidden_imports(module: str, tree: ast.Module) -> list[str]:
    """Names that the module imports and may not, in the order of the file."""
    return [name for name in imported(module, tree) if not may_import(module, name)]


@cache
def imported(module: str, tree: ast.Module) -> tuple[str, ...]:
    """Every imported name in full, imports inside functions and `import_module("literal")` too."""
    return tuple(_imported(module, tree))


def _imported(module: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = [*above, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and _called(node) in ("import_module", "__import__")
            and node.args
        ):
            yield from (
                str(value.value) for value in node.args[:1] if isinstance(value, ast.Constant)
            )


def imported_modules(module: str, tree: ast.Module, modules: Container[str]) -> set[str]:
    """Those of `modules` that the module imports, by name: whole, or something of theirs."""
    names = imported(module, tree)
    found = {name if name in modules else name.rpartition(".")[0] for name in names}
    return {name for name in found if name in modules}


def bringing(graph: Graph, wanted: Container[str]) -> frozenset[str]:
    """The modules of a graph of imports that come to one of `wanted`, by whatever way."""
    found: set[str] = set()
    more = {module for module, to in graph.items() if any(name in wanted for name in to)}
    while more:
        found |= more
        more = {module for module, to in graph.items() if to & more} - found
    return frozenset(found)


@cache
def bring_spark() -> frozenset[str]:
    """Our modules that bring PySpark along, by what they import today."""
    files = {module_name(file): parsed(file) for file in python_files()}
    return bringing(
        {
            module: imported_modules(module, tree, files)
            | {name.split(".")[0] for name in imported(module, tree)}
            for module, tree in files.items()
        },
        SPARK,
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def may_import(module: str, name: str) -> bool:
    """Whether the table lets the module import what has this full name."""
    top = name.split(".")[0]
    if top in sys.stdlib_module_names:
        return True
    folder = _longest(module, OURS)
    if any(_lies_in(module, layer) for layer in WITHOUT_SPARK) and _brings_spark(name):
        return False
    if top in PACKAGES:
        return any(_lies_in(name, allowed) for allowed in (folder, *OURS[folder]))
    rules = [prefix for prefix in OTHERS if _lies_in(module, prefix)]
    return not rules or any(top in OTHERS[prefix] for prefix in rules)


def _brings_spark(name: str) -> bool:
    return name.split(".")[0] in SPARK or any(_lies_in(name, one) for one in bring_spark())


def _longest(module: str, table: dict[str, tuple[str, ...]]) -> str:
    return max((prefix for prefix in table if _lies_in(module, prefix)), key=len)


def _lies_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")
