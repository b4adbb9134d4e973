"""History: each call as it was sent and as it ended, each fault as it began and was healed."""

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

from tests.faults.evidence import Call, Outcome, Window


@dataclass(slots=True)
class History:
    """Written line by line as things happen, so that a run that dies leaves its history."""

    path: Path
    calls: list[Call] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    _began: float = field(default_factory=monotonic)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _processes: Any = field(default_factory=lambda: itertools.count(1))
    _open: dict[int, tuple[int, str, dict[str, Any], float]] = field(default_factory=dict)

    def new_process(self) -> int:
        """A client whose call ended unknown goes on under a new number, as Jepsen has it."""
        return int(next(self._processes))

    def invoke(self, process: int, op: str, args: dict[str, Any]) -> int:
        """Note that a call is sent; answers its number."""
        number = int(next(self._numbers))
        self._open[number] = (process, op, args, time())
        self._write(type="invoke", call=number, process=process, op=op, args=args)
        return number

    def end(self, number: int, outcome: Outcome, answer: dict[str, Any]) -> None:
        """Note how a call ended."""
        process, op, args, began = self._open.pop(number)
        self._write(type=outcome, call=number, process=process, op=op, answer=answer)
        self.calls.append(
            Call(
                id=number,
                process=process,
                op=op,
                args=args,
                began=began,
                ended=time(),
                outcome=outcome,
                answer=answer,
            )
        )

    def end_open(self) -> None:
        """Calls that never ended are unknown."""
        for number in tuple(self._open):
            self.end(number, "info", {"why": "never ended"})

    def fault(
        self, fault: str, target: str, began: float, detail: dict[str, Any] | None = None
    ) -> None:
        """Note a fault that began then (epoch seconds) and is healed now."""
        window = Window(
            fault=fault, target=target, began=began, ended=time(), detail=dict(detail or {})
        )
        self.windows.append(window)
        self._write(
            type="healed",
            fault=fault,
            target=target,
            lasted=round(window.ended - began, 2),
            detail=window.detail,
        )

    def note(self, what: str, **more: Any) -> None:
        """Note anything else."""
        self._write(type="note", what=what, **more)

    def _write(self, **event: Any) -> None:
        times = {"seconds": round(monotonic() - self._began, 3), "time": round(time(), 3)}
        with self.path.open("a") as file:
            file.write(json.dumps(times | event, ensure_ascii=False, default=str) + "\n")
