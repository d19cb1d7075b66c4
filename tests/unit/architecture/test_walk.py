"""The walks of a receipt and of an alert: their lists are as the code is, and steps are found."""

import pytest

from tests.unit.architecture.counts import walk
from tests.unit.architecture.counts.sources import ROOT
from tests.unit.architecture.counts.walk import (
    ALERT,
    HANDED,
    RECEIPT,
    Place,
    defines,
    list_importers,
    list_places,
    list_steps,
    read_file,
)

FILES = {
    "tally/a.py": "from tally import b",
    "tally/b.py": "",
    "tally/c.py": "import tally.a",
    "tally/d.py": "",
}
PLANTED = [
    Place("tally/a.py", "a", "process"),
    Place("tally/b.py", "b"),
    Place("tally/c.py", "c", "row"),
    Place("tally/d.py", "d"),
]


def test_walks_have_become_no_longer() -> None:
    assert [number for number in walk.numbers() if not number.holds] == []


@pytest.mark.parametrize("name", [RECEIPT, ALERT])
def test_each_file_of_a_walk_is_there_and_is_listed_once(name: str) -> None:
    files = [place.file for place in list_places(name)]

    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert [file for file in files if files.count(file) > 1] == []


@pytest.mark.parametrize("name", [RECEIPT, ALERT])
def test_each_file_of_a_walk_has_what_is_entered_there(name: str) -> None:
    places = list_places(name)

    assert [place for place in places if not defines(read_file(place.file), place.entered)] == []
    assert {place.how for place in places} <= {*HANDED, ""}


def test_a_step_is_forward_to_what_the_last_file_imports_and_to_what_is_handed_over() -> None:
    assert list_steps(PLANTED, FILES.__getitem__) == ["forward", "forward", "wired"]


def test_a_step_is_back_where_an_earlier_file_alone_imports_the_next() -> None:
    far = [PLANTED[0], PLANTED[3], PLANTED[1]]

    assert list_steps(far, FILES.__getitem__) == ["wired", "back"]


def test_a_file_that_imports_one_of_before_it_is_none_of_its_importers() -> None:
    assert list_importers(PLANTED, FILES.__getitem__)["tally/a.py"] == set()


@pytest.mark.parametrize(("name", "is_there"), [("A.m", True), ("A.x", False), ("N", True)])
def test_what_is_entered_is_looked_for_in_its_class(name: str, is_there: bool) -> None:
    assert defines("N = 1\nclass A:\n    def m(self): ...\n", name) == is_there
