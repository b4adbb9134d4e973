"""Connecting: what is lost on the way is an outage like any, and the kernel watches the peer."""

import socket
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from shared.database import is_unreachable, open_engine
from shared.outages import KEEP_ALIVE, tell_outages
from tests.services import Database


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
async def test_the_kernel_asks_whether_the_peer_is_still_there(database: Database) -> None:
    """F31: a peer that vanishes without a reset is noticed in seconds, not by retransmits."""
    engine = tell_outages(open_engine(database.app_url, pool_size=1, application_name="peer"))
    async with engine.connect() as conn:
        driver: Any = (await conn.get_raw_connection()).driver_connection
        opened = driver._transport.get_extra_info("socket")
        for level, name, value in KEEP_ALIVE:
            assert opened.getsockopt(level, getattr(socket, name)) == value, name
    await engine.dispose()
