"""What a service reads as a setting reaches it through docker-compose.yml, or is listed here."""

import ast
import inspect

import pytest

from tally.config.settings import Settings
from tests.unit.compose.files import own_services, passed_variables, services
from tests.unit.compose.read_settings import DERIVED, fields_read, read_variables

SLOT = "the file has one process of the service; who adds a second one gives it a slot there"
# By variable, or by service and variable, why it is not passed on.
NOT_PASSED: dict[str | tuple[str, str], str] = {
    "TALLY_READY_FILE": "set by whoever starts a job and waits for it; here its heartbeat tells",
    "TALLY_NORMALISER_SLOT": SLOT,
    "TALLY_EVALUATOR_SLOT": SLOT,
    "TALLY_DISPATCHER_SLOT": SLOT,
    "TALLY_STOCK_SLOT": SLOT,
    "TALLY_STOCK_ADAPTER_SLOT": SLOT,
    (
        "gateway",
        "TALLY_LOYALTY_KEY",
    ): "the normaliser alone hashes loyalty ids",
    ("normaliser", "TALLY_VENDOR_SECRETS"): "vendors' bodies come to the gateway alone",
    ("normaliser", "TALLY_KEY_FOLDER"): "the keys of devices are the gateway's alone",
}
# Jobs that Airflow's scheduler starts.
SCHEDULED = (
    "batch_layer.master.maintenance",
    "batch_layer.views.baselines",
    "batch_layer.views.proof",
    "batch_layer.views.rebuild",
)


def started() -> list[tuple[str, str]]:
    """Service, and the module that it starts."""
    ours = [(name, command[2]) for name, command in own_services().items()]
    return ours + [("airflow-scheduler", module) for module in SCHEDULED]


def missing(service: str, module: str, passed: set[str]) -> list[str]:
    """Variables that the module reads, and that are neither passed on nor listed."""
    return sorted(
        name
        for name in read_variables(module) - passed
        if name not in NOT_PASSED and (service, name) not in NOT_PASSED
    )


@pytest.mark.parametrize(("service", "module"), started())
def test_every_setting_that_a_service_reads_is_passed_on(service: str, module: str) -> None:
    assert missing(service, module, passed_variables(services()[service])) == []


@pytest.mark.parametrize(
    ("service", "module", "name"),
    [
        ("api", "web", "TALLY_RULE_EDITS"),
        ("api", "web", "TALLY_PRIVACY_SMALLEST_CELL"),
        ("evaluator", "alerting.evaluate", "TALLY_PRIVACY_SMALLEST_CELL"),
        ("evaluator", "alerting.evaluate", "TALLY_COVERAGE_THRESHOLD"),
        ("speed", "speed_layer.job", "TALLY_SALES_LATENESS_SECONDS"),
        ("gateway", "ingest.gateway", "TALLY_STORES_FILE"),
    ],
)
def test_one_that_is_taken_away_is_missed(service: str, module: str, name: str) -> None:
    passed = passed_variables(services()[service])

    assert missing(service, module, passed - {name}) == [name]


def test_every_exception_is_one() -> None:
    read = {service: set[str]() for service, _ in started()}
    for service, module in started():
        read[service] |= read_variables(module)

    for entry in NOT_PASSED:
        of, name = entry if isinstance(entry, tuple) else (None, entry)
        readers = [service for service, names in read.items() if name in names]
        assert readers and (of is None or of in readers), entry
        for service in [of] if of else readers:
            assert name not in passed_variables(services()[service]), entry


def test_what_settings_are_asked_for_is_seen() -> None:
    text = "a = settings.rule_edits; b = self._settings.checkpoint('x'); c = statement.keyspace"

    assert [*fields_read(ast.parse(text))] == ["rule_edits", "checkpoints", "home"]


def test_every_property_of_the_settings_has_what_it_reads() -> None:
    own = {
        name
        for name, value in vars(Settings).items()
        if not name.startswith("_")
        and name not in Settings.model_fields
        and (isinstance(value, property) or inspect.isfunction(value))
    }

    assert own == set(DERIVED)
