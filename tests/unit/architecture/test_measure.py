"""The house in numbers: the measure itself finds what is planted."""

import ast
from pathlib import Path

import pytest

from tests.unit.architecture.counts import language, measure
from tests.unit.architecture.counts.measure import (
    MAY_BE_DENSE,
    circles,
    dense_lines,
    numbers,
    silent_raisers,
)
from tests.unit.architecture.counts.number import Number
from tests.unit.architecture.counts.sources import ROOT, python_files


def test_every_number_is_within_its_limits() -> None:
    assert [one for one in numbers() if not one.holds] == []


@pytest.mark.parametrize(("value", "holds"), [(3, False), (4, True), (5, True), (6, False)])
def test_number_holds_between_its_limits(value: float, holds: bool) -> None:
    assert Number("", value, most=5, least=4).holds == holds


def test_circle_is_found_and_a_chain_is_none() -> None:
    chain = {"a": {"b"}, "b": {"c"}}

    assert circles(chain) == []
    assert circles({**chain, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_function_that_raises_and_does_not_say_so_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = 'def told():\n    """Raises Error."""\n    raise Error("x")\n'
    unless = 'def unless():\n    """Raise Error unless it fits."""\n    raise Error("x")\n'
    silent = 'def silent():\n    """A value."""\n    if 1:\n        raise Error("x")\n'
    inner = 'def outer():\n    """A value."""\n    def inner():\n        raise Error("x")\n'
    private = "def _own():\n    raise Error\n"
    again = "def again():\n    try: f()\n    except E:\n        raise\n"
    tree = ast.parse(told + unless + silent + inner + private + again)
    monkeypatch.setattr(measure, "parsed", lambda file: tree)

    assert [line.split(": ")[1] for line in silent_raisers([Path("x.py")])] == ["silent", "inner"]


def test_a_line_of_too_many_tokens_is_found_and_comments_and_names_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = "x = [" + "1," * 10 + "1]"
    over = "x = [" + "1," * 11 + "]"
    remarked = most + "  # " + "a, " * 30
    text = "\n".join([most, over, remarked, "x = '" + "a " * 30 + "'"])
    monkeypatch.setattr(measure, "_text", lambda file: text)

    assert dense_lines([Path("x.py")], {}) == ["x.py:2: 26 tokens"]
    assert dense_lines([Path("data/x.py")], {"data": "a table"}) == []
    assert dense_lines([Path("data/x.py")], {"data/x.py": "a table"}) == []


def test_what_may_be_dense_is() -> None:
    product = [file for file in python_files() if file.parts[0] != "tests"]
    dense = [Path(line.split(":")[0]) for line in dense_lines(product, {})]

    assert [
        place for place in MAY_BE_DENSE if not any(file.is_relative_to(place) for file in dense)
    ] == []


def test_those_that_do_not_say_so_are_named_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "silent_raisers", lambda files: ["x.py:1: silent"])
    monkeypatch.setattr("sys.argv", ["measure", "--silent"])

    measure.main()

    assert capsys.readouterr().out.splitlines()[-1] == "x.py:1: silent"


def test_only_one_file_makes_a_kafka_source_of_spark() -> None:
    """Java's default isolation is another than ours: each further source could forget it."""
    product = [file for file in python_files() if file.parts[0] not in ("tests", "bench")]
    found = [str(file) for file in product if 'format("kafka")' in (ROOT / file).read_text("utf-8")]

    assert found == ["runtime/spark/kafka_source.py"]


@pytest.mark.parametrize(
    ("call", "files"),
    [
        # A full queue is waited for, and what was not sent is an error.
        (".produce(", ["ingest/gateway/async_producer.py", "runtime/kafka/producer.py"]),
        # A topic that is not there is an error and not a topic without partitions.
        (".get_watermark_offsets(", ["runtime/kafka/topics.py"]),
        # A position that the brokers do not tell is no position 0.
        (".committed(", ["runtime/kafka/topics.py"]),
        # A statement may be sent again after a time-out.
        ("is_idempotent = True", ["runtime/cassandra/writes.py"]),
    ],
)
def test_each_way_to_a_driver_has_its_guards_in_one_file(call: str, files: list[str]) -> None:
    product = [file for file in python_files() if file.parts[0] != "tests"]

    assert [str(file) for file in product if call in (ROOT / file).read_text("utf-8")] == files


def test_loops_that_bind_one_are_found() -> None:
    text = "for one in rows: f(one)\nx = [one for _, one in rows]\ny = {row for row in rows}"

    assert language.loops_over_one(ast.parse(text)) == 2


def test_archaic_words_of_docstrings_comments_and_documents_are_counted() -> None:
    assert len([*language.product_prose(python_files()[:50])]) > 50
    assert len(language.documents()) > 40
    assert language.archaic_per_thousand(["Nobody is told anew.", "a retold tale"]) > 400
