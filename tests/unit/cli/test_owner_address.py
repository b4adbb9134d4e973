"""The owner's address where it is none: a sentence with exit code 78, and never its password."""

import pytest

from shared.cli import run
from shared.cli.exits import Exit

PASSWORD = "hunter2secret"  # noqa: S105 - what must not come out
STRANGE = (
    f"postgresql://chot:{PASSWORD}",  # the driver reads it as a port, and says so
    f"postgresql://chot:{PASSWORD}@db:abc/chot",
    f"postgresql://chot:{PASSWORD}@db:99999/chot",
    f"postgresql://chot:{PASSWORD}@[::1/chot",
    f"postgresql://chot:{PASSWORD}@db/chot?sslmode=bogus",
    f"postgresql://chot:{PASSWORD}@db",
    f"mysql://chot:{PASSWORD}@db/chot",
    f"host=db password={PASSWORD}",
)


@pytest.mark.parametrize("words", [["doctor"], ["migrate", "--check"], ["keys", "list"]])
@pytest.mark.parametrize("name", ["CHOT_MIGRATE_DATABASE_URL", "CHOT_DATABASE_URL"])
def test_an_address_that_is_none_is_refused_without_its_password(
    words: list[str], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever is called at night pastes what he sees into a chat."""
    monkeypatch.delenv("CHOT_MIGRATE_DATABASE_URL", raising=False)
    monkeypatch.delenv("CHOT_DATABASE_URL", raising=False)
    for url in STRANGE:
        monkeypatch.setenv(name, url)
        assert run(words) == Exit.CONFIG, url
        told = "".join(capsys.readouterr())
        assert name in told, url
        assert PASSWORD not in told
        assert "Traceback" not in told
