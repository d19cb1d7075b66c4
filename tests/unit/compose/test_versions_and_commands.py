"""What the compose file names is what the project is locked to, configured for and started by."""

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from ops.local.processes.service import Site
from ops.local.services.airflow_run import COMPONENTS
from ops.local.services.catalogue import OPTIONAL, SERVICES
from tally.config.settings import Settings
from tests.unit.compose.files import DOCKERFILE, ROOT, environment, images, own_services, services
from tests.unit.compose.read_settings import imported_by

FULL_VERSION = re.compile(
    r"\d+\.\d+\.\d+\S*|\d{2}\.\d+\S*"
)  # PostgreSQL's versions have two numbers since 10
MUST_AGREE = (
    "auto.create.topics.enable",
    "transaction.max.timeout.ms",
    "message.max.bytes",
    "num.partitions",
)
SITE = Site.from_settings(Settings(), {})
LOCAL = {**SERVICES, **OPTIONAL}


def test_every_image_is_named_with_a_full_version() -> None:
    assert {
        where: image
        for where, image in images().items()
        if not FULL_VERSION.fullmatch(tag_of(image))
    } == {}


@pytest.mark.parametrize(
    "image", ["postgres", "postgres:17", "apache/kafka:latest", "apache/kafka:4.2", "cassandra:5.0"]
)
def test_a_planted_short_version_is_found(image: str) -> None:
    assert not FULL_VERSION.fullmatch(tag_of(image))


def test_versions_are_those_that_the_tests_run_with() -> None:
    named = {image.rsplit(":", 1)[0]: tag_of(image).split("-")[0] for image in images().values()}

    jvm = {
        found.get("name"): found.get("rev")
        for found in ElementTree.parse(ROOT / "ops" / "local" / "ivy.xml").iter("dependency")
    }
    locked = {
        package["name"]: package["version"]
        for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    }
    assert {
        name: named[name]
        for name in ("apache/kafka", "cassandra", "apache/spark", "apache/airflow")
    } == {
        "apache/kafka": jvm["kafka_2.13"],
        "cassandra": jvm["cassandra-all"],
        "apache/spark": locked["pyspark"],
        "apache/airflow": locked["apache-airflow"],
    }
    assert f"uv=={locked['uv']}" in DOCKERFILE.read_text()


@pytest.mark.parametrize("name", [name for name in own_services() if name != "provision"])
def test_our_services_are_started_as_the_local_stack_starts_them(name: str) -> None:
    assert tuple(own_services()[name][1:]) == LOCAL[name].launch(SITE).argv[1:]


def test_every_service_of_the_local_stack_is_there() -> None:
    of_our_own = LOCAL.keys() - {"kafka", "cassandra", "airflow"}

    assert own_services().keys() == of_our_own | {"provision"}


def test_airflow_is_started_as_the_local_stack_starts_it() -> None:
    commands = [
        service["command"] for name, service in services().items() if name.startswith("airflow-")
    ]

    assert commands == [
        ["airflow", "db", "migrate"],
        *(["airflow", *component] for component in COMPONENTS),
    ]


def test_brokers_are_configured_like_the_local_one() -> None:
    text = (
        (ROOT / "ops/local/services/config/kafka.properties")
        .read_text()
        .replace("{partitions}", str(Settings().partitions))
    )
    local = dict(
        line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")
    )
    served = environment(services()["kafka-1"])

    assert {name: served["KAFKA_" + name.upper().replace(".", "_")] for name in MUST_AGREE} == {
        name: local[name] for name in MUST_AGREE
    }
    assert int(served["KAFKA_NUM_PARTITIONS"]) == Settings().partitions


def test_airflow_names_are_settings_of_airflow() -> None:
    known = airflow_options()
    named = {
        key
        for service in services().values()
        for key in environment(service)
        if key.startswith("AIRFLOW__")
    }

    assert {key for key in named if key not in known} == set()


def test_whatever_the_dockerfile_copies_from_the_repository_is_there() -> None:
    lines = [
        line.split()[1:-1]
        for line in DOCKERFILE.read_text().splitlines()
        if line.startswith("COPY ")
    ]
    copied = [path for sources in lines for path in sources if not sources[0].startswith("--from")]

    assert copied and [path for path in copied if not (ROOT / path).exists()] == []


def test_whatever_the_dockerfile_copies_from_the_repository_is_sent_to_the_build() -> None:
    lines = [
        line.split()[1:-1]
        for line in DOCKERFILE.read_text().splitlines()
        if line.startswith("COPY ")
    ]
    copied = {
        path.rstrip("/") for paths in lines for path in paths if not paths[0].startswith("--from")
    }
    sent = {
        line[1:]
        for line in DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }

    assert copied - sent == set()


def copied_by_image() -> list[set[str]]:
    """The folders that each image of the Dockerfile holds."""
    images = DOCKERFILE.read_text().split("\nFROM ")[1:]
    return [
        {
            path.rstrip("/")
            for line in image.splitlines()
            if line.startswith("COPY ")
            for path in line.split()[-1:]
        }
        for image in images
    ]


def test_every_image_with_the_schemas_has_the_sources_too() -> None:
    """What the tables and families are, the sources' folders say."""
    with_schemas = [copied for copied in copied_by_image() if "schemas" in copied]
    assert len(with_schemas) == 2
    assert all(copied & {"ingest", "ingest/sources"} for copied in with_schemas)


@pytest.mark.parametrize(
    ("image", "modules"),
    [
        (0, [command[2] for command in own_services().values()]),
        (1, ["batch_layer.views.rebuild", "batch_layer.views.baselines"]),
    ],
)
def test_an_image_holds_what_its_processes_import(image: int, modules: list[str]) -> None:
    stages = [copied for copied in copied_by_image() if "schemas" in copied]
    needed = {name for module in modules for name in imported_by(module)}

    assert len(needed) > 50
    assert {name for name in needed if name.split(".")[0] not in stages[image]} == set()


def test_an_image_without_a_folder_is_found() -> None:
    assert {name.split(".")[0] for name in imported_by("web")} >= {"alerting", "serving", "web"}


def tag_of(image: str) -> str:
    """The tag of an image, "" if it has none."""
    return image.rsplit(":", 1)[1] if ":" in image else ""


def airflow_options() -> set[str]:
    """Every option of Airflow's own list, as the environment names it."""
    found = importlib.util.find_spec("airflow")
    assert found is not None and found.origin is not None
    file = Path(found.origin).parent / "config_templates/config.yml"
    sections: dict[str, Any] = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
    return {
        f"AIRFLOW__{section}__{option}".upper()
        for section, told in sections.items()
        for option in told["options"]
    }
