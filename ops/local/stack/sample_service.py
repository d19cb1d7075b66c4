"""`python -m ops.local.stack.sample_service NAME FILE`: starts and stops Kafka or Cassandra once.

Its JVM writes the archive FILE.
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ops.local.processes.addresses import separate_environment, settings_with_addresses
from ops.local.processes.service import Launch, Service, Site
from ops.local.services.catalogue import SERVICES
from ops.local.stack import control
from runtime.process.output import print_note
from runtime.spark.class_archive import creation_option

# An archive is written while the JVM ends.
STOP_SECONDS = 120.0


def main(name: str, file: Path) -> None:
    """Start the service in a temporary home with Tally's topics or tables, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = separate_environment(Path(folder), os.environ)
        site = Site.from_settings(settings_with_addresses(environment), environment)
        sampled = replace(
            _with_option(SERVICES[name], creation_option(file)), stop_seconds=STOP_SECONDS
        )
        control.up(site, [sampled], print_note)
        control.down(site, [sampled], print_note)


def _with_option(service: Service, option: str) -> Service:
    def launch(site: Site) -> Launch:
        found = service.launch(site)
        java, *others = found.argv
        return replace(found, argv=(java, option, *others))

    return replace(service, launch=launch)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
