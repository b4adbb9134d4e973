"""Webhook: alerts as one POST of JSON, signed, to an address of the operator's.

    Chot-Signature: t=1790000000,v1=HEX    HMAC-SHA256 of "t.body" under CHOT_ALERT_WEBHOOK_SECRET

Taken is what was answered with 2xx. Redirects are not followed: they would let the receiver name
addresses inside this network. Whom a name has led to is looked at when the connection is there,
before a byte goes out: nothing is sent to where a cloud hands out credentials.
"""

import asyncio
import hashlib
import hmac
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from shared.alerts.addresses import is_metadata
from shared.alerts.notices import Notice
from shared.alerts.telling import headline, lines
from shared.json_text import to_json

SEND_SECONDS = 10.0
CONNECT_SECONDS = 5.0


class NotDelivered(Exception):
    """The channel has not taken it; the text says why, without any secret."""


def sign(secret: str, at: int, body: bytes) -> str:
    """The header's value: the time and the HMAC of both, so that no old POST can be replayed."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


async def refuse_peer(event: str, info: dict[str, Any]) -> None:
    """NotDelivered for a connection that has been made to a cloud's own address; httpcore calls it.

    A name can mean another machine from one look to the next, so only the other end itself counts.
    """
    if event != "connection.connect_tcp.complete":
        return
    stream = info["return_value"]
    peer = stream.get_extra_info("server_addr")
    if peer is None or is_metadata(str(peer[0])):
        await stream.aclose()
        raise NotDelivered("the address leads to where a cloud hands out credentials")


@dataclass(slots=True)
class Webhook:
    """Where to, and signed with what."""

    url: str
    secret: str | None
    deployment: str
    name: str = "webhook"
    _tls: ssl.SSLContext | None = field(default=None, repr=False)

    async def send(self, notices: Sequence[Notice]) -> None:
        """POST them all at once; NotDelivered unless the answer is 2xx within ten seconds."""
        body = to_json(self._document(notices)).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "chot-alerts"}
        if self.secret is not None:
            headers["Chot-Signature"] = sign(self.secret, int(time.time()), body)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                answer = await self._post(body, headers)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError, ValueError) as error:
            raise NotDelivered(f"{type(error).__name__}: {error}".replace(self.url, "…")) from error
        if not answer.is_success:
            raise NotDelivered(f"the webhook answered {answer.status_code}")

    async def _post(self, body: bytes, headers: dict[str, str]) -> httpx.Response:
        if self._tls is None:  # reads files for tens of milliseconds: not on the loop
            self._tls = await asyncio.to_thread(httpx.create_ssl_context)
        limits = httpx.Timeout(SEND_SECONDS, connect=CONNECT_SECONDS)
        async with (
            httpx.AsyncClient(verify=self._tls, timeout=limits, follow_redirects=False) as client,
            # The answer's own body is of no interest, and may be without end.
            client.stream(
                "POST", self.url, content=body, headers=headers, extensions={"trace": refuse_peer}
            ) as answer,
        ):
            return answer

    def _document(self, notices: Sequence[Notice]) -> dict[str, Any]:
        return {
            "version": 1,
            "deployment": self.deployment,
            "sent_at": datetime.now(UTC).isoformat(),
            "text": f"{headline(self.deployment, notices)}\n{lines(notices)}",
            "alerts": [dict(each.body) for each in notices],
        }
