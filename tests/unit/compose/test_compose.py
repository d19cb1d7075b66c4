import copy
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ops.docs.reference import variables
from ops.local.services.catalogue import SERVICES
from tally.config.settings import Settings
from tests.unit.compose.files import (
    ROOT,
    compose,
    compose_spec,
    environment,
    own_services,
    passed_variables,
    services,
)

BY_SERVICE = pytest.mark.parametrize("name", services())
SETTING = "-Dcassandra.settings."
SECRET_WORDS = ("PASSWORD", "SECRET", "KEY", "TOKEN", "SQL_ALCHEMY_CONN")


def test_it_is_valid_by_the_compose_specification() -> None:
    assert [
        error.message for error in Draft202012Validator(compose_spec()).iter_errors(compose())
    ] == []


def test_a_planted_misspelling_is_not_valid() -> None:
    planted = copy.deepcopy(compose())
    planted["services"]["api"]["helthcheck"] = {}

    assert not Draft202012Validator(compose_spec()).is_valid(planted)


def test_what_a_node_promises_is_the_same_on_a_server_and_on_a_laptop() -> None:
    file = ROOT / "ops/local/services/config/cassandra.yaml"
    # Its placeholders are no YAML as they stand.
    local = yaml.safe_load(file.read_text("utf-8").replace("{", "").replace("}", ""))

    for name in ("cassandra-1", "cassandra-2", "cassandra-3"):
        options = environment(services()[name])["JVM_EXTRA_OPTS"].split()
        told = [one.removeprefix(SETTING) for one in options if one.startswith(SETTING)]
        on_server = dict(one.split("=", 1) for one in told)

        assert "-Dcassandra.config.allow_system_properties=true" in options
        # The image's own file has a period, which a node refuses beside `batch`.
        assert on_server.pop("commitlog_sync_period") == "0ms"
        assert on_server == {one: local[one] for one in ("commitlog_sync", "paxos_variant")}


def test_there_are_three_copies_of_what_kafka_and_cassandra_keep() -> None:
    assert [name for name in services() if name.startswith("kafka-")] == [
        "kafka-1",
        "kafka-2",
        "kafka-3",
    ]
    assert [name for name in services() if name.startswith("cassandra-")] == [
        "cassandra-1",
        "cassandra-2",
        "cassandra-3",
    ]
    assert environment(services()["api"])["TALLY_REPLICATION"] == "3"


@BY_SERVICE
def test_each_long_running_service_has_a_health_check_and_comes_back(name: str) -> None:
    service = services()[name]

    assert service["restart"] == ("unless-stopped" if "healthcheck" in service else "no")


def test_only_services_that_end_have_no_health_check() -> None:
    waited_for = {
        needed
        for service in services().values()
        for needed, how in service.get("depends_on", {}).items()
        if how["condition"] == "service_completed_successfully"
    }

    assert {
        name for name, service in services().items() if "healthcheck" not in service
    } == waited_for


@BY_SERVICE
def test_logs_are_bounded(name: str) -> None:
    options = services()[name]["logging"]["options"]

    assert set(options) == {"max-size", "max-file"}


@BY_SERVICE
def test_each_service_of_the_local_stack_has_at_least_its_time_to_close_down(name: str) -> None:
    local = SERVICES.get(name.removesuffix("-1"))
    grace = services()[name].get("stop_grace_period", "10s")
    seconds = int(grace[:-1]) * (60 if grace.endswith("m") else 1)

    assert local is None or seconds >= local.stop_seconds


@pytest.mark.parametrize("name", [name for name in own_services() if name != "provision"])
def test_refusal_of_a_process_of_ours_is_held_and_not_repeated(name: str) -> None:
    service = services()[name]

    assert (service["entrypoint"], service["init"]) == (
        ["python", "-m", "runtime.process.container"],
        True,
    )


@pytest.mark.parametrize(
    "name",
    [
        *("normaliser", "speed", "receipts", "master", "evaluator", "projector", "dispatcher"),
        *("stock", "stock-adapter"),
    ],
)
def test_job_without_http_is_healthy_by_the_age_of_its_heartbeat(name: str) -> None:
    service = services()[name]
    file = environment(service)["TALLY_HEARTBEAT_FILE"]

    assert service["healthcheck"]["test"] == [
        "CMD",
        "python",
        "-m",
        "runtime.process.heartbeat",
        file,
        "60",
    ]
    assert any(file.startswith(mount.partition(":")[0]) for mount in service["tmpfs"])


@BY_SERVICE
def test_whatever_a_service_waits_for_can_become_so(name: str) -> None:
    for needed, how in services()[name].get("depends_on", {}).items():
        assert ("healthcheck" in services()[needed]) == (how["condition"] == "service_healthy")


@BY_SERVICE
def test_data_lie_in_named_volumes(name: str) -> None:
    mounts = [mount.split(":")[0] for mount in services()[name].get("volumes", [])]

    assert set(mounts) <= set(compose()["volumes"])


@BY_SERVICE
def test_ports_are_published_on_loopback_only(name: str) -> None:
    assert [
        port for port in services()[name].get("ports", []) if not port.startswith("127.0.0.1:")
    ] == []


@BY_SERVICE
def test_tally_names_are_settings_with_values_that_settings_take(name: str) -> None:
    named = {
        key: value
        for key, value in environment(services()[name]).items()
        if key.startswith("TALLY_")
    }

    passed = {key for key in passed_variables(services()[name]) if key.startswith("TALLY_")}
    assert passed - variables() == set()
    Settings.load(named)


def test_no_service_carries_a_secret() -> None:
    assert [line for service in services().values() for line in secrets_in(service)] == []


@pytest.mark.parametrize(
    "name", ["POSTGRES_PASSWORD", "AIRFLOW__API_AUTH__JWT_SECRET", "TALLY_LOYALTY_KEY"]
)
def test_a_planted_secret_is_found(name: str) -> None:
    assert secrets_in({"environment": {name: "hunter2"}}) == [name]
    assert secrets_in({"environment": {name: "${ANY:-hunter2}"}}) == [name]
    assert secrets_in({"environment": {name: "${ANY:?a key}"}}) == []


def secrets_in(service: dict[str, Any]) -> list[str]:
    """Names of secrets that have a value in the file; required variables of the operator's have
    none."""
    told = service.get("environment", {}).items()
    # One without a value is the operator's.
    named = {name: str(value) for name, value in told if value is not None}
    return [
        name
        for name, value in named.items()
        if any(word in name for word in SECRET_WORDS)
        and not name.endswith(("_FOLDER", "_DAYS"))
        # Nothing, unless the operator says it.
        and not value.endswith(":-}")
        and ":?" not in value
    ]
