"""A source is a folder: what follows from it, and how a folder that is wrong is told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.generated import render_views
from schemas.loader import builtin_sources, read_sources
from schemas.metric import load_metrics
from schemas.source import BadSource, read_source
from tests.support.sources.sources import ELEVENTH, run_with
from tests.unit.schemas.cql import table_of

OWN = [source.folder for source in builtin_sources().values()]
Write = Callable[..., Path]


@pytest.fixture
def queues(tmp_path: Path) -> Write:
    """Writes a copy of the eleventh source with texts of its descriptor replaced."""

    def write(*replaced: tuple[str, str], name: str = "queues") -> Path:
        folder = tmp_path / name
        shutil.copytree(ELEVENTH, folder)
        text = (folder / "source.yaml").read_text("utf-8")
        for before, after in replaced:
            assert before in text
            text = text.replace(before, after)
        (folder / "source.yaml").write_text(text, "utf-8")
        return folder

    return write


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("kind: additive", "kind: summed", "family.kind: Invalid enum value 'summed'"),
        ("kind: additive", "kind: derived", "family.reading: a derived family has one"),
        ("kind: sum, unit: persons,  ", "kind: mean, unit: persons, ", "family.parts[0].kind: "),
        ("kind: sum, unit: persons,  ", "kind: level, unit: persons,", "family.parts: a family of"),
        ("kind: additive", "kind: level", "family.parts: a family of kind level has a part"),
        (
            "epoch: 1",
            "epoch: 2\n  raised: [{first: 2026-03-02, last: 2026-03-01, epoch: 3}]",
            "family.raised: 2026-03-02 is after 2026-03-01",
        ),
        (
            "epoch: 1",
            "epoch: 2\n  raised: [{first: 2026-03-01, last: 2026-03-02, epoch: 2}]",
            "family.raised: epoch 2 is not above 2, that of all days",
        ),
        ("epoch: 1", "epoch: 0", "family.epoch: Expected `int` >= 1"),
        ("name: queues", "name: Queues", "name: Expected `str` matching regex"),
        ("name: queues", "name: batch_sales", "name: Expected `str` matching regex"),
        ("path: /v1/events/queues", "path: /v2/queues", "path: Expected `str` matching regex"),
        ("lateness_seconds: 3600", "lateness_seconds: 1h", "lateness_seconds: Expected `int`"),
        ("lateness_seconds: 3600", "", "lateness_seconds: the field is missing"),
        ("kind: sum, unit: persons,  ", "unit: persons,  ", "family.parts[0].kind: the field is "),
        ("axes: [queue]", "axes: [day]", "family: 'day' is a name that every family has already"),
        ("axes: [queue]", "axes: [zone]", "fields: 'zone' is to be one of them, of type string"),
        (
            "{name: waited_seconds,   type",
            "{name: arrived, type",
            "fields: 'arrived' is there twice",
        ),
        (
            "{name: queue,            type: string,",
            "{name: queue, type: string, minimum: 0,",
            "fields: 'queue' is no integer, and has no minimum",
        ),
        ("event: queue interval", "event: [", "is no YAML: "),
        ("meaning: intervals", "colour: red\nmeaning: intervals", "unknown field `colour`"),
    ],
)
def test_a_wrong_descriptor_is_one_error_that_names_file_and_field(
    queues: Write, before: str, after: str, told: str
) -> None:
    folder = queues((before, after))

    with pytest.raises(BadSource) as wrong:
        read_source(folder)

    assert str(wrong.value).startswith(f"{folder / 'source.yaml'}: ")
    assert told in str(wrong.value) and "\n" not in str(wrong.value)


@pytest.mark.parametrize("name", ["contract.py", "message.schema.json", "example.json", "bad.yaml"])
def test_a_file_that_is_missing_beside_the_descriptor_is_named(queues: Write, name: str) -> None:
    folder = queues()
    (folder / name).unlink()

    with pytest.raises(BadSource, match=rf"source.yaml: {name}: the file is missing"):
        read_source(folder)


def test_a_folder_without_a_descriptor_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r"source.yaml: cannot be read: No such file"):
        read_source(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("raw_topic: raw-queues", "raw_topic: raw-traffic", "raw_topic: 'raw-traffic'"),
        ("raw_topic: raw-queues", "raw_topic: sales", "raw_topic: 'sales'"),
        ("raw_topic: raw-queues", "raw_topic: dead-letters", "raw_topic: 'dead-letters'"),
        ("name: queues", "name: clock", "name: 'clock'"),
        ("path: /v1/events/queues", "path: /v1/events/pos", "path: '/v1/events/pos'"),
        ("name: queues", "name: sales", "name: 'sales'"),
    ],
)
def test_what_another_source_has_already_is_refused(
    queues: Write, before: str, after: str, field: str
) -> None:
    folder = queues((before, after))

    with pytest.raises(BadSource) as wrong:
        read_sources([*OWN, folder])

    assert str(wrong.value).startswith(f"{folder / 'source.yaml'}: {field} is ")


def test_an_axis_of_one_source_is_no_part_of_another(queues: Write) -> None:
    # The speed layer reads the records of all families with one schema.
    folder = queues(("name: arrived,", "name: currency,"))

    with pytest.raises(BadSource, match=r"family: 'currency' is a part here, not in .*sales"):
        read_sources([*OWN, folder])


def test_a_reserved_word_of_cql_is_quoted(queues: Write) -> None:
    renamed = (("name: arrived,", "name: full,"), ("axes: [queue]", "axes: [order]"))
    source = read_source(queues(*renamed, ("- {name: queue, ", "- {name: order, ")))

    speed, batch = (table_of(text.strip()) for text in _statements(render_views(source)))

    assert '"full" ' in render_views(source) and "full" in speed.columns
    assert render_views(source).count('window_start, "order", dim, dim_value') == 2
    assert batch.clustering_key == (
        "window_start",
        '"order"',
        "dim",
        "dim_value",
        "generation",
    )


def test_a_meaning_of_several_lines_stays_a_remark(queues: Write) -> None:
    told = "meaning: >\n  intervals of\n  queue cameras\n\n  in shops\n"
    source = read_source(queues(("meaning: intervals of queue cameras\n", told)))

    assert len(_statements(render_views(source))) == 2


def test_two_metrics_of_one_id_are_refused(queues: Write) -> None:
    one, other = queues(), queues(name="other")
    files = [folder / "metrics" / "waiting_time.yaml" for folder in (one, other)]
    source = read_source(one)

    with pytest.raises(BadSource, match=f"id: 'waiting_time' is the metric of {files[0]}"):
        load_metrics(files, {source.name: source}, {part.unit for part in source.family.parts})


EVERYTHING = """
from pathlib import Path
from ingest.installation.arrival import Rules
from ingest.gateway.submission import endpoints
from ingest.normaliser.normalise import Normaliser
from ingest.sources.registry import conversions, raw_topics
from runtime.processor.step import Input
from runtime.registry.sources import FAMILIES, SALES
from schemas import loader
from serving.questions.catalogue import metric
from tally.config.settings import Settings
assert [*FAMILIES] == ["inventory", "sales", "traffic", "wifi", "queues"]
assert FAMILIES["sales"] is SALES
assert FAMILIES["queues"].sums == ("arrived", "waited_seconds")
assert FAMILIES["queues"].lateness_seconds == 3600
assert loader.topics()["queues"]["raw"] == "raw-queues" and raw_topics()["raw-queues"] == "queues"
names = {loader.table_name(one) for one in loader.table_statements()}
assert {"queues_15min", "batch_queues_15min", "sales_15min"} <= names
assert [one.path for one in endpoints()][-1] == "/v1/events/queues" and "queues" in conversions()
assert metric("waiting_time").numerator.family is FAMILIES["queues"]
message = Path("tests/e2e/eleventh/example.json").read_bytes()
sent = Input("raw-queues", 1, 7, 1782900000000, None, message)
(record,) = Normaliser(Rules.from_settings(Settings.load({})), 4, raw_topics()).process(sent)
assert (record.topic, record.key) == ("queues", b"367"), record
"""


def test_a_folder_that_the_environment_names_is_a_source_everywhere() -> None:
    done = run_with(str(ELEVENTH), "-c", EVERYTHING)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["ingest.normaliser", "ingest.gateway", "web"])
def test_a_job_with_a_wrong_source_ends_as_refused_with_one_line(
    queues: Write, module: str, tmp_path: Path
) -> None:
    folder = queues(("epoch: 1", "epoch: one"))

    done = run_with(str(folder), "-m", module)

    assert done.returncode == 78, done.stderr
    assert done.stderr.splitlines()[-1].count(f"{folder / 'source.yaml'}: family.epoch: ") == 1
    assert "Traceback" not in done.stderr


def test_a_family_asked_for_by_name_does_not_hide_that_a_descriptor_is_wrong(
    queues: Write,
) -> None:
    folder = queues(("epoch: 1", "epoch: one"))

    done = run_with(str(folder), "-m", "batch_layer.views.rebuild", "--family", "sales")

    assert (done.returncode, f"{folder / 'source.yaml'}: family.epoch: " in done.stderr) == (
        2,
        True,
    )


def test_the_documents_of_a_further_source_are_written_where_one_says(tmp_path: Path) -> None:
    done = run_with(str(ELEVENTH), "-m", "ops.docs", "--out", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert "## queues" in (tmp_path / "docs" / "generated" / "sources.md").read_text("utf-8")
    assert (tmp_path / "schemas" / "views" / "queues.cql").read_text("utf-8") == render_views(
        read_source(ELEVENTH)
    )


def _statements(text: str) -> list[str]:
    plain = "\n".join(line.split("--")[0] for line in text.splitlines())
    return [part for part in plain.split(";") if part.strip()]
