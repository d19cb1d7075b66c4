"""Settings of topics that are there, for what a test needs of them."""

from collections.abc import Iterable

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from runtime.connect import kafka_admin
from tally.config.settings import Settings


def configure(settings: Settings, topics: Iterable[str], name: str, value: str) -> None:
    """The topics have that value of the setting from now on, whatever provisioning says."""
    entry = ConfigEntry(
        name,
        value,
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        incremental_operation=AlterConfigOpType.SET,
    )
    resources = [
        ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry]) for topic in topics
    ]
    # Held: what it has asked for ends with it.
    admin = kafka_admin(settings)
    for done in admin.incremental_alter_configs(resources).values():
        done.result(30)
