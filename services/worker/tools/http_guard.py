"""Which hosts and addresses the worker may call over HTTP: rules, and what they say of a name that was resolved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network

# Where clouds hand out the credentials of the machine itself.
METADATA = (
    "169.254.0.0/16", "fe80::/10", "fd00:ec2::254", "fd00:ec2::23", "100.100.100.200",
    "metadata.google.internal", "metadata.goog",
)  # fmt: skip
DENY_SETTING = "REDRIVE_HTTP_DENY"
ALLOW_SETTING = "REDRIVE_HTTP_ALLOW"
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TRANSLATED = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


class DeniedError(Exception):
    """The rules do not let the worker call this host; trying again cannot help."""

    def __init__(self, host: str) -> None:
        rules = f"{DENY_SETTING} and {ALLOW_SETTING} say which hosts are"
        super().__init__(f"calls to the host '{host[:200]}' are denied on this worker; {rules}")
        self.host = host


@dataclass(frozen=True, slots=True)
class Hosts:
    """A set of hosts: names, where `*.` stands for any name below, and ranges of addresses."""

    names: frozenset[str] = frozenset()
    networks: tuple[IPNetwork, ...] = ()

    def has_name(self, host: str) -> bool:
        """Say whether a name is meant."""
        name = host.lower().rstrip(".")
        above = (f"*.{name[place + 1 :]}" for place, sign in enumerate(name) if sign == ".")
        return name in self.names or any(each in self.names for each in above)

    def has_address(self, address: IPAddress) -> bool:
        """Say whether an address is meant."""
        return any(address in network for network in self.networks if network.version == address.version)


def hosts_of(words: Iterable[str]) -> Hosts:
    """Return the hosts that words name, each an address, a range such as 10.0.0.0/8, or a name; raises ValueError."""
    names: set[str] = set()
    networks: list[IPNetwork] = []
    for word in words:
        text = word.strip().lower().rstrip(".")
        if _is_name(text):
            names.add(text)
            continue
        try:
            networks.append(ip_network(text))
        except ValueError as problem:
            raise ValueError(f"'{word}' is no host name and no range of addresses: {problem}") from None
    return Hosts(frozenset(names), tuple(networks))


@dataclass(frozen=True, slots=True)
class Guard:
    """What is denied, and what is allowed all the same; metadata services are denied unless they are allowed."""

    deny: Hosts = field(default_factory=lambda: hosts_of(METADATA))
    allow: Hosts = field(default_factory=Hosts)

    def permitted(self, host: str, addresses: Sequence[str]) -> list[str]:
        """Return those addresses of a host that may be called; raises DeniedError if there is none."""
        if self.allow.has_name(host):
            return list(addresses)
        is_denied = self.deny.has_name(host)
        found = [address for address in addresses if self._may(address, is_denied)]
        if not found:
            raise DeniedError(host)
        return found

    def _may(self, address: str, is_denied: bool) -> bool:
        forms = list(_forms(address))
        if self.allow.has_address(forms[0]):
            return True
        return not is_denied and not any(self.deny.has_address(form) for form in forms)


def guard_of(deny: Iterable[str], allow: Iterable[str]) -> Guard:
    """Return the guard of these rules and of the metadata services; raises ValueError."""
    return Guard(hosts_of((*METADATA, *deny)), hosts_of(allow))


def _is_name(text: str) -> bool:
    """Say whether it is a host name: the last part of one is never a number."""
    labels = text.removeprefix("*.").split(".")
    fit = all(_LABEL.fullmatch(label) for label in labels)
    return fit and not _NUMBER.fullmatch(labels[-1])


def _forms(text: str) -> Iterator[IPAddress]:
    """Give an address, the plainest form of it first, and every address that it leads to."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    yield address
    if address.is_unspecified:
        yield from (IPv4Address("127.0.0.1"), IPv6Address("::1"))
    elif isinstance(address, IPv6Address):
        yield from _embedded(address)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _TRANSLATED or (address in _COMPATIBLE and not address.is_loopback):
        yield IPv4Address(int(address) & 0xFFFFFFFF)
