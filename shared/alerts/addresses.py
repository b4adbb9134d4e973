"""Addresses that no webhook has: where clouds hand out a machine's own credentials.

A webhook that could be sent there would be a way to them (server-side request forgery). Looked at
twice: in the setting, however the address is written, and of the machine that a connection has been
made to, before a byte is sent: what a name meant a moment ago says nothing about that.
"""

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

NAMES = frozenset(
    {"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}
)
# Link-local addresses are refused as a whole: 169.254.169.254 of most clouds, 169.254.170.2 of ECS
# tasks, 169.254.170.23 of EKS pods. These are outside of them.
NETWORKS = (
    ipaddress.ip_network("fd00:ec2::/32"),  # EC2: ::254 metadata, ::23 EKS pods
    ipaddress.ip_network("fd20:ce::254/128"),  # Google Cloud
    ipaddress.ip_network("100.100.100.200/32"),  # Alibaba Cloud
    ipaddress.ip_network("168.63.129.16/32"),  # Azure
    ipaddress.ip_network("192.0.0.192/32"),  # Oracle Cloud, before it was link-local
)
# An IPv6 address may hold an IPv4 one, which a gateway then connects to.
NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
COMPATIBLE = ipaddress.ip_network("::/96")


def is_metadata(host: str) -> bool:
    """Whether this host, a name or an address in any of its spellings, is one of those."""
    address = address_of(host)
    if address is None:
        return host.rstrip(".").lower() in NAMES
    return any(_is_metadata(each) for each in (address, *_held(address)))


def address_of(host: str) -> Address | None:
    """The address that a connection to this host would go to without asking anybody; else None.

    Also 2852039166, 0xa9fea9fe, 0251.0376.0251.0376 and 169.254.43518: the C library takes them.
    """
    bare = host.strip("[]").rstrip(".")
    try:
        return ipaddress.ip_address(bare)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(bare))
    except (OSError, ValueError):
        return None


def _is_metadata(address: Address) -> bool:
    return address.is_link_local or any(
        address in network for network in NETWORKS if network.version == address.version
    )


def _held(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses inside an IPv6 one: mapped, translated, tunnelled."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    teredo = address.teredo or ()
    found = [each for each in (address.ipv4_mapped, address.sixtofour, *teredo) if each is not None]
    if address in COMPATIBLE or any(address in network for network in NAT64):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return found
