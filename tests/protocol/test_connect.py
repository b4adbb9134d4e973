"""Connecting: what is lost on the way is an outage like any, and the kernel watches the peer."""

import socket
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from shared.database import is_unreachable, open_engine
from shared.outages import KEEP_ALIVE, tell_outages
from tests.services import Database
from tests.tcp_proxy import open_proxy

ASK = text("SELECT 1")


async def test_a_connection_lost_while_it_is_set_up_is_an_outage(database: Database) -> None:
    """Found by the fault suite: the driver's own error went past everyone who waits outages out."""
    opened = open_engine(database.app_url, pool_size=1, application_name="set-up")
    lost = iter((True, False))

    def lost_at_once(dialect: Any, _record: Any, args: list[Any], options: dict[str, Any]) -> Any:
        connection = dialect.connect(*args, **options)
        if next(lost):
            connection.driver_connection.terminate()  # as a server does that is being stopped
        return connection

    event.listen(opened.sync_engine, "do_connect", lost_at_once)
    engine = tell_outages(opened)
    with pytest.raises(DBAPIError) as caught:
        await engine.connect().start()
    assert is_unreachable(caught.value)
    async with engine.connect():
        pass  # the next one is as good as new
    await engine.dispose()


@pytest.mark.scenario("F31")
async def test_a_pool_whose_connections_are_half_open_costs_one_time_out(
    database: Database,
) -> None:
    """F31: what was idle beside the connection that did not answer is not tried one by one."""
    at = urlsplit(database.app_url)
    assert at.hostname is not None
    async with open_proxy(at.hostname, at.port or 5432) as proxy:
        url = database.app_url.replace(f"{at.hostname}:{at.port}", f"127.0.0.1:{proxy.port}")
        opened = open_engine(url, pool_size=4, application_name="half open", command_timeout=1.0)
        engine = tell_outages(opened)
        async with AsyncExitStack() as stack:
            for _ in range(4):
                await (await stack.enter_async_context(engine.connect())).execute(ASK)
        proxy.freeze()
        with pytest.raises(DBAPIError) as caught:
            async with engine.connect() as conn:
                await conn.execute(ASK)
        assert is_unreachable(caught.value)
        for _ in range(4):
            async with engine.connect() as conn:
                await conn.execute(ASK)
        await engine.dispose()


@pytest.mark.scenario("F31")
async def test_the_kernel_asks_whether_the_peer_is_still_there(database: Database) -> None:
    """F31: a peer that vanishes without a reset is noticed in seconds, not by retransmits."""
    engine = tell_outages(open_engine(database.app_url, pool_size=1, application_name="peer"))
    async with engine.connect() as conn:
        driver: Any = (await conn.get_raw_connection()).driver_connection
        opened = driver._transport.get_extra_info("socket")
        for level, name, value in KEEP_ALIVE:
            assert opened.getsockopt(level, getattr(socket, name)) == value, name
    await engine.dispose()
