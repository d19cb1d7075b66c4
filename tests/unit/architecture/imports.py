"""Who may import whom: the table, and what breaks it."""

import ast
import sys
from collections.abc import Iterator

from tests.unit.architecture.sources import PACKAGES

# The longest prefix of a module's name decides which of our packages it may import, beside its own
# folder.
OURS: dict[str, tuple[str, ...]] = {
    "tally": (),
    "schemas": (),
    "runtime": ("tally", "schemas"),
    "ingest": ("tally", "schemas", "runtime"),
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
    # Mechanics: a driver, Spark or a web server in the files that are about it, and in no other.
    "runtime": ("msgspec", "structlog", "tenacity", "rich"),
    "runtime.connect": ("cassandra", "confluent_kafka"),
    "runtime.backfill": ("cassandra",),
    "runtime.binding": ("cassandra",),
    "runtime.gaps": ("cassandra",),
    "runtime.writes": ("cassandra",),
    "runtime.stores": ("yaml",),
    "runtime.workers": ("pyspark",),
    "runtime.clock": ("confluent_kafka",),
    "runtime.job": ("confluent_kafka",),
    "runtime.marks": ("confluent_kafka",),
    "runtime.processor": ("confluent_kafka",),
    "runtime.jvm_lock": ("pyspark", "py4j"),
    "runtime.kafka_source": ("pyspark",),
    "runtime.spark": ("pyspark",),
    "runtime.guard": ("starlette",),
    "runtime.protocol": ("uvicorn",),
    "runtime.web": ("starlette", "uvicorn"),
    "schemas": ("yaml",),
    "dags": ("airflow",),
}
# tally.frames and runtime.spark bring PySpark along.
NEVER: dict[str, tuple[str, ...]] = {
    "serving": ("pyspark", "delta", "tally.frames", "runtime.spark", "runtime.kafka_source"),
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
