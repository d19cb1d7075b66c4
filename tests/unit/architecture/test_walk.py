"""One receipt's walk (docs/walk.md): the page is as the code is, and the count finds its steps."""

import ast
import subprocess

import pytest

from tests.unit.architecture.counts import walk
from tests.unit.architecture.counts.sources import ROOT
from tests.unit.architecture.counts.walk import (
    HANDED,
    LISTS,
    PAGE,
    Place,
    counted,
    importers_in,
    places_at,
    places_of,
    sorts,
    text_at,
    text_now,
)

WALK = places_of(PAGE.read_text("utf-8"))
OLDER = [file.stem for file in LISTS.glob("*.txt")]
FILES = {
    "tally/a.py": "from tally import b",
    "tally/b.py": "",
    "tally/c.py": "import tally.a",
    "tally/d.py": "",
}
PLANTED = [
    Place("tally/a.py", "process"),
    Place("tally/b.py", "call", is_written=True),
    Place("tally/c.py", "row"),
    Place("tally/d.py", "wired"),
]


def test_each_file_of_the_walk_is_there() -> None:
    assert [place.file for place in WALK if not (ROOT / place.file).is_file()] == []


def test_each_file_of_the_walk_is_listed_once() -> None:
    files = [place.file for place in WALK]

    assert [file for file in files if files.count(file) > 1] == []


def test_each_file_of_the_walk_has_what_is_entered_there() -> None:
    assert [place for place in WALK if not has(text_now(place.file), place.entered)] == []


def test_a_receipt_comes_by_a_call_where_an_earlier_file_imports_the_next_and_only_there() -> None:
    importers = importers_in(WALK, text_now)

    assert [place for place in WALK if (place.how == "call") != bool(importers[place.file])] == []


def test_every_row_of_the_pages_tables_is_read() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line[:3].strip("| ").isdigit()]

    assert len(WALK) == len(rows)


def test_the_page_says_the_counts_of_the_walk() -> None:
    assert f"Now: {counted(WALK, text_now).text}." in told()


@pytest.mark.parametrize("ref", OLDER)
def test_the_page_says_the_counts_of_an_older_walk(ref: str) -> None:
    if not is_in_the_clone(ref):
        pytest.skip(f"the clone does not reach back to {ref}")

    assert f"(commit `{ref}`): {counted(places_at(ref), text_at(ref)).text}." in told()


@pytest.mark.parametrize("ref", OLDER)
def test_an_older_walk_lists_each_file_once_and_says_nothing_else_of_it(ref: str) -> None:
    lines = [line.split() for line in (LISTS / f"{ref}.txt").read_text("utf-8").splitlines()]

    assert len({file for file, *_ in lines}) == len(lines)
    assert {word for _, *said in lines for word in said} <= {*HANDED, walk.WRITTEN}


def test_a_step_is_forward_to_what_the_last_file_imports_and_to_what_is_handed_over() -> None:
    assert sorts(PLANTED, FILES.__getitem__) == ["forward", "forward", "wired"]


def test_a_step_is_back_where_an_earlier_file_alone_imports_the_next() -> None:
    far = [PLANTED[0], PLANTED[3], PLANTED[1]]

    assert sorts(far, FILES.__getitem__) == ["wired", "back"]


def test_a_file_that_imports_one_of_before_it_is_none_of_its_importers() -> None:
    assert importers_in(PLANTED, FILES.__getitem__)["tally/a.py"] == set()


def test_the_counts_are_told_with_the_share_of_forward_steps() -> None:
    assert counted(PLANTED, FILES.__getitem__).text == (
        "4 files, 2 of them until the row lies in Cassandra and 2 before anybody asks;"
        " 2 of 3 steps go forward (67 %), 0 back, 1 are wired"
    )


def test_a_table_that_leaves_out_a_number_is_refused() -> None:
    row = "| {} | `tally/a.py` | `a` | is there | call |"

    with pytest.raises(ValueError, match=r"numbered \[1, 3\]"):
        places_of("\n".join(map(row.format, (1, 3))))


@pytest.mark.parametrize(("name", "is_there"), [("A.m", True), ("A.x", False), ("N", True)])
def test_what_is_entered_is_looked_for_in_its_class(name: str, is_there: bool) -> None:
    assert has("N = 1\nclass A:\n    def m(self): ...\n", name) == is_there


def told() -> str:
    """The page without its line ends."""
    return " ".join(PAGE.read_text("utf-8").split())


def has(text: str, name: str) -> bool:
    """Whether a file defines a function, a class, a method or a constant of this name."""
    body = ast.parse(text).body
    *classes, last = name.split(".")
    for one in classes:
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == one]
        body = found[0].body if found else []
    return any(last == getattr(node, "name", None) or last in targets(node) for node in body)


def targets(node: ast.stmt) -> set[str]:
    """Names that an assignment gives a value."""
    found = node.targets if isinstance(node, ast.Assign) else []
    return {target.id for target in found if isinstance(target, ast.Name)}


def is_in_the_clone(ref: str) -> bool:
    """Whether git has the commit here."""
    asked = ["git", "cat-file", "-e", f"{ref}^{{commit}}"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0
