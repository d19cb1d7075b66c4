"""Whatever is sent in a vendor's form, no more is made of it than its size allows, and each event
is taken or refused for a known reason.

With `--bodies 10000` so many bodies of each form are looked at.
"""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import SecretStr

from ingest.contract.vendor import FREE_BYTES, MAX_LETTERS, SkippedPart, VendorBody, WorkBudget
from ingest.gateway.submission import Endpoint, check_lines, endpoints
from ingest.installation.arrival import Rules
from schemas import loader
from tally.config.settings import Settings
from tally.errors import BodyTooLarge, Forbidden, KeysUnreachable, RejectedEvent
from tests.laws.events.vendor_bodies import recorded, sent_bodies

ARRIVED = datetime(2026, 3, 2, 12, tzinfo=UTC)
FORMS = ("axis", "axis_csv", "document", "meraki", "poslog", "xovis")
KNOWN = (RejectedEvent, BodyTooLarge, Forbidden, KeysUnreachable)
PARAMETERS = {"axis_csv": {"sensor": "accc00000001"}}
_SERIAL, _NAME = "s" * 64, "9" * 300
_RETAIL = (
    "<RetailTransaction><LineItem><Sale><ExtendedAmount>1</ExtendedAmount></Sale></LineItem>"
    "</RetailTransaction>"
)
# Each becomes many times its own bytes.
BOMBS = {
    "axis": json.dumps(
        {
            "sensor": {"serial": _SERIAL},
            "data": {"measurements": [{"kind": "people-counts"}] * 40_000},
        }
    ),
    "axis_csv": "start,end,in,out\n" + "x\n" * 8_000,
    "document": json.dumps({"note": "x" * 3_000, "lines": [{"line": at} for at in range(5_000)]}),
    "meraki": json.dumps(
        {
            **{"version": "3.0", "secret": "s3cret", "type": "WiFi"},
            "data": {
                **{"networkId": "L_11", "observations": []},
                **{"startTime": "2026-03-02T11:00:00Z", "endTime": "2026-03-02T11:05:00Z"},
                "reportingAps": [{"mac": f"ap{at}"} for at in range(8_000)],
            },
        }
    ),
    "poslog": f"<Transaction><BusinessUnit><UnitID>{_NAME}</UnitID></BusinessUnit>"
    f"<WorkstationID>{_NAME}</WorkstationID><SequenceNumber>{_NAME}</SequenceNumber>"
    f"<TransactionID>{_NAME}1</TransactionID><CurrencyCode>{_NAME}</CurrencyCode>"
    f"<EndDateTime>{'2' * 1_024}</EndDateTime>{_RETAIL * 450}</Transaction>",
    "xovis": json.dumps(
        {
            "logics_data": {
                "sensor_info": {"serial_number": _SERIAL},
                "logics": [{"id": 1, "records": [{}] * 15_000}],
            }
        }
    ),
}
# Of so many bodies in a hundred at least one event counts, or the law would say little.
MIN_ACCEPTED = 5


class Outcome(NamedTuple):
    """What became of a body."""

    name: str
    made_bytes: int


def endpoint_of(form: str) -> Endpoint:
    return next(one for one in endpoints() if one.path.endswith(f"/{form}"))


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rules(form: str, tmp_path: Path) -> Rules:
    file = tmp_path / "stores.yaml"
    file.write_text(recorded(form)["stores"], "utf-8")
    secrets = SecretStr(json.dumps(recorded(form).get("secrets", {})))
    return Rules.from_settings(Settings(home=tmp_path, stores_file=file, vendor_secrets=secrets))


def made_of(body: VendorBody, endpoint: Endpoint) -> int:
    """Bytes of all messages, counted here; of a body that is refused those before that."""
    made = 0
    assert endpoint.messages is not None
    try:
        for _, message in endpoint.lines(body, is_ndjson=False):
            made += 0 if isinstance(message, SkippedPart) else len(message)
    except KNOWN:
        pass
    return made


def outcome_of(body: VendorBody, endpoint: Endpoint) -> Outcome:
    """Raises AssertionError for what the law forbids, and whatever the form raises that it may not
    raise."""
    made = made_of(body, endpoint)
    assert made <= 2 * len(body.content) + FREE_BYTES
    # Of the form's own errors none is hidden by the budget that was used up.
    again = VendorBody(body.content, body.arrived_at, body.rules, body.parameters)
    try:
        found = check_lines(again, endpoint)
    except KNOWN as error:
        return Outcome(type(error).__name__, made)
    reasons = {error.reason for _, error in found.rejected}
    assert reasons <= {*loader.dead_letter_reasons()} - {"reading_failed"}
    assert len(found.letters) <= MAX_LETTERS + 1
    assert all(len(letter) <= body.rules.max_bytes for _, letter in found.letters)
    name = "accepted" if found.accepted else "letters" if found.letters else "nothing"
    return Outcome(name, made)


def test_each_form_makes_no_more_than_its_bodies_allow(
    form: str, rules: Rules, pytestconfig: pytest.Config
) -> None:
    most, outcomes, endpoint = (
        int(pytestconfig.getoption("bodies")),
        Counter[str](),
        endpoint_of(form),
    )

    @settings(max_examples=most, suppress_health_check=[*HealthCheck], database=None)
    @given(sent_bodies(form))
    def law(sent: tuple[bytes, dict[str, str]]) -> None:
        content, parameters = sent
        outcome = outcome_of(VendorBody(content, ARRIVED, rules, parameters), endpoint)
        outcomes.update([outcome.name, "bodies"])

    law()

    print(f"{form}: {dict(outcomes)}")
    assert outcomes["bodies"] >= most
    assert outcomes["accepted"] * 100 >= MIN_ACCEPTED * outcomes["bodies"]


def test_a_form_that_makes_more_is_found(
    form: str, rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a budget that allows everything a head of a body is copied without end."""
    monkeypatch.setattr(WorkBudget, "check_bytes", lambda *_given: None)
    body = VendorBody(BOMBS[form].encode(), ARRIVED, rules, PARAMETERS.get(form, {}))

    assert made_of(body, endpoint_of(form)) > 2 * len(body.content) + FREE_BYTES


def test_the_same_bodies_are_refused_under_their_budget(form: str, rules: Rules) -> None:
    body = VendorBody(BOMBS[form].encode(), ARRIVED, rules, PARAMETERS.get(form, {}))

    assert outcome_of(body, endpoint_of(form)).name == "BodyTooLarge"
