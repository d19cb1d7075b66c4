"""All settings of Tally in one frozen object, built once from the environment in each `main`.

Precedence: environment variable TALLY_<NAME>, then TALLY_HOME/addresses.env (written by `tally
up`), then the default. `docs/generated/settings.md` is made from this file; it also names what is
read from the environment and is no setting.
"""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from tally.config.plain_values import list_problems
from tally.errors import BadSettings
from tally.families.family import Family
from tally.people.small_cells import MIN_THRESHOLD
from tally.time.day_clock import MAX_KEY_DAYS

ADDRESSES_FILE, STORES_FILE = "addresses.env", "stores.yaml"
# Delta's reader takes `%41` for an A, and `[` for the beginning of an address.
_FORBIDDEN_IN_HOME = "%[]"
# Matches any family: which families there are is not known where settings are read.
_LATENESS = re.compile("TALLY_([A-Z][A-Z0-9_]*)_LATENESS_SECONDS")


class Lateness(NamedTuple):
    """Seconds that the speed layer keeps a window of one family open."""

    family: str
    seconds: Annotated[int, Field(ge=1)]


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tally"


class Settings(BaseModel):
    """Every setting, with unit and meaning. Nothing below a `main` reads the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # Stores, their sensors, and people there.
    default_currency: str = "USD"
    """currency of a store that names none, ISO 4217"""
    default_timezone: str = "UTC"
    """time zone of a store that names none"""
    stores_file: Path | None = None
    """YAML: what is known of each store; default TALLY_HOME/stores.yaml, if it is there"""
    coverage_threshold: float = Field(0.9, ge=0, le=1)
    """share of the open hours for which the sensors of the stores file must have been there, or an
    answer that is made of them is not complete"""
    coverage_below: Literal["estimate", "withhold"] = "estimate"
    """what becomes of a number below it: it says `estimated`, or is withheld"""
    key_days: int = Field(1, ge=1, le=MAX_KEY_DAYS)
    """local days for which a device of a store is known as the same one; its key is destroyed six
    hours after them; lowered, longer periods are read and rebuilt in part"""
    key_folder: Path | None = None
    """folder of the devices' keys, beside the data; default TALLY_HOME/keys"""
    privacy_smallest_cell: int = Field(0, ge=0)
    """devices below which API and pages withhold a number of WiFi, and what it could be reckoned
    from; 10 is usual, 0 withholds nothing"""
    vendor_secrets: SecretStr = SecretStr("{}")
    """JSON: by vendors' format, what its senders must know and what is answered to who asks first,
    e.g. {"meraki": {"secret": "…", "validator": "…"}}"""
    poslog_item_types: str = ""
    """what kinds of article that are a vendor's own in POSLog count as; the others count as
    articles, e.g. acs:NegativeItem=deposit_refund,x:Bag=fee"""
    loyalty_key: SecretStr = SecretStr("")
    """secret key of the loyalty hash; without it no loyalty id is kept"""

    # Stock, and alerts.
    stock_movements: bool = False
    """whether the local stack writes stock movements: a record for each sold line"""
    stock_target: Path | None = None
    """JSON file of the system that receives stock movements; with it the local stack has the
    services stock and stock-adapter"""
    stock_slot: int = Field(0, ge=0)
    """which of several processes of stock movements this is; a second one of a slot ends the
    first"""
    stock_adapter_slot: int = Field(0, ge=0)
    """which of several stock adapters this is; a second one of a slot ends the first"""
    rule_edits: Literal["allow", "refuse"] = "allow"
    """whether the dashboard's pages apply rules of alerts, and whether pages and API acknowledge,
    snooze and resolve alerts: if so, anyone who reaches them may; checking and simulating rules is
    never refused"""
    tick_seconds: float = Field(5.0, gt=0)
    """seconds between two ticks, which say up to when what had arrived is read"""
    as_of_days: int = Field(35, ge=1)
    """days for which `as_of` can ask what was answered; older versions of numbers are swept"""
    history_days: int = Field(0, ge=0)
    """days for which raw receipts and past alerts are kept; 0: for good"""
    batch_overdue_seconds: float = Field(7200.0, gt=0)
    """age in seconds at which an alert that is unsettled is overdue"""

    # The services, and what they connect to.
    home: Path = Path(".tally")
    """folder of all local data, logs and process records"""
    cache: Path = Field(default_factory=_user_cache)
    """folder of the downloaded JVM artifacts"""
    kafka: str = "127.0.0.1:9092"
    """bootstrap servers of Kafka, host:port, comma between several"""
    cassandra: str = "127.0.0.1:9042"
    """contact points of Cassandra, host:port, comma between several"""
    cassandra_datacenter: str = "datacenter1"
    """data centre that LOCAL_QUORUM means"""
    keyspace: str = "tally"
    """Cassandra keyspace of all views"""
    replication: int = Field(1, ge=1)
    """copies of each Kafka partition and Cassandra row"""
    kafka_controller: str = "127.0.0.1:9093"
    """host:port of the local broker's controller"""
    cassandra_storage: str = "127.0.0.1:7000"
    """host:port on which the local Cassandra node talks to its peers"""
    gateway: str = "127.0.0.1:8081"
    """host:port on which the gateway listens"""
    api: str = "127.0.0.1:8080"
    """host:port on which the API and the dashboard listen"""
    allowed_hosts: str = ""
    """further names under which gateway and API may be asked, comma between; loopback always; `*`
    is any name"""
    airflow: str = "127.0.0.1:8793"
    """host:port of the Airflow API server"""
    spark_master: str = "local[*]"
    """Spark master URL"""
    spark_memory: str = "2g"
    """heap of each Spark driver"""
    spark_java_options: str = ""
    """collector, compiler and other options of the JVMs of Spark's drivers and executors; empty:
    what suits each job"""
    spark_driver_host: str = "127.0.0.1"
    """host name or address at which Spark executors reach the driver"""
    ready_file: Path | None = None
    """file that a job without HTTP touches once it works; its starter sets it"""
    heartbeat_file: Path | None = None
    """file for the heartbeat of a job without HTTP; its starter sets it"""
    stalled_after_seconds: float = Field(60.0, gt=0)
    """seconds without a heartbeat, or without progress while there is work, after which a job is
    `stalled`"""

    # Topics and events.
    partitions: int = Field(4, ge=1)
    """partitions of each topic; a change needs new topics"""
    raw_retention_seconds: int = Field(86400, ge=1)
    """seconds that raw topics keep a message; an unread one is kept longer"""
    raw_backlog_seconds: int = Field(604800, ge=1)
    """age of the oldest raw message that the normaliser has not read at which the gateway takes no
    more"""
    raw_backlog_bytes: int = Field(10_000_000_000, ge=1)
    """bytes of raw messages that the normaliser has not read at which the gateway takes no more"""
    drop_retention_seconds: int = Field(86400, ge=0)
    """seconds dropped files are kept"""
    canonical_retention_hours: int = Field(168, ge=1)
    """hours that canonical topics keep a record"""
    max_message_bytes: int = Field(1_000_000, ge=1)
    """largest raw message in bytes; larger is a dead letter too_large"""
    future_tolerance_seconds: int = Field(300, ge=0)
    """seconds that happened_at may lie after arrival"""
    earliest_event: date = date(2000, 1, 1)
    """UTC day before which nothing has happened: the clock has fallen back"""

    # The normaliser, the evaluator and the dispatcher.
    delivery: Literal["at_most_once", "at_least_once", "exactly_once"] = "exactly_once"
    """guarantee of the processor loop"""
    normalisers: int = Field(1, ge=1)
    """processes of the normaliser in the local stack; they share the partitions"""
    normaliser_slot: int = Field(0, ge=0)
    """which of several normalisers this is; a second one of a slot ends the first"""
    evaluator_slot: int = Field(0, ge=0)
    """which of several evaluators this is; a second one of a slot ends the first"""
    dispatcher_slot: int = Field(0, ge=0)
    """which of several dispatchers this is; a second one of a slot ends the first"""
    alignment_seconds: int = Field(600, ge=0)
    """event-time lead over the slowest partition at which the normaliser pauses one"""
    transaction_records: int = Field(2000, ge=1)
    """most input records in one normaliser transaction"""
    webhook_networks: str = ""
    """networks that webhooks may be called in beside the public internet, e.g. 10.20.0.0/16; comma
    between; plain http with 127.0.0.0/8 alone"""
    webhook_secrets: Path | None = None
    """JSON file of the secrets that sign webhooks, by name, readable for its owner alone; default
    TALLY_HOME/webhook-secrets.json"""

    # The views, and the master dataset.
    # By family, each from a variable of its own; without one a family has its source's default.
    lateness: tuple[Lateness, ...] = ()
    trigger_seconds: float = Field(0.0, ge=0)
    """least seconds between micro-batches of the views; 0: each as the last ends"""
    micro_batch_records: int = Field(250_000, ge=1, le=1_000_000)
    """most records in one micro-batch of the views; more wait for the next"""
    receipts_trigger_seconds: float = Field(10.0, ge=0)
    """least seconds between micro-batches of the raw receipts; the views come first"""
    shuffle_partitions: int = Field(2, ge=1)
    """Spark shuffle partitions and state stores; fixed by the first start"""
    speed_retention_days: int = Field(400, ge=1, le=7300)
    """days that a speed row lives after its window's end or its writing, the later"""
    final_patience_seconds: float = Field(3600.0, gt=0)
    """seconds without word that the master is current after which nothing is final"""
    ingest_trigger_seconds: float = Field(30.0, ge=0)
    """seconds between two appends to the master; longer makes larger files"""
    ingest_batch_records: int = Field(1_000_000, ge=1)
    """records that one append takes at most: an outage is caught up in so large steps"""
    rebuild_tasks: int = Field(0, ge=0)
    """Spark shuffle partitions of a rebuild; 0: four for each core that it runs on"""
    checkpoints: Path | None = None
    """folder of the streaming checkpoints; default TALLY_HOME/data/checkpoints"""

    @field_validator("home")
    @classmethod
    def _check_home_path(cls, home: Path) -> Path:
        if forbidden := [sign for sign in _FORBIDDEN_IN_HOME if sign in str(home.absolute())]:
            raise ValueError(
                f"the folder's whole path holds `{forbidden[0]}`,"
                " and the master dataset cannot be read there; choose another"
            )
        return home

    @field_validator("privacy_smallest_cell")
    @classmethod
    def _check_smallest_cell(cls, devices: int) -> int:
        if 0 < devices < MIN_THRESHOLD:
            raise ValueError(f"is 0 (off), or {MIN_THRESHOLD} at least: fewer hides nothing")
        return devices

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        """The settings of the environment and TALLY_HOME. Raises BadSettings, by variable."""
        environment = os.environ if environment is None else environment
        home = home_folder(environment)
        named = _add_stores_file({**load_addresses(home), **environment}, home)
        variables = {name: f"TALLY_{name.upper()}" for name in cls.model_fields}
        values = {name: named[variables[name]] for name in variables if variables[name] in named}
        matches = ((_LATENESS.fullmatch(name), text) for name, text in named.items())
        lateness = [(match[1].lower(), text) for match, text in matches if match]
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
    def first_copies_path(self) -> Path:
        """Folder of the indexes of first copies; the ingest rebuilds an index that is lost."""
        return self.home / "data" / "first-copies"

    @property
    def control_copies_path(self) -> Path:
        """Folder of the copies of what people decided and only Cassandra holds."""
        return self.home / "data" / "control"

    @property
    def registry(self) -> Path:
        """The stores file that `tally stores import` writes, whether it is there or not."""
        return self.stores_file or self.home / STORES_FILE

    def checkpoint(self, query: str) -> Path:
        """Checkpoint folder of one streaming query."""
        return (self.checkpoints or self.home / "data" / "checkpoints") / query

    def lateness_seconds(self, family: Family) -> int:
        """Allowed lateness of one family in seconds."""
        return dict(self.lateness).get(family.name, family.lateness_seconds)


def _variable_name(place: Sequence[int | str], families: Sequence[str]) -> str:
    at = place[1] if len(place) > 1 else None
    return lateness_variable(families[at]) if isinstance(at, int) else f"TALLY_{place[0]}".upper()


def lateness_variable(family: str) -> str:
    """The environment variable of a family.

    >>> lateness_variable("sales")
    'TALLY_SALES_LATENESS_SECONDS'
    """
    return f"TALLY_{family.upper()}_LATENESS_SECONDS"


def home_folder(environment: Mapping[str, str]) -> Path:
    """The folder of all local data: TALLY_HOME, else `.tally`."""
    return Path(environment.get("TALLY_HOME", ".tally"))


def load_addresses(home: Path) -> dict[str, str]:
    """TALLY_<NAME> to host:port as `tally up` wrote it to this home; empty before that."""
    try:
        lines = (home / ADDRESSES_FILE).read_text("utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = (line for line in lines if "=" in line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in entries)


def _add_stores_file(named: Mapping[str, str], home: Path) -> dict[str, str]:
    # docker-compose passes an empty value for a variable that is not set.
    given = {name: value for name, value in named.items() if value or name != "TALLY_STORES_FILE"}
    stores_file = home / STORES_FILE
    return {"TALLY_STORES_FILE": str(stores_file), **given} if stores_file.exists() else given
