import ast

import pytest

from tests.unit.architecture.sources import module_name, parsed, python_files
from tests.unit.architecture.unimported import NAMES, packages_named

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
        "FILE = Path(__file__).parents[1] / 'serving' / 'style.css'",
        "FILE = REPOSITORY / 'serving/api/app.py'",
        "FILE = REPOSITORY.joinpath('serving/api/app.py')",
        "FILES = ('serving/api/app.py',)",
        "text = f'serving/api/{name}.py'",
        "become('serving.api.openapi', context)",
    ],
)
def test_a_planted_arrow_is_found(line: str) -> None:
    assert packages_named("tally.money", ast.parse(line), MODULES) == {"serving"}


@pytest.mark.parametrize(
    "line",
    ["FILE = REPOSITORY / 'tally/windows.py'", "name = 'serving'", "text = 'serving.csv, or not'"],
)
def test_what_leads_nowhere_else_is_no_arrow(line: str) -> None:
    assert packages_named("tally.money", ast.parse(line), MODULES) == set()
