"""`python -m api`: refuse what cannot work (exit 78), then serve until SIGTERM."""

import gc

if __name__ == "__main__":
    gc.disable()  # what is imported stays; spare_the_collector() lets it collect again

import asyncio
import resource
import signal
import sys
from types import FrameType

import uvicorn

from api.app import create_app
from api.connections import Connection
from api.settings import ApiSettings, load_settings
from shared.errors import ConfigRefused
from shared.library_logs import route_library_logs, tell_uncaught
from shared.logs import configure_logs, log
from shared.pauses import collect_rarely, spare_the_collector
from shared.settings import EX_CONFIG
from shared.sqs import UNUSABLE, open_sqs, sqs_refused
from shared.tracing import spans, start_spans

GRACE_SECONDS = 10
# How long the thread of large bodies (api/off_loop.py) may keep the loop from its turn.
SWITCH_SECONDS = 0.001
# Besides those who wait for jobs: requests, SQS, the log.
OTHER_FILES = 500


class Server(uvicorn.Server):
    """Tells the waiting requests that the process ends, so that they answer at once."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting; a second signal stops waiting too."""
        super().handle_exit(sig, frame)
        app = self.config.app
        resources = getattr(getattr(app, "state", None), "resources", None)
        if resources is not None:
            resources.stopping.set()


def main() -> None:
    """Serve; exits with 78 and one line a problem on stderr when the configuration is refused."""
    if not __debug__:
        sys.exit("python -O removes the assertions this service relies on; run it without")
    try:
        settings = load_settings()
        configure_logs(settings.log_format)
        start_spans("chot-api")
        asyncio.run(_refuse_unusable_sqs(settings))
        app = create_app(settings)
    except ConfigRefused as refused:
        said = "\n".join(f"chot api: {line}" for line in str(refused).splitlines())
        print(said, file=sys.stderr)  # noqa: T201 - for a human, before there is a log
        sys.exit(EX_CONFIG)
    route_library_logs()
    tell_uncaught()
    _open_files_for(files_wanted(settings))
    sys.setswitchinterval(SWITCH_SECONDS)
    spare_the_collector()
    collect_rarely()
    config = uvicorn.Config(
        app,
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # it would believe X-Forwarded-For of any peer on loopback
        lifespan="on",
        http=Connection,
        ws="none",  # an upgrade is then a request like any other, and its answer a problem
        timeout_keep_alive=settings.api_keep_alive_seconds,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    # uvicorn raises the signal again once it has shut down; the exit code is 0 all the same.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda _signal, _frame: None)
    log.info("api.starting", host=settings.api_host, port=settings.api_port)
    Server(config).run()
    spans().close()
    log.info("api.stopped")


def files_wanted(settings: ApiSettings) -> int:
    """Sockets at most: of those who wait for jobs, of as many who follow pages, and the rest."""
    return 2 * settings.live_listeners + settings.api_pool_size + OTHER_FILES


def _open_files_for(wanted: int) -> None:
    """Raise the soft limit on open files as far as this many sockets need and the hard one lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        log.warning("api.few_files", limit=hard, wanted=wanted, setting="CHOT_LIVE_LISTENERS")


async def _refuse_unusable_sqs(settings: ApiSettings) -> None:
    """A client without a region or with a broken endpoint never heals; a server may."""
    try:
        async with open_sqs(settings.queue_prefix, pool=1):
            pass
    except UNUSABLE as error:
        raise sqs_refused(error) from error


if __name__ == "__main__":
    main()
