"""Why a job waits, in Vietnamese: of the same facts as shared/jobs/words.py, which is English."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from api.ui.error_vietnamese import error_sentence
from api.ui.showing import LOCAL
from shared.jobs.pace import Row, pace_of
from shared.jobs.reasons import Reason
from shared.jobs.words import MOST_AHEAD, error_words
from shared.kinds.locks import LOCK_FIELDS, locks_json


def span(seconds: float | None) -> str:
    """A time as a person says it: 4 giây, 3 phút, 2 giờ, 5 ngày."""
    if seconds is None:
        return "một thời gian không rõ"
    seconds = max(0.0, seconds)
    for unit, length, until in (("giây", 1, 120), ("phút", 60, 7200), ("giờ", 3600, 172_800)):
        if seconds < until:
            said = round(seconds / length)
            return f"{said} {unit}" if said else "chưa đầy 1 giây"
    return f"{round(seconds / 86_400)} ngày"


def local(at: datetime) -> str:
    """An instant to the second, of the companies' own time."""
    return at.astimezone(LOCAL).strftime("%H:%M:%S %d/%m/%Y")


def number(n: int) -> str:
    """A count with the thousands as Vietnamese writes them."""
    return f"{n:,}".replace(",", ".")


def _error(error: Any) -> str:
    """Its code and what it means, where that is known; else its own words."""
    means = error_sentence(error)
    if means is None:
        return error_words(error)
    return f"{error.get('code') or error.get('type')}: {means.rstrip('.')}"


def _up_to(n: int) -> str:
    return f"{number(n)} hoặc hơn" if n >= MOST_AHEAD else number(n)


def _backoff(r: Row) -> str:
    return (
        f"Lần chạy {r['charged']}/{r['max_attempts']} đã thất bại ({_error(r['error'])}); "
        f"công việc sẽ được thử lại sau {span(r['due_in'])}. Nếu lỗi sẽ lặp lại, hãy sửa nguyên "
        "nhân hoặc hủy công việc."
    )


def _snoozed(r: Row) -> str:
    also = "" if r["resumed"] else " Công việc còn đang bị tạm dừng."
    return (
        f"Chương trình xử lý đã xin chạy tiếp lúc {local(r['available_at'])}, sau "
        f"{span(r['due_in'])} ({error_words({'message': r['last_words']})}).{also}"
    )


def _handed_back(r: Row) -> str:
    return (
        f"Worker đã trả công việc lại, không tính là lỗi; sẽ chạy tiếp sau {span(r['due_in'])}. "
        "Không cần làm gì."
    )


def _scheduled(r: Row) -> str:
    return (
        f"Công việc chưa được bắt đầu trước {local(r['available_at'])}, còn {span(r['due_in'])}. "
        "Không cần làm gì."
    )


def _queue_paused(r: Row) -> str:
    return (
        f"Hàng đợi {r['queue']} đang tạm dừng nên không công việc nào của nó bắt đầu; hãy cho hàng "
        "đợi chạy lại."
    )


def _kind_paused(r: Row) -> str:
    return (
        f"Loại công việc {r['kind']} đang tạm dừng nên không công việc nào của loại này bắt đầu; "
        "hãy cho loại này chạy lại."
    )


def _frozen(r: Row) -> str:
    company, brand = r["frozen_company"], r["frozen_brand"]
    books = f"công ty {company}" if brand is None else f"thương hiệu {brand} của công ty {company}"
    why = "" if r["frozen_for"] is None else f" ({error_words({'message': r['frozen_for']})})"
    return (
        f"Sổ của {books} bị khóa từ {local(r['frozen_at'])}{why}, nên công việc ghi vào sổ đó "
        "không bắt đầu; mở khóa sổ thì chúng chạy tiếp."
    )


def _job_paused(r: Row) -> str:
    return (
        f"Công việc bị tạm dừng từ {local(r['paused_at'])}; cho tiếp tục thì nó chạy tiếp từ chỗ "
        "đã dừng."
    )


def _group_cancelling(r: Row) -> str:
    return (
        f"Nhóm {r['group_id']} của công việc đang bị hủy nên không thành viên nào bắt đầu; công "
        "việc này sẽ bị hủy trong giây lát."
    )


def _group_open(r: Row) -> str:
    group, total = r["joins"], r["group_total"] or 0
    if r["group_outcome"] is not None:
        return (
            f"Nhóm {group} không thành công ({r['group_outcome']}) nên công việc này không chạy; "
            "nó sẽ được kết thúc trong giây lát."
        )
    ended = total - (r["group_remaining"] or 0)
    more = "nhóm vẫn còn nhận thành viên" if r["group_state"] == "open" else "không cần làm gì"
    return (
        f"Công việc chờ nhóm {group} kết thúc (đã xong {number(ended)}/{number(total)} thành "
        f"viên); {more}."
    )


def _out_of_attempts(r: Row) -> str:
    return (
        f"Không còn lần chạy nào ({r['charged']}/{r['max_attempts']} đã bị tính, mất "
        f"{number(r['lost_leases'])} worker) nên không worker nào nhận; hãy hủy rồi gửi lại công "
        "việc."
    )


def _no_worker(r: Row) -> str:
    return (
        f"Không có worker nào đang sống phục vụ hàng đợi {r['queue']}; hãy khởi động một worker có "
        "CHOT_QUEUES chứa hàng đợi này."
    )


def _kind_unknown(r: Row) -> str:
    return (
        f"Trong {number(r['live'])} worker đang sống của hàng đợi {r['queue']}, không worker nào "
        f"biết loại {r['kind']}; hãy khởi động worker có CHOT_KIND_MODULES và CHOT_HANDLER_MODULES "
        "chứa loại này."
    )


def _version_unknown(r: Row) -> str:
    return (
        f"Dữ liệu của công việc thuộc phiên bản {r['payload_version']} của loại {r['kind']}, còn "
        f"các worker của hàng đợi {r['queue']} chỉ biết đến phiên bản {r['newest_version']}; hãy "
        "triển khai worker mới hơn."
    )


def _stopping(r: Row) -> str:
    return (
        f"Cả {number(r['know_version'])} worker của hàng đợi {r['queue']} chạy được loại "
        f"{r['kind']} đều đang dừng và không nhận thêm; công việc chờ worker kế tiếp khởi động."
    )


def _lock_held(r: Row) -> str:
    how = "một mình" if r["held_mode"] == "exclusive" else "cùng với công việc khác"
    return (
        f"{_job(r['holder_id'], r['holder_kind'])} đang giữ {_locked(r, 'held')} {how}; công việc "
        "này đến lượt khi khóa được trả."
    )


def _lock_reserved(r: Row) -> str:
    return (
        f"{_job(r['waiter_id'], r['waiter_kind'])} cũng chờ {_locked(r, 'reserved')} và được ưu "
        "tiên trước; công việc này đến lượt sau nó."
    )


def _job(job_id: Any, kind: str | None) -> str:
    return "Một công việc của người khác" if job_id is None else f"Công việc {job_id} ({kind})"


def _locked(r: Row, how: str) -> str:
    lock = locks_json({name: r[f"{how}_{name}"] for name in LOCK_FIELDS})
    part = "" if lock["part"] is None else f" {lock['part']}"
    start, end = lock["period_from"], lock["period_to"]
    if start is None and end is None:
        periods = ""
    elif start == end:
        periods = f" của {start}"
    else:
        periods = f" từ {start or '…'} đến {end or '…'}"
    return f"{lock['root']}{part}{periods}"


def _runs_alone(r: Row) -> str:
    if r["alone_worker"]:
        who = f"worker {r['alone_worker']} đã giữ hàng đợi {r['queue']} cho việc đó"
    else:
        who = "đang chờ một worker làm xong các công việc khác"
    return (
        f"Công việc đã làm mất worker {r['lost_leases']} lần nên nay chỉ chạy một mình, để tìm ra "
        f"công việc làm chết tiến trình: {who}. Hãy xem nhật ký của worker."
    )


def _workers_alone(r: Row) -> str:
    return (
        f"Cả {number(r['know_version'])} worker của hàng đợi {r['queue']} chạy được loại "
        f"{r['kind']} đang dành cho một công việc phải chạy một mình, hoặc đang dừng; sau đó đến "
        "lượt công việc này."
    )


def _maximum(r: Row) -> str:
    return (
        f"Loại {r['kind']} đã đạt mức tối đa ({_run(r['places_taken'], r['max_running'])}); công "
        "việc bắt đầu khi đến lượt."
    )


def _limit(r: Row) -> str:
    what = [] if r["limit_kind"] is None else [f"loại {r['limit_kind']}"]
    if r["limit_company"] is not None:
        brand = r["limit_brand"]
        whose = f"công ty {r['limit_company']}"
        what.append(whose if brand is None else f"thương hiệu {brand} của {whose}")
    return (
        f"Giới hạn của {', '.join(what)} đã đầy ({_run(r['limit_taken'], r['limit_most'])}); "
        "công việc bắt đầu khi đến lượt, sau khi một trong số đó kết thúc."
    )


def _run(taken: int | None, most: int) -> str:
    return f"được chạy {most}" if taken is None else f"đang chạy {taken}, được chạy {most}"


def _refused(r: Row) -> str:
    return (
        f"SQS đã từ chối hẳn tin nhắn của công việc ({r['last_error'] or 'không rõ lý do'}); hãy "
        "sửa theo lý do đó, rồi tạm dừng và cho hàng đợi chạy lại để gửi tin mới."
    )


def _window_full(r: Row) -> str:
    higher = f" và {_up_to(r['higher'])} tin ưu tiên cao hơn" if r["higher"] else ""
    used = "" if r["window_used"] is None else f"{r['window_used']}/"
    return (
        f"Cửa sổ của hàng đợi {r['queue']} đã đầy ({used}{r['window_size']} tin đang ở ngoài cho "
        f"{r['slots']} chỗ chạy); công việc xếp hàng sau {_up_to(r['ahead'])} tin cùng loại, "
        f"thương hiệu và mức ưu tiên{higher}. Thêm worker, hoặc tăng mức ưu tiên, thì sớm hơn."
    )


def _publishing_failed(r: Row) -> str:
    return (
        f"SQS chưa nhận tin nhắn của công việc ({r['last_error']}), đã thử {r['sends']} lần; sẽ "
        f"thử lại sau {span(r['sent_in'])}."
    )


def _publishing(r: Row) -> str:
    return (
        f"Công việc đã đến hạn {span(max(0.0, -r['due_in']))} và tin nhắn đang trên đường tới SQS; "
        "nếu kéo dài, hãy xem /readyz của api."
    )


def _slots_busy(r: Row) -> str:
    return (
        f"Tin nhắn của công việc đã ở SQS, nhưng cả {number(r['slots'])} chỗ chạy của "
        f"{number(r['working'])} worker đều bận theo nhịp báo cuối; có chỗ trống là nó bắt đầu."
    )


def _delivery(r: Row) -> str:
    return (
        f"Tin nhắn của công việc đã ở SQS {span(r['published_for'])}, và {r['free_slots']}/"
        f"{r['slots']} chỗ chạy còn trống theo nhịp báo cuối; worker sẽ nhận trong giây lát, nếu "
        "không tin sẽ được gửi lại."
    )


def _expired(r: Row) -> str:
    then = "sắp được worker khác nhận tiếp" if r["attempts_left"] else "sắp bị đưa vào mục chết"
    return (
        f"Quyền giữ công việc của worker {r['worker_id']} đã hết hạn {span(-r['lease_left'])} "
        f"trước mà không được gia hạn; công việc {then}."
    )


def _silent(r: Row) -> str:
    then = (
        "một worker khác sẽ nhận tiếp từ điểm lưu cuối"
        if r["attempts_left"]
        else "công việc bị đưa vào mục chết vì không còn lần chạy"
    )
    return (
        f"Worker {r['worker_id']} đang chạy lần {r['attempt']} của công việc đã im lặng "
        f"{span(r['owner_silent_for'])}; nếu nó không trở lại, quyền giữ hết hạn sau "
        f"{span(r['lease_left'])} và {then}."
    )


def _running(r: Row) -> str:
    return (
        f"Worker {r['worker_id']} đang chạy lần {r['attempt']} của công việc được "
        f"{span(r['going_for'])}{_progress(r)}. Không cần làm gì."
    )


def _progress(r: Row) -> str:
    done, total, eta = r["progress_done"], r["progress_total"], pace_of(r).eta
    if done is None:
        return ""
    of = "" if total is None else f"/{number(total)}"
    unit = f" {r['progress_unit']}" if r["progress_unit"] else ""
    left = "" if eta is None else f", còn {span((eta - r['read_at']).total_seconds())}"
    return f", đã xong {number(done)}{of}{unit}{left}"


def _succeeded(r: Row) -> str:
    return f"Công việc đã hoàn tất lúc {local(r['finished_at'])} ở lần chạy {r['attempt']}."


def _cancelled(r: Row) -> str:
    left = "phần làm dở vẫn đang được dọn" if r["cleanup_due"] else "hãy gửi lại nếu vẫn cần đến nó"
    return f"Công việc đã bị hủy lúc {local(r['finished_at'])}; {left}."


def _dead(r: Row, refused: str | None) -> str:
    nobody = "" if r["know_kind"] else ", mà không worker nào đang sống biết cách dọn"
    met = {
        None: "có thể chạy lại",
        "cleanup-pending": f"chưa chạy lại được khi phần làm dở chưa được dọn{nobody}",
        "twin-active": f"không chạy lại được khi công việc {r['twin']} đang làm cùng việc này",
        "payload-outdated": "không chạy lại được vì dữ liệu không hợp với mẫu hiện nay: hãy gửi "
        "công việc mới",
    }[refused]
    return (
        f"Công việc đã chết lúc {local(r['finished_at'])} sau {r['charged']}/{r['max_attempts']} "
        f"lần chạy và {number(r['lost_leases'])} worker bị mất ({_error(r['error'])}); {met}."
    )


SENTENCES: Mapping[Reason, Callable[[Row], str]] = {
    Reason.BACKOFF: _backoff,
    Reason.SNOOZED: _snoozed,
    Reason.HANDED_BACK: _handed_back,
    Reason.SCHEDULED: _scheduled,
    Reason.QUEUE_PAUSED: _queue_paused,
    Reason.KIND_PAUSED: _kind_paused,
    Reason.BOOKS_FROZEN: _frozen,
    Reason.JOB_PAUSED: _job_paused,
    Reason.GROUP_CANCELLING: _group_cancelling,
    Reason.GROUP_OPEN: _group_open,
    Reason.OUT_OF_ATTEMPTS: _out_of_attempts,
    Reason.NO_WORKER: _no_worker,
    Reason.KIND_UNKNOWN: _kind_unknown,
    Reason.VERSION_UNKNOWN: _version_unknown,
    Reason.WORKERS_STOPPING: _stopping,
    Reason.LOCK_HELD: _lock_held,
    Reason.LOCK_RESERVED: _lock_reserved,
    Reason.RUNS_ALONE: _runs_alone,
    Reason.WORKERS_ALONE: _workers_alone,
    Reason.KIND_MAXIMUM: _maximum,
    Reason.LIMIT_REACHED: _limit,
    Reason.MESSAGE_REFUSED: _refused,
    Reason.WINDOW_FULL: _window_full,
    Reason.PUBLISHING_FAILED: _publishing_failed,
    Reason.PUBLISHING: _publishing,
    Reason.SLOTS_BUSY: _slots_busy,
    Reason.DELIVERY: _delivery,
    Reason.LEASE_EXPIRED: _expired,
    Reason.WORKER_SILENT: _silent,
    Reason.RUNNING: _running,
    Reason.SUCCEEDED: _succeeded,
    Reason.CANCELLED: _cancelled,
}


def sentence(reason: Reason, told: Row, redrive_refused: str | None) -> str:
    """What explain() says of the row, in Vietnamese."""
    if reason == Reason.DEAD:
        return _dead(told, redrive_refused)
    return SENTENCES[reason](told)
