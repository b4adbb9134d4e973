"""`python -m tests.scenarios.counted_api`: an api that counts its SQS clients when SIGUSR2 comes."""

import gc
import signal

from aiobotocore.client import AioBaseClient
from aiobotocore.session import AioSession

from api.__main__ import main
from shared.logs import log


def _count(_signal: int, _frame: object) -> None:
    gc.collect()
    objects = gc.get_objects()
    log.info(
        "clients.counted",
        clients=sum(isinstance(each, AioBaseClient) for each in objects),
        sessions=sum(isinstance(each, AioSession) for each in objects),
    )


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _count)
    main()
