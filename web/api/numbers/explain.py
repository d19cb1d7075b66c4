"""The route that explains one window: both layers' rows, and which side won."""

from typing import Annotated

from fastapi import FastAPI, Query, Response
from pydantic import Field

from runtime.http.answers import Shape, json_response
from serving.explain import WindowQuestion, explain_window
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from web.api.numbers.pages import Pages
from web.api.requests import shared
from web.api.requests.shared import Complete, Instant, Parameters, SourceField, StatusField, means

# A row's values by the name of its part or axis; each family has names of its own. A digest is a
# list, buckets and movements are lists of pairs, and an extreme without values is null.
PartsField = dict[str, int | str | list[int | list[int]] | None]


class WindowAnswer(Shape):
    """A quarter of an hour, UTC."""

    start: Annotated[Instant, means("inclusive")]
    end: Annotated[Instant, means("exclusive")]


class ServedWindowAnswer(Shape):
    """What is answered of the window."""

    source: SourceField
    events: Annotated[int | None, means("distinct events; null: missing, or not known")]
    status: StatusField
    complete: Complete
    rows: Annotated[
        list[PartsField] | None, means("parts and axes of each row; null: missing, or withheld")
    ]


class LayerRows(Shape):
    """What one layer holds of the window."""

    epoch: Annotated[int, means("definition that they were computed with")]
    events: Annotated[int, means("distinct events that they were computed from")]
    rows: Annotated[list[PartsField], means("parts and axes of each row")]
    excluded: Annotated[
        list[PartsField], means("of conflicts in other windows, taken back by batch")
    ]


class GenerationAnswer(Shape):
    """The published rebuild that serves the window's day."""

    generation: Annotated[int, means("its fencing token")]
    epoch: Annotated[int, means("definition that it was computed with")]
    table_version: Annotated[int, means("version of the master that it was made of")]
    covered_from: Annotated[Instant, means("inclusive, UTC")]
    covered_until: Annotated[Instant, means("exclusive, UTC")]
    flipped_at: Annotated[Instant, means("when it was published, UTC")]
    pinned: Annotated[dict[str, int], means("partition to the first offset that is not in it")]
    through: Annotated[
        dict[str, Instant], means("partition to the instant up to which all is counted")
    ]


class Explanation(Shape):
    """Why one window is answered as it is."""

    family: Annotated[str, means("view family")]
    store: Annotated[str, means("its id")]
    window: Annotated[WindowAnswer, means("the window that the asked instant lies in")]
    served: Annotated[ServedWindowAnswer, means("what is answered of it")]
    batch: Annotated[LayerRows | None, means("null: no row, or withheld")]
    speed: Annotated[LayerRows | None, means("null: no row, or withheld")]
    generation: Annotated[GenerationAnswer | None, means("null: no rebuild has published")]
    partition: Annotated[int, means("the one that the store's records lie in")]
    master_until: Annotated[int, means("first offset of the day not yet in the master")]
    dirty: Annotated[bool, means("whether the master has more of the day than batch")]
    speed_offsets: Annotated[
        dict[str, int], means("partition to the speed layer's first unread offset")
    ]
    because: Annotated[str, means("the rule that decided, as a sentence")]
    not_final_because: Annotated[list[str], means("a sentence each; empty where it is final")]


class ExplainQuery(Parameters):
    """Parameters of an explanation."""

    store: Annotated[str, Field(max_length=1_000, description="one store id")]
    window: Annotated[
        str, Field(max_length=1_000, description="any instant in the window, with offset")
    ]
    family: Annotated[str, Field("sales", description="view family")]


def add_explain_route(app: FastAPI, pages: Pages, views: ViewReader, settings: Settings) -> None:
    """Add the route for one window."""

    @app.get(
        "/v1/explain",
        summary="Why one window is answered as it is",
        responses=shared.declare(
            "both layers' rows, and which side won",
            Explanation,
            unknown="there is no such family or store",
        ),
    )
    async def explain(query: Annotated[ExplainQuery, Query()]) -> Response:
        # Checked first, so that an unknown store is a 404 and none of its windows is read.
        await pages.stores.check([query.store])
        question = WindowQuestion(query.store, query.window, query.family)
        return json_response(await explain_window(views, question, pages.registry, settings))
