"""Three processes killed beside everything that was sent before: the short form of what the chaos tier does to every service."""

from tests.fault_suite import FaultSuite


class TestThreeServices(FaultSuite):
    faults = (("gateway", "SIGKILL"), ("normaliser", "SIGKILL"), ("api", "SIGKILL"))
