"""What a service is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from tensorucb.checks import check_count, check_flag, check_text

MIB = 2**20


@dataclass(frozen=True)
class ServiceSettings:
    """Where a service finds its campaigns, where it listens, and what it allows.

    Attributes
    ----------
    storage
        The address of the store: ``sqlite:///file.db`` or ``postgresql://…``.
    host, port
        Where it listens; port 0 is any free one.
    read_only
        Open the store so that nothing can be written, whoever asks.
    hosts
        Names by which the service may be addressed, beside those of loopback.
    max_body
        The most bytes of a request.
    connections
        The most connections at a time; more are answered by 503.
    workers
        How many processes; more than one needs PostgreSQL.

    Examples
    --------
    >>> ServiceSettings("sqlite:///campaigns.db").port
    8000
    """

    storage: str
    host: str = "127.0.0.1"
    port: int = 8000
    read_only: bool = False
    hosts: tuple[str, ...] = ()
    max_body: int = 64 * MIB
    connections: int = 512
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("storage", "host"):
            check_text(name, getattr(self, name))
        check_flag("read_only", self.read_only)
        check_count("port", self.port, 0, 65535)
        check_count("max_body", self.max_body, 1024)
        check_count("connections", self.connections)
        check_count("workers", self.workers, 1, 256)
        for host in self.hosts:
            check_text("a name in hosts", host)

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the service: not by another address, nor by a name that a proxy has."""
        try:
            loopback = ip_address(self.host).is_loopback
        except ValueError:
            loopback = self.host.lower() == "localhost"
        return loopback and not self.hosts
