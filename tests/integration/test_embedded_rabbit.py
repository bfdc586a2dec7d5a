"""The private RabbitMQ: what it listens on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import rabbit

LISTENING = "0A"
LOOPBACK = ("0100007F", "00000000000000000000000001000000")

pytestmark = pytest.mark.timeout(200)


def listened_on(pids: set[int]) -> list[tuple[str, int]]:
    """Return the addresses, as the system writes them, and ports that processes listen on."""
    sockets = {
        str(descriptor.readlink())
        for pid in pids
        for descriptor in Path(f"/proc/{pid}/fd").iterdir()
        if descriptor.is_symlink()
    }
    out = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                out.append((address, int(port, 16)))
    return out


def below(pid: int) -> set[int]:
    """Return a process and all that came of it."""
    out = {pid}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            out |= below(int(child))
    return out


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_node_listens_on_the_loopback_alone() -> None:
    node = rabbit.shared_node()
    assert node.pid is not None

    found = listened_on(below(node.pid))

    assert node.port in [port for _, port in found]
    assert len(found) >= 2, "clients, and other nodes"
    assert [address for address, _ in found if address not in LOOPBACK] == []
