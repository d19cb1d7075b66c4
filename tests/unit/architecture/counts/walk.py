"""Two walks in numbers: the files that one receipt passes, and those that one alert passes.

`python -m tests.unit.architecture.counts.walk` prints both lists with their steps. A list is
walks/NAME.txt, made by hand from reading; what follows from it is counted from the imports of the
files. Each of its lines is a file, a name that is entered there first, and one of HANDED where the
way leads over a topic, a table or the start of a process.
"""

import ast
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.unit.architecture.counts.imports import imported_modules
from tests.unit.architecture.counts.number import Number, share
from tests.unit.architecture.counts.sources import ROOT, module_name

LISTS = Path(__file__).parent / "walks"
# By these a file is reached without the help of any import.
HANDED = ("record", "row", "process")
# A receipt: from its request to the answer that counts it. It is a good one and not the first of
# its window, and is asked for as revenue of one store and quarter hour, as the first question to a
# fresh process. An alert: from the tick that closes its window to the table of alerts, and to the
# webhook that takes it. It is raised by a threshold over a quarter hour of one store. What puts a
# process together, what it reads once, and what stands around every request is on neither list.
RECEIPT, ALERT = "receipt", "alert"
Read = Callable[[str], str]
# What leads from one file to the next.
Step = Literal["forward", "back", "wired"]


@dataclass(frozen=True)
class Place:
    """One file of a walk by its path, what is entered there, and one of HANDED or nothing."""

    file: str
    entered: str
    how: str = ""


def list_places(name: str) -> list[Place]:
    """The places of walks/NAME.txt, in the order of the walk."""
    lines = (LISTS / f"{name}.txt").read_text("utf-8").splitlines()
    return [Place(*line.split()) for line in lines]


def list_steps(walk: Sequence[Place], read: Read) -> list[Step]:
    """The steps between the places; `read` gives a file's text by its path.

    Forward: the next file is imported by the one just before it, or is reached by one of HANDED.
    Back: an earlier file alone imports it. Wired: none of them does.
    """
    importers = list_importers(walk, read)
    return [
        "forward"
        if place.how in HANDED or walk[number].file in importers[place.file]
        else "back"
        if importers[place.file]
        else "wired"
        for number, place in enumerate(walk[1:])
    ]


def list_importers(walk: Sequence[Place], read: Read) -> dict[str, set[str]]:
    """By file of the walk those before it that import it."""
    files = {module_name(Path(place.file)): place.file for place in walk}
    imports = {
        file: {files[name] for name in imported_modules(module, ast.parse(read(file)), files)}
        for module, file in files.items()
    }
    return {
        place.file: {before.file for before in walk[:number] if place.file in imports[before.file]}
        for number, place in enumerate(walk)
    }


def read_file(file: str) -> str:
    """The file's text."""
    return (ROOT / file).read_text("utf-8")


def defines(text: str, name: str) -> bool:
    """Whether a file with this text has a function, a class, a method or a constant of the name."""
    body = ast.parse(text).body
    *classes, last = name.split(".")
    for wanted in classes:
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == wanted]
        body = found[0].body if found else []
    return any(last == getattr(node, "name", None) or last in _targets(node) for node in body)


def _targets(node: ast.stmt) -> set[str]:
    found = node.targets if isinstance(node, ast.Assign) else []
    return {target.id for target in found if isinstance(target, ast.Name)}


def numbers() -> list[Number]:
    """The lengths of both walks, and how straight that of the receipt is."""
    receipt, alert = list_places(RECEIPT), list_places(ALERT)
    steps = list_steps(receipt, read_file)
    return [
        Number("files of a receipt's walk", len(receipt), most=RECEIPT_FILES),
        Number(
            "steps forward of a receipt's walk, %",
            share(step == "forward" for step in steps),
            least=RECEIPT_FORWARD,
        ),
        Number("files of an alert's walk", len(alert), most=ALERT_FILES),
    ]


# Where the walks are; whoever shortens one lowers its number.
RECEIPT_FILES, RECEIPT_FORWARD, ALERT_FILES = 61, 46.6, 65


def main() -> int:
    """Exit code 0 once both walks are printed, with the numbers of each."""
    for name in (RECEIPT, ALERT):
        walk = list_places(name)
        steps = ["", *list_steps(walk, read_file)]
        for number, (place, step) in enumerate(zip(walk, steps, strict=True), 1):
            print(f"{number:>3} {step:<8} {place.how:<8} {place.file} {place.entered}")
    for number_found in numbers():
        print(f"{number_found.name:<48} {number_found.value:>9,.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
