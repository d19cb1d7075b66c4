"""Services of docker-compose.yml as local services: the same arguments, this machine's
addresses."""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ops.local.processes import probes
from ops.local.processes.service import Launch, Service
from ops.local.services import catalogue
from runtime.process.files import REPOSITORY
from tests.unit.compose.files import environment, own_services, services

BIN = Path(sys.executable).parent
SPARK_ADDRESS = "spark-master:7077"
WORKER = "spark-worker-1"


def free_address() -> str:
    """host:port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def always_up() -> list[str]:
    """Our services that run without a profile and for good, in the file's order."""
    wanted = (name for name in own_services() if "profiles" not in services()[name])
    return [name for name in wanted if name != "provision"]


def local_services(spark: str) -> list[Service]:
    """Our services that need no profile and a Spark cluster of one worker at `spark` (host:port),
    in start order."""
    ours = [_ours(name, spark) for name in always_up()]
    return [_spark_master(spark), _spark_worker(spark), *ours]


def _ours(name: str, spark: str) -> Service:
    """The service as the local stack watches it, started by the compose file's command; the test
    brings what it needs."""
    with_spark = "spark-master" in services()[name]["depends_on"]
    return replace(
        catalogue.SERVICES[name],
        launch=lambda site: Launch(_argv(name, spark), {"PYTHONPATH": str(REPOSITORY)}),
        needs=(WORKER,) if with_spark else (),
    )


def _spark_master(address: str) -> Service:
    host, port = address.split(":")
    own = {"SPARK_MASTER_HOST": host, "SPARK_MASTER_PORT": port}
    return _spark("spark-master", address, own, ())


def _spark_worker(spark: str) -> Service:
    address = free_address()
    # One worker in place of two: the jobs of the compose file all have their cores.
    own = {
        "SPARK_WORKER_PORT": address.split(":")[1],
        "SPARK_WORKER_CORES": "8",
        "SPARK_WORKER_MEMORY": "4g",
    }
    return _spark(WORKER, address, own, ("spark-master",), spark)


def _spark(
    name: str, address: str, own: Mapping[str, str], needs: tuple[str, ...], spark: str = ""
) -> Service:
    web = {
        f"SPARK_{role}_WEBUI_PORT": free_address().split(":")[1] for role in ("MASTER", "WORKER")
    }
    # As in the image, the environment's own Python comes first: spark-class asks it where Spark
    # lies.
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    told = {**environment(services()[name]), **path, **web, **own}
    return Service(
        name=name,
        launch=lambda site: Launch(
            _argv(name, spark), {**told, "SPARK_WORKER_DIR": str(site.data(name))}
        ),
        is_ready=lambda site: probes.accepts_connections(address),
        needs=needs,
    )


def _argv(name: str, spark: str) -> tuple[str, ...]:
    """The compose file's command: the program from this environment, Spark's address replaced,
    all else as it stands."""
    program, *arguments = services()[name]["command"]
    return (
        str(BIN / Path(program).name),
        *(argument.replace(SPARK_ADDRESS, spark) for argument in arguments),
    )
