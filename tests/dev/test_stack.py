"""`chot dev` starts everything, keeps it running, and leaves nothing behind."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev.processes import poll_until
from dev.sample_company import load_sample
from dev.stack_backing import telling_of
from dev.stack_cli import SAMPLE_MOVEMENTS, block_of, config_of, parser
from shared.api_keys import key_id_of
from tests.dev.test_processes import gone
from tests.services import ROOT, Database

STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStack:
    """A `chot dev --json` that has said it is ready."""

    process: subprocess.Popen[str]
    about: dict[str, Any]
    home: Path

    @property
    def pids(self) -> list[int]:
        """Every process of it that must not outlive it."""
        members: list[int] = [*self.about["api_pids"], *self.about["worker_pids"]]
        below = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        servers = [int(pid) for each in below for pid in each.read_text().split()]
        return sorted({*members, *servers})


@pytest.fixture
def home(services_home: Path, request: pytest.FixtureRequest) -> Path:
    mine: Path = services_home / request.node.name
    mine.mkdir()
    return mine


@contextmanager
def chot_dev(home: Path, *options: str) -> Iterator[RunningStack]:
    command = [sys.executable, "-m", "dev.stack", "--json", "--no-sample", "--port", "0"]
    with (
        (home / "stderr").open("w") as errors,
        subprocess.Popen(
            [*command, "--home", str(home), *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (home / "stderr").read_text()
        try:
            yield RunningStack(process=process, about=json.loads(line), home=home)
        finally:
            process.kill()


def test_a_token_stays_good_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal's export survives a restart; a token of one's own is taken; nobody else reads it."""
    monkeypatch.delenv("CHOT_TOKEN", raising=False)
    asked = parser().parse_args(["--home", str(tmp_path / "home")])
    first, second = config_of(asked), config_of(asked)
    assert first.token == second.token
    assert key_id_of(first.token)
    assert (tmp_path / "home" / "token").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("CHOT_TOKEN", "mine")
    assert config_of(asked).token == "mine"  # noqa: S105 - of a test


def test_what_is_printed_can_be_pasted() -> None:
    """Exports for chot, doctor, config and psql, whatever a path or a token consists of."""
    about: dict[str, object] = {
        "api_url": "http://127.0.0.1:8000",
        "docs_url": "http://127.0.0.1:8000/docs",
        "pages_url": "http://127.0.0.1:8000/ui/",
        "database_url": "postgresql://postgres@/chot?host=/a b",
        "app_database_url": "postgresql://chot_app@/chot?host=/a b",
        "sqs_endpoint": "http://127.0.0.1:9324",
        "worker_pids": [1, 2],
        "logs": "/a b/logs",
        "token": "it's",
    }
    script = "".join(
        line.strip() + "\n"
        for line in block_of(about).splitlines()
        if line.strip().startswith("export ")
    )
    shown = 'printf "%s\\n" "$CHOT_TOKEN" "$CHOT_DATABASE_URL" "$CHOT_MIGRATE_DATABASE_URL"'
    done = subprocess.run(
        ["/bin/sh", "-euc", script + shown], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["it's", about["app_database_url"], about["database_url"]]


def test_everything_is_up_when_the_line_is_printed_and_gone_after_ctrl_c(home: Path) -> None:
    with chot_dev(home, "--workers", "2", "--api", "2") as stack:
        assert {"api_url", "token", "database_url", "sqs_endpoint"} <= stack.about.keys()
        assert len(stack.about["api_urls"]) == 2
        assert len(stack.about["worker_pids"]) == 2
        token = {"Authorization": f"Bearer {stack.about['token']}"}
        for url in stack.about["api_urls"]:
            assert httpx.get(f"{url}/readyz").status_code == httpx.codes.OK
            assert httpx.get(f"{url}/v1/jobs", headers=token).status_code == httpx.codes.OK
            assert httpx.get(f"{url}/v1/jobs").status_code == httpx.codes.UNAUTHORIZED
        assert httpx.get(stack.about["docs_url"]).status_code == httpx.codes.OK
        pids = stack.pids
        assert len(pids) == 6, "postgres, sqs, two apis, two workers"
        stack.process.send_signal(signal.SIGINT)
        assert stack.process.wait(STOP_SECONDS) == 0
        assert [pid for pid in pids if not gone(pid)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_nothing_outlives_a_stack_that_is_killed(home: Path) -> None:
    with chot_dev(home, "--workers", "1") as stack:
        pids = stack.pids
        stack.process.kill()
        assert poll_until(lambda: all(gone(pid) for pid in pids), STOP_SECONDS)


def test_a_worker_that_dies_is_started_again(home: Path) -> None:
    with chot_dev(home, "--workers", "1") as stack:
        worker = stack.about["worker_pids"][0]
        subprocess.run(["kill", "-9", str(worker)], check=True)
        said = stack.home / "stderr"
        again = f"worker-1 (pid {worker}) ended with -9"
        assert poll_until(lambda: again in said.read_text(), STOP_SECONDS)
        assert poll_until(lambda: "worker-1 is pid" in said.read_text(), STOP_SECONDS)
        stack.process.send_signal(signal.SIGTERM)
        assert stack.process.wait(STOP_SECONDS) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told apart by /proc")
def test_a_stack_without_its_queues_ends_and_says_so(home: Path) -> None:
    """It would look alive for ever: members are started again, the emulator's queues are not."""
    with chot_dev(home, "--workers", "1") as stack:
        members = {*stack.about["api_pids"], *stack.about["worker_pids"]}
        servers = [pid for pid in stack.pids if pid not in members]
        (emulator,) = (pid for pid in servers if "postgres" not in _command_line(pid))
        subprocess.run(["kill", "-9", str(emulator)], check=True)
        assert stack.process.wait(STOP_SECONDS) == 1
        assert "the SQS emulator ended with -9" in (stack.home / "stderr").read_text()


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_port_that_is_taken_is_a_clear_refusal(home: Path) -> None:
    with chot_dev(home, "--workers", "1") as stack:
        port = httpx.URL(stack.about["api_url"]).port
        other = home / "other"
        command = [sys.executable, "-m", "dev.stack", "--no-sample", "--port", str(port)]
        done = subprocess.run(
            [*command, "--home", str(other)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert f"port {port} is in use; choose another with --port" in done.stderr


def test_every_number_of_the_help_has_its_default() -> None:
    """Whoever sees a number in the documentation finds it there."""
    told = " ".join(parser().format_help().split())
    assert f"where there is none yet (default {SAMPLE_MOVEMENTS})" in told
    assert "worker processes (default 2)" in told


async def test_a_load_says_what_it_loads_before_it_does_and_nothing_where_all_is_there(
    database: Database,
) -> None:
    """A million movements take a minute, in which nothing else is said."""
    said: list[str] = []
    tell = telling_of(said.append)
    for _ in range(2):
        await load_sample(database.app_url, movements=1_000, progress=tell)
    assert said == ["loading the sample company, 1,000 movements"]
    for done in (50_000, 100_000, 200_000):
        tell(done, 200_000)
    assert said[1:] == ["  100,000 of 200,000"]
