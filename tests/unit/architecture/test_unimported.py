import ast

import pytest

from tests.unit.architecture.counts.sources import module_name, parsed, python_files
from tests.unit.architecture.counts.unimported import NAMES, packages_named

MODULES = {module_name(file) for file in python_files()}
PRODUCT = [file for file in python_files() if file.parts[0] not in ("tests", "bench")]


def test_every_package_that_is_reached_without_an_import_is_one_of_the_table() -> None:
    found = {
        module_name(file): packages_named(module_name(file), parsed(file), MODULES)
        for file in PRODUCT
    }

    assert {module: named for module, named in found.items() if named} == {
        module: {*reasons} for module, reasons in NAMES.items()
    }


@pytest.mark.parametrize(
    "line",
    [
        "FILE = Path(__file__).parents[1] / 'web' / 'style.css'",
        "FILE = REPOSITORY / 'web/api/app.py'",
        "FILE = REPOSITORY.joinpath('web/api/app.py')",
        "FILES = ('web/api/app.py',)",
        "text = f'web/api/{name}.py'",
        "become('web.api.openapi', context)",
    ],
)
def test_a_planted_arrow_is_found(line: str) -> None:
    assert packages_named("tally.events.money", ast.parse(line), MODULES) == {"web"}


@pytest.mark.parametrize(
    "line",
    [
        "FILE = REPOSITORY / 'tally/time/windows.py'",
        "name = 'serving'",
        "text = 'serving.csv, or not'",
    ],
)
def test_what_leads_nowhere_else_is_no_arrow(line: str) -> None:
    assert packages_named("tally.events.money", ast.parse(line), MODULES) == set()
