"""Examples of answers about files that clients send."""

from typing import Any

FILE_SENT_ID = "01a1f2c3-7f4e-7d10-9b3a-5c1e2f3a4b5c"
SENT_FILE: dict[str, Any] = {
    "id": FILE_SENT_ID,
    "url": f"/v1/files/{FILE_SENT_ID}",
    "company": "SAMPLE",
    "brand": None,
    "name": "movements-2026-01.csv",
    "media_type": "text/csv",
    "size": 18_441_022,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "ready_at": "2026-02-01T08:00:03.120331Z",
    "expires_at": "2026-02-08T08:00:03.120331Z",
}
FILE_ANSWERS: dict[str, dict[str, Any]] = {
    "POST /v1/files": {"201": SENT_FILE, "200": SENT_FILE},
    "DELETE /v1/files/{file_id}": {"200": SENT_FILE},
}
