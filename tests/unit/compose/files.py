"""docker-compose.yml and the Dockerfile as values."""

import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import yaml

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "ops/local/image/Dockerfile"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")


@cache
def compose() -> dict[str, Any]:
    """docker-compose.yml with its anchors resolved."""
    return cast(
        dict[str, Any],
        yaml.load((ROOT / "docker-compose.yml").read_text("utf-8"), yaml.CSafeLoader),
    )


def services() -> dict[str, dict[str, Any]]:
    """Service name to its definition."""
    return cast(dict[str, dict[str, Any]], compose()["services"])


def compose_spec() -> dict[str, Any]:
    """The compose-spec JSON schema, as check-jsonschema carries it."""
    text = (
        files("check_jsonschema")
        .joinpath("builtin_schemas/vendor/compose-spec.json")
        .read_text("utf-8")
    )
    return cast(dict[str, Any], json.loads(text))


def environment(service: dict[str, Any]) -> dict[str, str]:
    """A service's environment; a required variable of the operator's stands for itself.

    One without a value is handed on where the operator has set it, and here he has not.
    """
    return {
        name: _VARIABLE.sub(_given, str(value))
        for name, value in service.get("environment", {}).items()
        if value is not None
    }


def passed_variables(service: dict[str, Any]) -> set[str]:
    """The names of all variables that reach a service once the operator has set them."""
    return set(service.get("environment", {}))


def _given(variable: re.Match[str]) -> str:
    return variable[3] if variable[2] == "-" else f"given-{variable[1]}"


def images() -> dict[str, str]:
    """Where an image is named (service, or line of the Dockerfile) to its name and tag; built
    images left out."""
    built = {service["image"] for service in services().values() if "build" in service}
    named = {
        name: str(service["image"])
        for name, service in services().items()
        if service["image"] not in built
    }
    lines = [
        line.split()
        for line in DOCKERFILE.read_text("utf-8").splitlines()
        if line.startswith("FROM ")
    ]
    return named | {f"Dockerfile target {line[3]}": line[1] for line in lines}


def own_services() -> dict[str, list[str]]:
    """Services that run a module of this repository, to their commands."""
    commands = {name: service.get("command", []) for name, service in services().items()}
    return {name: command for name, command in commands.items() if command[:2] == ["python", "-m"]}
