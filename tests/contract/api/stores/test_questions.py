"""What the API refuses, and how it says so."""

import httpx
import pytest

from tests.support.questions.api_suite import DAY, Ask
from tests.support.serving.serving_example import NEW, SETTLED
from tests.support.serving.serving_world import MemoryViews

PATH = "/v1/metrics/revenue"


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and first field of a problem document, whose shape is checked."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert list(body) == ["type", "title", "status", "detail", "instance", "errors"]
    assert body["status"] == answer.status_code
    return answer.status_code, body["errors"][0]["field"] if body["errors"] else ""


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"to": SETTLED}, "from"),
        ({"from": NEW, "to": SETTLED}, "from"),
        ({"from": "2017-09-19T10:07:00Z"}, "from"),
        ({"to": "2017-09-19T10:07:00Z"}, "to"),
        ({"from": "2017-09-19T10:00:00"}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2017-02-30"}, "from"),
        ({"from": "0001-01-01"}, "to"),
        ({"to": "2018-12-31"}, "to"),
        ({"to": "9999-12-31"}, "to"),
        ({"grain": "1w"}, "from"),
        ({"grain": "5m"}, "grain"),
        ({"tz": "Mars/Olympus"}, "tz"),
        ({"tz": "../../etc/passwd"}, "tz"),
        ({"by": "weather"}, "by"),
        ({"limit": "0"}, "limit"),
        ({"limit": "10001"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"after": "96"}, "after"),
        ({"as_of": "then"}, "as_of"),
        ({"as_of": "2126-01-01T00:00:00Z"}, "as_of"),
        ({"store": ","}, "store"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_question_that_cannot_be_answered_names_its_parameter(
    ask: Ask, changed: dict[str, str], field: str
) -> None:
    assert problem(ask(PATH, **{**DAY, **changed})) == (422, field)


@pytest.mark.parametrize("missing", ["store", "from", "to"])
def test_required_parameters(ask: Ask, missing: str) -> None:
    asked = {name: value for name, value in DAY.items() if name != missing}
    assert problem(ask(PATH, **asked)) == (422, missing)


def test_off_grid_instants_come_with_the_nearest_ones(ask: Ask) -> None:
    answer = ask(PATH, **{**DAY, "from": "2017-09-19T10:07:00Z"})
    assert answer.json()["errors"][0]["nearest"] == ["2017-09-19T10:00:00Z", "2017-09-19T10:15:00Z"]


def test_off_grid_week_comes_with_the_nearest_mondays_of_the_zone(ask: Ask) -> None:
    answer = ask(PATH, **DAY, grain="1w", tz="Europe/Rome")
    assert answer.json()["errors"][0]["nearest"] == [
        "2017-09-18T00:00:00+02:00",
        "2017-09-25T00:00:00+02:00",
    ]


@pytest.mark.parametrize(
    "store", ["999", "367,999", "'; DROP TABLE sales_15min; --", "x" * 65, "ALL"]
)
def test_unknown_store_is_not_found(ask: Ask, store: str) -> None:
    assert problem(ask(PATH, **{**DAY, "store": store})) == (404, "store")


def test_unknown_metric_is_not_found(ask: Ask) -> None:
    assert problem(ask("/v1/metrics/happiness", **DAY)) == (404, "metric")


def test_unknown_address_is_a_problem_document(ask: Ask) -> None:
    assert problem(ask("/v2/metrics")) == (404, "")


def test_offset_with_an_unescaped_plus_is_understood(ask: Ask) -> None:
    answer = ask(f"{PATH}?store=367&from=2017-09-19T12:00:00+02:00&to=2017-09-19T12:15:00+02:00")
    assert answer.json()["rows"][0]["start"] == "2017-09-19T10:00:00Z"


def test_repeated_stores_are_as_good_as_a_list(ask: Ask) -> None:
    repeated = ask(f"{PATH}?store=406&store=367&from={SETTLED}&to={NEW}").json()
    assert [one["store"] for one in repeated["series"]] == ["406", "367"]


def test_unreachable_views_are_503_and_never_a_number(ask: Ask, views: MemoryViews) -> None:
    views.is_down = True
    assert [
        problem(ask(path, **asked))[0] for path, asked in ((PATH, DAY), ("/v1/stores", {}))
    ] == [503, 503]


def test_process_is_alive_but_not_ready_while_the_views_are_unreachable(
    ask: Ask, views: MemoryViews
) -> None:
    views.is_down = True
    assert (ask("/healthz").status_code, ask("/readyz").status_code) == (200, 503)
    assert ask("/readyz").json()["ready"] is False


def test_stores_once_known_are_answered_again_after_an_outage(ask: Ask, views: MemoryViews) -> None:
    views.is_down = True
    assert ask(PATH, **DAY).status_code == 503
    views.is_down = False
    assert ask(PATH, **DAY).status_code == 200


def test_counters_name_routes_and_not_addresses(ask: Ask) -> None:
    ask(PATH, **DAY)
    ask("/v2/whatever")
    text = ask("/metrics").text
    assert 'tally_api_requests_total{route="/v1/metrics/{metric_id}",status="200"} 1.0' in text
    assert 'tally_api_requests_total{route="other",status="404"} 1.0' in text


def test_openapi_lists_every_parameter(ask: Ask) -> None:
    operation = ask("/openapi.json").json()["paths"]["/v1/metrics/{metric_id}"]["get"]
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert names == {
        "metric_id",
        "store",
        "from",
        "to",
        "grain",
        "tz",
        "by",
        "as_of",
        "limit",
        "after",
    }
    assert "begin again" in operation["responses"]["409"]["description"]


def test_metrics_list_has_the_first_ids_and_their_shape(ask: Ask) -> None:
    listed = ask("/v1/metrics").json()["metrics"]
    first = {
        "average_basket",
        "conversion",
        "discounts",
        "gross_revenue",
        "revenue",
        "transactions",
        "units",
        "visitors_in",
    }
    ids = [metric["id"] for metric in listed]
    assert ids == sorted(ids) and first < {*ids}
    assert list(listed[0])[:9] == [
        "id",
        "name",
        "unit",
        "kind",
        "families",
        "formula",
        "variants",
        "by",
        "grains",
    ]
