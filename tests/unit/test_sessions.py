"""Sessions of AWS: what lies in botocore's files is read once, all else is each session's own."""

from shared.sqs import new_session


def test_sessions_share_what_is_read_from_files_and_nothing_else() -> None:
    first, second = new_session(), new_session()
    loader = first.get_component("data_loader")
    assert second.get_component("data_loader") is loader
    # What it has read is kept: a second client parses nothing.
    sqs = loader.load_service_model("sqs", "service-2")
    assert loader.load_service_model("sqs", "service-2") is sqs
    for name in ("event_emitter", "credential_provider"):
        assert first.get_component(name) is not second.get_component(name), name
