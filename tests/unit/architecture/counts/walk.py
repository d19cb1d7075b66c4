"""One receipt's walk in numbers: `python -m tests.unit.architecture.counts.walk` counts the table
of docs/walk.md, with `--at REF` the list of files that walks/REF.txt keeps of an older commit.

Both are counted by one rule, from the imports of the files as they are, or were at that commit.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.unit.architecture.counts.imports import imported_modules
from tests.unit.architecture.counts.sources import ROOT, module_name

PAGE = ROOT / "docs" / "walk.md"
LISTS = Path(__file__).parent / "walks"
# By these a file is reached without the help of any import.
HANDED = ("record", "row", "process")
# Said of the file behind which the row lies in Cassandra.
WRITTEN = "**written**"
_ROW = re.compile(
    r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \| (.+) \| (call|wired|record|row|process) \|$",
    re.MULTILINE,
)
Read = Callable[[str], str]


@dataclass(frozen=True)
class Place:
    """One file of a walk: its path from the root, and how the receipt comes there.

    `how` is empty where a list leaves it to the imports; `entered` is a name of the file;
    `is_written` says that behind it the row lies in Cassandra.
    """

    file: str
    how: str = ""
    entered: str = ""
    is_written: bool = False


@dataclass(frozen=True)
class Counts:
    """What is counted of a walk; a step leads from one file to the next."""

    files: int
    until_written: int
    until_asked: int
    forward: int
    back: int
    wired: int

    @property
    def steps(self) -> int:
        """Steps of all three sorts."""
        return self.forward + self.back + self.wired

    @property
    def text(self) -> str:
        """The counts as the page says them."""
        share = 100 * self.forward / self.steps
        return (
            f"{self.files} files, {self.until_written} of them until the row lies in Cassandra and"
            f" {self.until_asked} before anybody asks;"
            f" {self.forward} of {self.steps} steps go forward ({share:.0f} %),"
            f" {self.back} back, {self.wired} are wired"
        )


def places_of(page: str) -> list[Place]:
    """The walk of a page, in the order of its table. Raises ValueError for a wrong number."""
    rows = _ROW.findall(page)
    numbers = [int(number) for number, *_ in rows]
    if numbers != [*range(1, len(rows) + 1)]:
        raise ValueError(f"the rows are numbered {numbers}")
    return [
        Place(file, how, entered, is_written=WRITTEN in what)
        for _, file, entered, what, how in rows
    ]


def places_at(ref: str) -> list[Place]:
    """The walk that walks/REF.txt keeps: a path a line, behind it one of HANDED, WRITTEN or
    nothing.
    """
    lines = [line.split() for line in (LISTS / f"{ref}.txt").read_text("utf-8").splitlines()]
    return [
        Place(file, "".join(said & {*HANDED}), is_written=WRITTEN in said)
        for file, said in ((line[0], {*line[1:]}) for line in lines)
    ]


def counted(walk: Sequence[Place], read: Read) -> Counts:
    """The counts of a walk; `read` gives a file's text by its path.

    Raises StopIteration where no place is written, or none is reached by a row.
    """
    steps = sorts(walk, read)
    return Counts(
        len(walk),
        next(number for number, place in enumerate(walk, 1) if place.is_written),
        next(number for number, place in enumerate(walk) if place.how == "row"),
        *(steps.count(sort) for sort in ("forward", "back", "wired")),
    )


def sorts(walk: Sequence[Place], read: Read) -> list[str]:
    """By step what it is: forward, back or wired.

    Forward: the next file is imported by the one just before it, or is one of HANDED. Back: an
    earlier file alone imports it. Wired: none of them does.
    """
    importers = importers_in(walk, read)
    return [
        "forward"
        if place.how in HANDED or walk[number - 1].file in importers[place.file]
        else "back"
        if importers[place.file]
        else "wired"
        for number, place in enumerate(walk)
        if number
    ]


def importers_in(walk: Sequence[Place], read: Read) -> dict[str, set[str]]:
    """By file of the walk those before it that import it."""
    files = {module_name(Path(place.file)): place.file for place in walk}
    imports = {
        file: {files[name] for name in imported_modules(module, ast.parse(read(file)), files)}
        for module, file in files.items()
    }
    return {
        place.file: {one.file for one in walk[:number] if place.file in imports[one.file]}
        for number, place in enumerate(walk)
    }


def text_now(file: str) -> str:
    """The file's text as it is."""
    return (ROOT / file).read_text("utf-8")


def text_at(ref: str) -> Read:
    """What reads files of a commit. It raises CalledProcessError where that is not in the clone."""

    def read(file: str) -> str:
        shown = ["git", "show", f"{ref}:{file}"]
        return subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    return read


def main() -> int:
    """Exit code 0 once the counts are printed, and of each file how the receipt comes there."""
    parser = argparse.ArgumentParser(description=__doc__)
    kept = sorted(file.stem for file in LISTS.glob("*.txt"))
    parser.add_argument("--at", choices=kept, help="an older walk instead, of this commit")
    ref = parser.parse_args().at
    walk = places_at(ref) if ref else places_of(PAGE.read_text("utf-8"))
    read = text_at(ref) if ref else text_now
    for number, (place, sort) in enumerate(zip(walk, ["", *sorts(walk, read)], strict=True), 1):
        print(f"{number:>3} {sort:<8} {place.how:<8} {place.file}")
    print(counted(walk, read).text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
