"""What the API answers about alerts: the same tests run in memory and on a real Cassandra.

Store 367 has one that is open, one that has ended, and one that was taken back; store 406 has a
late one, confirmed at once.
"""

from typing import Any

import pytest

from tally.alerts.message import Alert
from tests.support.alerts.alerts import end_of, plain, then, told
from tests.support.questions.api_suite import Ask

OPEN = told(1)
ENDED = told(2, rule_id="few-visitors", severity="info")
END = end_of(ENDED)
TAKEN_BACK = told(3, value=7)
LATE = told(4, "406", state="confirmed", late=True, severity="critical")
ERASED = told(5, value=99, threshold=7)
REOPENED = told(6, "406")
REOPENED_END = end_of(REOPENED)
STORY = [
    OPEN,
    ENDED,
    TAKEN_BACK,
    LATE,
    END,
    then(OPEN, "confirmed"),
    then(TAKEN_BACK, "retracted", reason="late_data", value=3),
    ERASED,
    then(ERASED, "confirmed"),
    then(ERASED, "retracted", reason="erasure", value=None),
    REOPENED,
    REOPENED_END,
    then(REOPENED_END, "retracted", reason="conflict"),
]
DAY = {"store": "all", "from": "2026-11-23", "to": "2026-11-24"}


def numbers(body: dict[str, Any]) -> list[int]:
    """Of which of told() each listed alert is, in their order."""
    return [one["evidence"]["tick"] for one in body["alerts"]]


class AlertSuite:
    """Tests that need the fixture `ask`, over what STORY tells."""

    def test_the_last_state_of_each_newest_first(self, ask: Ask) -> None:
        body = ask("/v1/alerts", **DAY).json()

        # An end is filed with its raise here: both have one instant, and then go by their ids.
        assert [number for number in numbers(body) if number not in (2, 6)] == [5, 4, 3, 1]
        assert sorted(numbers(body)) == [1, 2, 2, 3, 4, 5, 6, 6]
        assert body["next"] is None
        (own,) = (one for one in body["alerts"] if one["alert_id"] == OPEN.alert_id)
        assert own == {**plain(then(OPEN, "confirmed")), "open": True, "overdue": False}

    @pytest.mark.parametrize(
        ("asked", "found"),
        [
            ({"store": "367"}, {1, 2, 3, 5}),
            ({"store": "406,367", "rule": "few-visitors"}, {2}),
            ({"rule": "few-visitors,queue-too-long", "severity": "critical"}, {4}),
            ({"state": "retracted"}, {3, 5, 6}),
            ({"state": "retracted", "edge": "raise"}, {3, 5}),
            ({"edge": "clear"}, {2, 6}),
            ({"late": "true"}, {4}),
            ({"late": "false", "state": "confirmed"}, {1}),
            ({"open": "true"}, {1, 4, 6}),
            ({"open": "false", "edge": "raise"}, {2, 3, 5}),
            ({"from": "2026-11-23T09:03:00Z", "to": "2026-11-23T09:04:06Z"}, {2, 3}),
            ({"from": "2026-11-23T10:05:05+01:00"}, {4, 5, 6}),
            ({"to": "2026-11-23T09:05:05Z", "store": "406"}, set()),
            ({"from": "2017-09-19", "to": "2017-09-21"}, set()),
        ],
    )
    def test_only_what_is_asked_for(self, ask: Ask, asked: dict[str, str], found: set[int]) -> None:
        assert set(numbers(ask("/v1/alerts", **{**DAY, **asked}).json())) == found

    def test_what_is_open_needs_no_time(self, ask: Ask) -> None:
        body = ask("/v1/alerts", store="all", open="true").json()

        assert (numbers(body), {one["open"] for one in body["alerts"]}) == ([6, 4, 1], {True})

    @pytest.mark.parametrize("more", [{}, {"open": "true"}, {"open": "false"}])
    def test_pages_follow_each_other_without_gap_or_overlap(
        self, ask: Ask, more: dict[str, str]
    ) -> None:
        whole = ask("/v1/alerts", **DAY, **more).json()["alerts"]
        found: list[dict[str, Any]] = []
        page = ask("/v1/alerts", **DAY, **more, limit="1").json()
        while page["next"]:
            found += page["alerts"]
            assert len(page["alerts"]) <= 1
            page = ask(page["next"]).json()

        assert [*found, *page["alerts"]] == whole

    def test_one_alert_has_its_states_and_its_ends(self, ask: Ask) -> None:
        ended = ask(f"/v1/alerts/{ENDED.alert_id}").json()
        end = ask(f"/v1/alerts/{END.alert_id}").json()
        opened = ask(f"/v1/alerts/{OPEN.alert_id}").json()

        assert (ended["alert"]["open"], opened["alert"]["open"]) == (False, True)
        assert ended["episode"] == plain(END)["episode"]
        assert (ended["states"], ended["ends"]) == ([plain(ENDED)], [plain(END)])
        assert (end["alert"]["of"], end["ends"]) == (ENDED.alert_id, [])
        assert opened["states"] == [plain(OPEN), plain(then(OPEN, "confirmed"))]

    def test_an_end_that_was_taken_back_leaves_its_raise_open(self, ask: Ask) -> None:
        body = ask(f"/v1/alerts/{REOPENED.alert_id}").json()

        assert (body["alert"]["open"], body["episode"]["ended"]) == (True, None)
        assert [one["state"] for one in body["ends"]] == ["provisional", "retracted"]

    def test_what_an_erasure_took_back_is_shown_no_more(self, ask: Ask) -> None:
        answer = ask(f"/v1/alerts/{ERASED.alert_id}")

        assert [one["state"] for one in answer.json()["states"]] == ["retracted"]
        assert "99" not in answer.text.replace(ERASED.alert_id, "")

    @pytest.mark.parametrize("alert_id", ["x", "0" * 64, "0" * 3_000, "%00%0a"])
    def test_an_id_that_nobody_knows_is_not_found(self, ask: Ask, alert_id: str) -> None:
        answer = ask(f"/v1/alerts/{alert_id}")

        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ({"store": ""}, 422),
            ({"store": "nobody"}, 404),
            ({"from": ""}, 422),
            ({"to": "then"}, 422),
            ({"from": "2026-11-24"}, 422),
            ({"from": "2020-01-01"}, 422),
            ({"from": "0001-01-01", "to": "0001-01-02"}, 422),
            ({"state": "sure"}, 422),
            ({"open": "perhaps"}, 422),
            ({"limit": "0"}, 422),
            ({"after": "x"}, 422),
            ({"colour": "red"}, 422),
        ],
    )
    def test_what_cannot_be_answered_is_refused(
        self, ask: Ask, asked: dict[str, str], status: int
    ) -> None:
        answer = ask("/v1/alerts", **{**DAY, **asked})

        assert (answer.status_code, answer.json()["status"]) == (status, status)


def alerts_of(store: str) -> list[Alert]:
    """What STORY tells of a store."""
    return [one for one in STORY if one.store_id == store]
