"""Bodies of vendors' forms as somebody might send them: recorded ones, changed here and there."""

import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import yaml
from hypothesis import strategies as st

from tests.unit.ingest.sources.test_vendor_bodies import FOLDER

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
# Written as they stand: no Python number has so many digits.
_RAW = ("1E999999", "-1E-999999", "1e40", "123456789012345678901234567890", "0.1")
_RAW_MARK = "@raw:"
_TEXTS = st.sampled_from(
    [
        *(
            "",
            "1E999999",
            "NaN",
            "-0",
            "0x1",
            "x" * 65,
            "y" * 3_000,
            "\ud83d\ude00",
            "\x00",
            "a\nb",
        ),
        *("2026-03-02T10:00:00Z", "2026-03-02T10:00:00", "9999-12-31T23:59:59Z", "0001-01-01"),
        *("366", "367", "accc00000001", "people-counts", "fw", "in", "Finished", "Voided"),
    ]
)
_VALUES: st.SearchStrategy[Any] = (
    _TEXTS
    | st.sampled_from([None, True, 0, -1, 2**63, 1.5, [], {}, [[]], [None], {"": 0}])
    | st.sampled_from([_RAW_MARK + number for number in _RAW])
    | st.integers(-1_000, 10**18)
    | st.text(max_size=5)
)
_COPIES = st.sampled_from([2, 3, 20, 300])
_XML_TEXT = re.compile(r">[^<>]+<")
_XML_WORD = re.compile(r'="[^"]*"')
_XML_ELEMENT = re.compile(r"<(\w+)[^<>]*>[^<>]*</\1>")
_NUMBERS = st.sampled_from(
    [*_RAW, "NaN", "Infinity", "-5", "0", "1.005", "9" * 39, "1e39", "1e-39", "٣", " 7 ", "x"]
)


class SeedBody(NamedTuple):
    """A recorded body of a form, and the parameters under which it was sent."""

    text: str
    parameters: dict[str, str]


@cache
def recorded(form: str) -> dict[str, Any]:
    """The file of a form: its stores, secrets and cases."""
    told: dict[str, Any] = yaml.safe_load((FOLDER / f"{form}.yaml").read_text("utf-8"))
    return told


@cache
def seeds(form: str) -> Sequence[SeedBody]:
    """The recorded bodies of a form of which something counts."""
    cases = recorded(form)["cases"].values()
    return [
        SeedBody(case["body"], case.get("parameters", {}))
        for case in cases
        if "refused" not in case
    ]


@st.composite
def sent_bodies(draw: Draw, form: str) -> tuple[bytes, dict[str, str]]:
    """A body of the form, and its parameters."""
    seed = draw(st.sampled_from(seeds(form)))
    changes = range(draw(st.integers(0, 4)))
    if form == "poslog":
        text = seed.text
        for _ in changes:
            text = _changed_xml(draw, text)
    elif form == "axis_csv":
        lines = seed.text.split("\n")
        for _ in changes:
            lines = _changed_lines(draw, lines)
        text = "\n".join(lines)
    else:
        # Two lines of one name are no document.
        copies = 0 if form == "document" else 2
        text = _changed_json(draw, seed.text, len(changes), copies)
    content = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        # Cut off, or with a byte that nobody meant.
        place = draw(st.integers(0, len(content)))
        content = content[:place] + draw(st.sampled_from([b"", b"\xff", b"\x00", b'"', b"<", b"}"]))
    return content, seed.parameters


def _changed_json(draw: Draw, text: str, changes: int, copies: int) -> str:
    try:
        tree = deepcopy(_decoded(text))
    except ValueError:
        # As a stream sends them, one after the other.
        return text * draw(_COPIES) if changes else text
    # So that one bad event has good ones beside it.
    lists = [one for one in map(partial(_at, tree), _places(tree)) if _is_of_objects(one)]
    for events in draw(st.lists(st.sampled_from(lists), max_size=copies)) if lists else ():
        events += deepcopy(events)
    for _ in range(changes):
        places = list(_places(tree))
        if not places:
            break
        # What stands above all others is the end of most bodies: one change in four is made there.
        deep = [place for place in places if len(place) > 3]
        pool = places if draw(st.integers(0, 3)) == 3 else deep or places
        chosen = draw(st.sampled_from(pool))
        _change(draw, tree, chosen)
    return re.sub(rf'"{_RAW_MARK}([^"]*)"', r"\1", json.dumps(tree))


@cache
def _decoded(text: str) -> Any:
    return json.loads(text)


def _places(tree: Any, at: tuple[Any, ...] = ()) -> Any:
    """The path of each value below the tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, value in inner:
        yield (*at, name)
        if isinstance(value, dict | list):
            yield from _places(value, (*at, name))


def _at(tree: Any, place: tuple[Any, ...]) -> Any:
    for name in place:
        tree = tree[name]
    return tree


def _is_of_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, dict) for one in value)


def _change(draw: Draw, tree: Any, place: tuple[Any, ...]) -> None:
    tree = _at(tree, place[:-1])
    name, kind = place[-1], draw(st.sampled_from(["other", "gone", "copies", "beside", "long"]))
    if kind == "gone":
        del tree[name]
    elif kind == "copies" and isinstance(tree, list):
        tree[name:name] = [deepcopy(tree[name]) for _ in range(draw(_COPIES))]
    elif kind == "copies" and isinstance(tree[name], list):
        tree[name] *= draw(_COPIES)
    elif kind == "beside" and isinstance(tree, dict):
        tree[draw(_TEXTS)] = deepcopy(draw(_VALUES))
    elif kind == "long":
        tree[name] = "z" * draw(st.sampled_from([64, 65, 129, 1_025, 30_000]))
    else:
        # A copy, for another change may be made in it.
        tree[name] = deepcopy(draw(_VALUES))


def _changed_xml(draw: Draw, text: str) -> str:
    kind = draw(st.sampled_from(["text", "number", "word", "gone", "copies", "long"]))
    pattern = {"word": _XML_WORD, "gone": _XML_ELEMENT, "copies": _XML_ELEMENT}.get(kind, _XML_TEXT)
    if kind == "number":
        pattern = re.compile(r">-?[0-9][0-9.]*<")
    places = list(pattern.finditer(text))
    if not places:
        return text
    place: re.Match[str] = draw(st.sampled_from(places))
    written: dict[str, Callable[[], str]] = {
        "text": lambda: f">{_printable(draw(_TEXTS))}<",
        "number": lambda: f">{draw(_NUMBERS)}<",
        "word": lambda: f'="{_printable(draw(_TEXTS))}"',
        "gone": lambda: "",
        "copies": lambda: place[0] * draw(_COPIES),
        "long": lambda: f">{'9' * draw(st.sampled_from([64, 300, 30_000]))}<",
    }
    other = written[kind]()
    return f"{text[: place.start()]}{other}{text[place.end() :]}"


def _printable(text: str) -> str:
    return re.sub("[^ -~]", "?", text).replace('"', "'")


def _changed_lines(draw: Draw, lines: list[str]) -> list[str]:
    place = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(["cell", "gone", "copies", "swapped", "other"]))
    cells = lines[place].split(",")
    if kind == "cell":
        cells[draw(st.integers(0, len(cells) - 1))] = draw(_NUMBERS | _TEXTS)
        return [*lines[:place], ",".join(cells), *lines[place + 1 :]]
    if kind == "copies":
        return lines[:place] + [lines[place]] * draw(_COPIES) + lines[place + 1 :]
    if kind == "gone":
        return lines[:place] + lines[place + 1 :] or [""]
    if kind == "swapped":
        return [lines[-1 - place], *lines[:place], *lines[place:]]
    return [*lines, draw(st.text(max_size=30)), '"', ",,,,"]
