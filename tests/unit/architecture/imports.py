"""Who may import whom: the table, and what breaks it."""

import ast
import sys
from collections.abc import Container, Iterator

from tests.unit.architecture.sources import PACKAGES, ROOT

# The longest prefix of a module's name decides which of our packages it may import, beside its own
# folder.
OURS: dict[str, tuple[str, ...]] = {
    "tally": (),
    "schemas": (),
    "runtime": ("tally", "schemas"),
    "ingest": ("tally", "schemas", "runtime"),
    "ingest.contract": ("tally", "runtime"),
    "ingest.sources": ("tally", "schemas", "ingest.contract"),
    # A source knows no other one, and nothing of who calls it.
    **{
        f"ingest.sources.{file.parent.name}": ("tally", "ingest.contract")
        for file in (ROOT / "ingest" / "sources").glob("*/source.yaml")
    },
    "speed_layer": ("tally", "schemas", "runtime"),
    "batch_layer": ("tally", "schemas", "runtime"),
    "serving": ("tally", "schemas", "runtime"),
    "dags": (),
    "ops": ("tally", "schemas", "runtime"),
    "ops.oracle": ("schemas",),  # the independent computation shares no code with the pipeline
    "bench": PACKAGES,
    "tests": PACKAGES,
}
# Folders whose third-party imports are settled too; the others take what pyproject.toml lists.
OTHERS: dict[str, tuple[str, ...]] = {
    "tally": ("msgspec", "pydantic"),
    "tally.frames": ("pyspark",),
    "tally.part_columns": ("pyspark",),
    # Mechanics: a driver, Spark or a web server in the files that are about it, and in no other.
    "runtime": ("msgspec", "structlog", "tenacity", "rich"),
    "runtime.arrow": ("pyarrow",),
    "runtime.connect": ("cassandra", "confluent_kafka"),
    "runtime.backfill": ("cassandra",),
    "runtime.day_spans": ("cassandra",),
    "runtime.binding": ("cassandra",),
    "runtime.gaps": ("cassandra",),
    "runtime.writes": ("cassandra",),
    "runtime.stores": ("yaml",),
    "runtime.workers": ("pyspark",),
    "runtime.clock": ("confluent_kafka",),
    "runtime.job": ("confluent_kafka",),
    "runtime.marks": ("confluent_kafka",),
    "runtime.problem": ("starlette",),
    "runtime.processor": ("confluent_kafka",),
    "runtime.producer": ("confluent_kafka",),
    "runtime.reading": ("confluent_kafka",),
    "runtime.topics": ("confluent_kafka",),
    "runtime.jvm_lock": ("pyspark", "py4j"),
    "runtime.kafka_source": ("pyspark",),
    "runtime.spark": ("pyspark",),
    "runtime.guard": ("starlette",),
    "runtime.openapi": ("fastapi",),
    "runtime.protocol": ("uvicorn",),
    "runtime.web": ("starlette", "uvicorn"),
    "schemas": ("yaml", "msgspec"),
    "dags": ("airflow",),
}
# These bring PySpark along.
BRING_SPARK = ("tally.frames", "tally.part_columns", "runtime.spark", "runtime.kafka_source")
NEVER: dict[str, tuple[str, ...]] = {
    "serving": ("pyspark", "delta", *BRING_SPARK),
    "dags": ("pyspark", "delta"),
}


def forbidden_imports(module: str, tree: ast.Module) -> list[str]:
    """Names that the module imports and may not, in the order of the file."""
    return [name for name in imported(module, tree) if not _may_import(module, name)]


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """Every imported name in full, imports inside functions and `import_module("literal")` too."""
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


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _may_import(module: str, name: str) -> bool:
    top = name.split(".")[0]
    if top in sys.stdlib_module_names:
        return True
    folder = _longest(module, OURS)
    if any(_lies_in(name, refused) for refused in NEVER.get(folder, ())):
        return False
    if top in PACKAGES:
        return any(_lies_in(name, allowed) for allowed in (folder, *OURS[folder]))
    rules = [prefix for prefix in OTHERS if _lies_in(module, prefix)]
    return not rules or any(top in OTHERS[prefix] for prefix in rules)


def _longest(module: str, table: dict[str, tuple[str, ...]]) -> str:
    return max((prefix for prefix in table if _lies_in(module, prefix)), key=len)


def _lies_in(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")
