"""ECS: this task's name, and protection from scale-in while at least one job runs.

Protection is advisory. It covers scale-in and deployments of a service, nothing else (no Spot
interruption, no maintenance, no StopTask), so nothing depends on it but how often a long job is
interrupted: a failure is said once, counted, and never stops or delays a job for long.
"""

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import Any

import httpx

from shared.logs import log

STATE_PATH = "/task-protection/v1/state"
# The agent itself gives its call to ECS up after 4 s and answers 504.
CALL_SECONDS = 5.0
METADATA_SECONDS = 2.0
LEAVE_SECONDS = 1.0
STEP_SECONDS = 0.1
LONGEST_BACKOFF_SECONDS = 60.0
TASK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Refused(Exception):
    """The agent's answer is no success; the text says what it was."""


class Protection:
    """Keeps this task protected while `busy()`; runs on the heartbeat's loop.

    The expiry is short and armed again before a third of it has passed, so that a task that hangs
    blocks a deployment for minutes, not for two days. Switched off once idle for `linger` seconds:
    a stream of short jobs does not switch it on and off each time. `asked` and `failures` count.
    """

    def __init__(
        self, agent_uri: str, *, lease: float, linger: float, busy: Callable[[], bool]
    ) -> None:
        self.expires_minutes = max(1, ceil(2 * lease / 60))
        self._rearm_seconds = self.expires_minutes * 60 / 3
        self._linger = linger
        self._busy = busy
        self._url = agent_uri.rstrip("/") + STATE_PATH
        self._client = _client(CALL_SECONDS)
        self._turn = asyncio.Lock()
        self._perhaps_on = False
        self._until = 0.0
        self._next_call = 0.0
        self._busy_at = 0.0
        self._in_a_row = 0
        self._said = ""
        self.asked = 0
        self.failures = 0

    @property
    def settled(self) -> bool:
        """Whether a job that starts now has nothing to wait for: armed, or just refused."""
        return self._perhaps_on and monotonic() < self._next_call

    async def run_forever(self) -> None:
        """Arm again while jobs run, switch off when idle; until it is cancelled."""
        while True:
            await self._step()
            await asyncio.sleep(STEP_SECONDS)

    async def arm(self) -> None:
        """Ask for protection unless it was asked for just now; never raises."""
        async with self._turn:
            self._busy_at = monotonic()
            if not self.settled:
                await self._put(on=True)

    async def leave(self) -> None:
        """Switch off if it may be on, in a second or not at all: it expires by itself."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                if self._perhaps_on:
                    await self._put(on=False)
        except TimeoutError:
            log.info("protection.left_to_expire", minutes=self.expires_minutes)
        await self._client.aclose()

    async def _step(self) -> None:
        now = monotonic()
        if self._busy():
            self._busy_at = now
            if now >= self._next_call:
                await self.arm()
        elif now >= self._until:
            self._perhaps_on = False
        elif self._perhaps_on and now >= self._busy_at + self._linger:
            async with self._turn:
                idle = not self._busy() and monotonic() >= self._busy_at + self._linger
                if idle and (self._in_a_row == 0 or now >= self._next_call):
                    await self._put(on=False)

    async def _put(self, *, on: bool) -> None:
        body: dict[str, Any] = {"ProtectionEnabled": on}
        if on:
            body["ExpiresInMinutes"] = self.expires_minutes
            # From here on: an answer that is lost may have been a success.
            self._perhaps_on = True
            self._until = monotonic() + self.expires_minutes * 60
        self.asked += 1
        try:
            answer = await self._client.put(self._url, json=body)
            refuse_failure(answer.status_code, answer.content, on=on)
        except (httpx.HTTPError, httpx.InvalidURL, Refused) as error:
            self.failures += 1
            self._in_a_row += 1
            grown = STEP_SECONDS * 10 * 2.0 ** min(self._in_a_row, 10)
            self._next_call = monotonic() + min(LONGEST_BACKOFF_SECONDS, grown)
            self._say(f"{type(error).__name__}: {error}", on=on)
            return
        self._in_a_row = 0
        self._perhaps_on = on
        self._next_call = monotonic() + self._rearm_seconds if on else 0.0
        self._say("", on=on)

    def _say(self, failure: str, *, on: bool) -> None:
        """One line a change, not one a call."""
        state = failure or ("on" if on else "off")
        if state == self._said:
            return
        self._said = state
        if failure:
            log.warning("protection.failed", asked_for=on, error=failure, failures=self.failures)
        else:
            log.info("protection.set", on=on, minutes=self.expires_minutes if on else None)


def refuse_failure(status: int, content: bytes, *, on: bool) -> None:
    """Raise Refused unless the body says that protection is as asked.

    HTTP 200 with a `failure` is a failure; so is anything that is not the answer expected.
    """
    try:
        body = httpx.Response(status, content=content).json()
    except ValueError:
        raise Refused(f"HTTP {status} without JSON") from None
    if not isinstance(body, dict):
        raise Refused(f"HTTP {status} without an object")
    for name, code in (("error", "Code"), ("failure", "Reason")):
        if isinstance(found := body.get(name), dict):
            more = found.get("Message") or found.get("Detail") or ""
            raise Refused(f"HTTP {status} {name} {found.get(code)}: {more}".rstrip(": ")[:500])
    protection = body.get("protection")
    if status != 200 or not isinstance(protection, dict):
        raise Refused(f"HTTP {status} without a protection")
    if protection.get("ProtectionEnabled") is not on:
        raise Refused(f"asked for {on}, told {protection.get('ProtectionEnabled')}")


def agent_uri() -> str | None:
    """The agent's address as ECS gives it to the container; None elsewhere."""
    return os.environ.get("ECS_AGENT_URI") or None


def task_name() -> str | None:
    """The tail of this task's ARN; None outside ECS, or when its metadata cannot be had."""
    uri = os.environ.get("ECS_CONTAINER_METADATA_URI_V4")
    if not uri:
        return None
    try:
        with httpx.Client(timeout=METADATA_SECONDS, trust_env=False, verify=_no_tls()) as client:
            body = client.get(f"{uri.rstrip('/')}/task").raise_for_status().json()
        tail = str(body["TaskARN"]).rpartition("/")[2]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        log.warning("ecs.no_metadata", error=str(error) or type(error).__name__)
        return None
    return tail if TASK_NAME.fullmatch(tail) else None


def _client(seconds: float) -> httpx.AsyncClient:
    # A proxy set for the outside world does not know a link-local address.
    return httpx.AsyncClient(timeout=seconds, trust_env=False, verify=_no_tls())


def _no_tls() -> ssl.SSLContext:
    """A context without any authority: the agent speaks plain HTTP, and loading them takes long."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
