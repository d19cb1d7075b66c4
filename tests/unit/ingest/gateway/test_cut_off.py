"""A gateway whose Kafka clients have lost all brokers ends; one whose brokers are away waits."""

from ingest.gateway.async_producer import BrokerConnectivity


class Clients:
    """Two clients of a process, and a new one; `told` says of each whether it reaches a broker."""

    def __init__(self) -> None:
        self.producer = self.consumer = self.new = True
        self.cut_off = BrokerConnectivity(
            [lambda: self.producer, lambda: self.consumer], lambda: self.new
        )

    def looked(self, times: int) -> bool:
        for _ in range(times):
            self.cut_off.check()
        return self.cut_off.is_lost


def test_either_client_that_is_lost_for_two_looks_is_enough() -> None:
    for name in ("producer", "consumer"):
        clients = Clients()
        setattr(clients, name, False)

        assert [clients.looked(1), clients.looked(1)] == [False, True]


def test_brokers_that_answer_nobody_are_waited_for() -> None:
    clients = Clients()
    clients.producer = clients.consumer = clients.new = False

    assert not clients.looked(100)


def test_a_client_that_comes_back_has_lost_nothing() -> None:
    clients = Clients()
    clients.producer = False
    clients.looked(1)
    clients.producer = True
    clients.looked(1)
    clients.producer = False

    assert not clients.looked(1)
