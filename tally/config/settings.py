"""All settings of Tally in one frozen object, built once from the environment in each `main`.

Precedence: environment variable TALLY_<NAME>, then TALLY_HOME/addresses.env (written by `tally
up`), then the default. `docs/generated/settings.md` is made from this file; it also names what is
read from the environment and is no setting.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from tally.config.home import STORES_FILE, add_stores_file, home_folder, load_addresses
from tally.config.lateness import FamilyLateness, Lateness, find_lateness, lateness_variable
from tally.config.plain_values import list_problems
from tally.config.store_settings import StoreSettings
from tally.errors import BadSettings

# Delta's reader takes `%41` for an A, and `[` for the beginning of an address.
_FORBIDDEN_IN_HOME = "%[]"


def user_cache() -> Path:
    """Folder of the downloaded JVM artifacts: under XDG_CACHE_HOME if set, else ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tally"


class Settings(StoreSettings):
    """Every setting, with unit and meaning; frozen.

    Nothing below a `main` reads the environment.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Field(
        Path(".tally"), description="folder of all local data, logs and process records"
    )
    cache: Path = Field(
        default_factory=user_cache, description="folder of the downloaded JVM artifacts"
    )

    kafka: str = Field(
        "127.0.0.1:9092", description="bootstrap servers of Kafka, host:port, comma between several"
    )
    cassandra: str = Field(
        "127.0.0.1:9042",
        description="contact points of Cassandra, host:port, comma between several",
    )
    cassandra_datacenter: str = Field(
        "datacenter1", description="data centre that LOCAL_QUORUM means"
    )
    keyspace: str = Field("tally", description="Cassandra keyspace of all views")
    replication: int = Field(
        1, ge=1, description="copies of each Kafka partition and Cassandra row"
    )
    kafka_controller: str = Field(
        "127.0.0.1:9093", description="host:port of the local broker's controller"
    )
    cassandra_storage: str = Field(
        "127.0.0.1:7000",
        description="host:port on which the local Cassandra node talks to its peers",
    )
    gateway: str = Field("127.0.0.1:8081", description="host:port on which the gateway listens")
    api: str = Field(
        "127.0.0.1:8080", description="host:port on which the API and the dashboard listen"
    )
    allowed_hosts: str = Field(
        "",
        description=(
            "further names under which gateway and API may be asked, comma between; loopback"
            " always; `*` is any name"
        ),
    )
    airflow: str = Field("127.0.0.1:8793", description="host:port of the Airflow API server")
    spark_master: str = Field("local[*]", description="Spark master URL")
    spark_memory: str = Field("2g", description="heap of each Spark driver")
    spark_java_options: str = Field(
        "",
        description=(
            "collector, compiler and other options of the JVMs of Spark's drivers and executors;"
            " empty: what suits each job"
        ),
    )
    spark_driver_host: str = Field(
        "127.0.0.1", description="host name or address at which Spark executors reach the driver"
    )
    ready_file: Path | None = Field(
        None, description="file that a job without HTTP touches once it works; its starter sets it"
    )

    heartbeat_file: Path | None = Field(
        None, description="file for the heartbeat of a job without HTTP; its starter sets it"
    )
    stalled_after_seconds: float = Field(
        60.0,
        gt=0,
        description=(
            "seconds without a heartbeat, or without progress while there is work,"
            " after which a job is `stalled`"
        ),
    )

    partitions: int = Field(
        4, ge=1, description="partitions of each topic; a change needs new topics"
    )
    raw_retention_seconds: int = Field(
        86400,
        ge=1,
        description="seconds that raw topics keep a message; an unread one is kept longer",
    )
    raw_backlog_seconds: int = Field(
        604800,
        ge=1,
        description=(
            "age of the oldest raw message that the normaliser has not read at which the gateway"
            " takes no more"
        ),
    )
    raw_backlog_bytes: int = Field(
        10_000_000_000,
        ge=1,
        description=(
            "bytes of raw messages that the normaliser has not read at which the gateway takes no"
            " more"
        ),
    )
    drop_retention_seconds: int = Field(86400, ge=0, description="seconds dropped files are kept")
    canonical_retention_hours: int = Field(
        168, ge=1, description="hours that canonical topics keep a record"
    )
    max_message_bytes: int = Field(
        1_000_000,
        ge=1,
        description="largest raw message in bytes; larger is a dead letter too_large",
    )
    future_tolerance_seconds: int = Field(
        300, ge=0, description="seconds that happened_at may lie after arrival"
    )
    earliest_event: date = Field(
        date(2000, 1, 1),
        description="UTC day before which nothing has happened: the clock has fallen back",
    )

    delivery: Literal["at_most_once", "at_least_once", "exactly_once"] = Field(
        "exactly_once", description="guarantee of the processor loop"
    )
    normalisers: int = Field(
        1,
        ge=1,
        description="processes of the normaliser in the local stack; they share the partitions",
    )
    normaliser_slot: int = Field(
        0,
        ge=0,
        description="which of several normalisers this is; a second one of a slot ends the first",
    )
    evaluator_slot: int = Field(
        0,
        ge=0,
        description="which of several evaluators this is; a second one of a slot ends the first",
    )
    dispatcher_slot: int = Field(
        0,
        ge=0,
        description="which of several dispatchers this is; a second one of a slot ends the first",
    )
    alignment_seconds: int = Field(
        600,
        ge=0,
        description="event-time lead over the slowest partition at which the normaliser pauses one",
    )
    transaction_records: int = Field(
        2000, ge=1, description="most input records in one normaliser transaction"
    )

    webhook_networks: str = Field(
        "",
        description=(
            "networks that webhooks may be called in beside the public internet, e.g. 10.20.0.0/16;"
            " comma between; plain http with 127.0.0.0/8 alone"
        ),
    )
    webhook_secrets: Path | None = Field(
        None,
        description=(
            "JSON file of the secrets that sign webhooks, by name, readable for its owner alone;"
            " default TALLY_HOME/webhook-secrets.json"
        ),
    )

    # By family, each from a variable of its own; without one a family has its source's default.
    lateness: tuple[Lateness, ...] = ()
    trigger_seconds: float = Field(
        0.0,
        ge=0,
        description="least seconds between micro-batches of the views; 0: each as the last ends",
    )
    micro_batch_records: int = Field(
        250_000,
        ge=1,
        le=1_000_000,
        description="most records in one micro-batch of the views; more wait for the next",
    )
    receipts_trigger_seconds: float = Field(
        10.0,
        ge=0,
        description="least seconds between micro-batches of the raw receipts; the views come first",
    )
    shuffle_partitions: int = Field(
        2, ge=1, description="Spark shuffle partitions and state stores; fixed by the first start"
    )
    speed_retention_days: int = Field(
        400,
        ge=1,
        le=7300,
        description="days that a speed row lives after its window's end or its writing, the later",
    )

    final_patience_seconds: float = Field(
        3600.0,
        gt=0,
        description="seconds without word that the master is current after which nothing is final",
    )
    ingest_trigger_seconds: float = Field(
        30.0,
        ge=0,
        description="seconds between two appends to the master; longer makes larger files",
    )
    checkpoints: Path | None = Field(
        None, description="folder of the streaming checkpoints; default TALLY_HOME/data/checkpoints"
    )

    @field_validator("home")
    @classmethod
    def _check_home_path(cls, home: Path) -> Path:
        if forbidden := [sign for sign in _FORBIDDEN_IN_HOME if sign in str(home.absolute())]:
            raise ValueError(
                f"the folder's whole path holds `{forbidden[0]}`,"
                " and the master dataset cannot be read there; choose another"
            )
        return home

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        """Settings from the environment and TALLY_HOME/addresses.env.

        Raises BadSettings that names each bad variable.
        """
        environment = os.environ if environment is None else environment
        home = home_folder(environment)
        named = add_stores_file({**load_addresses(home), **environment}, home)
        values = {
            name: named[f"TALLY_{name.upper()}"]
            for name in cls.model_fields
            if f"TALLY_{name.upper()}" in named
        }
        lateness = find_lateness(named)
        try:
            return cls.model_validate({**values, "lateness": lateness})
        except ValidationError as error:
            families = [family for family, _ in lateness]
            problems = list_problems(error, {}, lambda place: (_variable_name(place, families),))
            bad = "; ".join(problems)
            raise BadSettings(f"settings: {bad}. Correct or unset these variables.") from error

    @property
    def master_path(self) -> Path:
        """Folder of the Delta table that holds every canonical record."""
        return self.home / "data" / "master"

    @property
    def registry(self) -> Path:
        """The stores file that `tally stores import` writes, whether it is there or not."""
        return self.stores_file or self.home / STORES_FILE

    def checkpoint(self, query: str) -> Path:
        """Checkpoint folder of one streaming query."""
        return (self.checkpoints or self.home / "data" / "checkpoints") / query

    def lateness_seconds(self, family: FamilyLateness) -> int:
        """Allowed lateness of one family in seconds."""
        return dict(self.lateness).get(family.name, family.lateness_seconds)


def _variable_name(place: Sequence[int | str], families: Sequence[str]) -> str:
    at = place[1] if len(place) > 1 else None
    return lateness_variable(families[at]) if isinstance(at, int) else f"TALLY_{place[0]}".upper()
