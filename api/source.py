"""Where a request comes from: the peer, or what proxies of ours say of it, and nobody else.

X-Forwarded-For is written from left to right, each proxy adding whom it was asked by. Whatever a
client put there itself stands to the left; so the right-most address that is no proxy of ours is
the one that a proxy of ours has seen.
"""

import ipaddress
from collections.abc import Sequence

from starlette.requests import Request

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def source_of(request: Request, trusted: Sequence[Network]) -> str | None:
    """The address that the request comes from; None where there is none (a Unix socket)."""
    seen = _address(request.client.host) if request.client is not None else None
    if seen is None or not _is_in(seen, trusted):
        return None if seen is None else str(seen)
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    for hop in reversed(hops):
        said = _address(hop)
        if said is None:
            break  # no address: whoever wrote it, the last one that was believed stands
        seen = said
        if not _is_in(seen, trusted):
            break
    return str(seen)


def read_networks(setting: str) -> Sequence[Network]:
    """Networks of a comma-separated setting; ValueError for what is none."""
    found: list[Network] = []
    for each in filter(None, (part.strip() for part in setting.split(","))):
        try:
            found.append(ipaddress.ip_network(each))
        except ValueError as error:
            raise ValueError(
                f"holds {each!r}, which is no network such as 10.0.0.0/8: {error}"
            ) from None
    return found


def _address(said: str) -> Address | None:
    """An address as a proxy writes it: with a port at times, an IPv4 one in IPv6 dress at times."""
    said = said.strip()
    host = said
    if said.startswith("["):
        host = said[1:].partition("]")[0]
    elif said.count(":") == 1:
        host = said.partition(":")[0]
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
