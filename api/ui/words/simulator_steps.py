"""What the simulator says: a sentence for each action of the model that a trace takes, and promises."""

WORDS = {
    # One sentence a step.
    "simulator.say.submit": (
        "A client hands in {job}. The database keeps it, with a slip that it must be announced.",
        "Một khách gửi {job}. Cơ sở dữ liệu giữ lại, kèm một phiếu báo chờ gửi.",
    ),
    "simulator.say.relay_publish": (
        "The slip of {job} becomes a message in the queue: whoever has time may take it.",
        "Phiếu báo của {job} thành tin nhắn trong hàng đợi: máy nào rảnh thì nhận.",
    ),
    "simulator.say.relay_drop": (
        "The slip of {job} is thrown away: the job is not waiting any more.",
        "Phiếu báo của {job} bị bỏ: việc này không còn chờ nữa.",
    ),
    "simulator.say.receive": (
        "{worker} receives a message about {job}. For {visibility} seconds nobody else sees it.",
        "{worker} nhận tin nhắn về {job}. Trong {visibility} giây không máy nào khác thấy tin này.",
    ),
    "simulator.say.claim": (
        (
            "{worker} takes {job} and gets fence number {fence}, higher than any before. For {lease} "
            "seconds the job is its own: that is the lease."
        ),
        (
            "{worker} nhận {job} và được số rào {fence}, lớn hơn mọi số trước đó. Trong {lease} giây "
            "việc này là của nó: đó là thời hạn giữ việc (lease)."
        ),
    ),
    "simulator.say.read_input": (
        "{worker} reads how far {job} has got: piece {piece} is next.",
        "{worker} đọc xem {job} đã làm đến đâu: tiếp theo là phần {piece}.",
    ),
    "simulator.say.beat": (
        "{worker} says that it is alive: the {lease} seconds of {job} begin anew.",
        "{worker} báo là còn sống: {lease} giây giữ {job} được tính lại từ đầu.",
    ),
    "simulator.say.renew": (
        (
            "{worker} says that it is alive just in time: its lease of {job} had run out, but nobody "
            "had taken the job. It keeps it."
        ),
        (
            "{worker} báo còn sống vừa kịp: thời hạn giữ {job} đã hết nhưng chưa máy nào lấy việc. "
            "Nó được giữ tiếp."
        ),
    ),
    "simulator.say.commit_chunk": (
        "{worker} writes piece {piece} of {job} into the books under fence number {fence}.",
        "{worker} ghi phần {piece} của {job} vào sổ với số rào {fence}.",
    ),
    "simulator.say.complete": (
        "{worker} writes the last piece, {piece}, under fence number {fence}: {job} is done.",
        "{worker} ghi phần cuối cùng, phần {piece}, với số rào {fence}: {job} hoàn tất.",
    ),
    "simulator.say.lose_lease": (
        (
            "{worker} comes too late: it wants to write with fence number {fence}, but the database "
            "knows a newer owner or an ended job. Nothing of it is written."
        ),
        (
            "{worker} đến quá muộn: nó định ghi với số rào {fence}, nhưng cơ sở dữ liệu đã có chủ "
            "mới hơn hoặc việc đã xong. Không có gì của nó được ghi."
        ),
    ),
    "simulator.say.delete_message": (
        "{worker} throws the message about {job} away: the outcome is safe in the database.",
        "{worker} bỏ tin nhắn về {job}: kết quả đã nằm chắc trong cơ sở dữ liệu.",
    ),
    "simulator.say.miss_delete": (
        "{worker} finds nothing to do for {job} and throws this extra message away.",
        "{worker} thấy {job} không còn gì để làm và bỏ tin nhắn thừa này.",
    ),
    "simulator.say.put_off": (
        "{worker} cannot take {job}: somebody else holds it. The message comes again later.",
        "{worker} không nhận được {job}: máy khác đang giữ. Tin nhắn sẽ quay lại sau.",
    ),
    "simulator.say.expire": (
        "The time of {job} is up although its worker lives: no sign of life came through.",
        "Hết thời hạn giữ {job} dù máy giữ việc vẫn sống: không có tín hiệu nào đến kịp.",
    ),
    "simulator.say.expire_unheld": (
        "The time of {job} is up: nobody has said for {lease} seconds that it is alive.",
        "Hết thời hạn giữ {job}: suốt {lease} giây không ai báo là còn sống.",
    ),
    "simulator.say.reap": (
        (
            "The reaper, who looks every 5 seconds, takes {job} back: it waits for a new owner and is "
            "announced again, or it is given up after too many losses."
        ),
        (
            "Bộ dọn, cứ 5 giây xem một lần, thu {job} về: việc chờ chủ mới và được báo lại, hoặc bị "
            "bỏ nếu đã mất quá nhiều lần."
        ),
    ),
    "simulator.say.reconcile": (
        "{job} waits but no message tells of it: its message was lost. It is announced again.",
        "{job} đang chờ mà không có tin nhắn nào: tin đã bị mất. Việc được báo lại.",
    ),
    "simulator.say.crash": (
        (
            "{worker} crashes in the middle of {job}. What it had not written is gone; its lease runs "
            "on until it ends."
        ),
        (
            "{worker} chết giữa chừng {job}. Phần chưa ghi mất đi; thời hạn giữ việc vẫn chạy cho "
            "đến hết."
        ),
    ),
    "simulator.say.pause": (
        "{worker} freezes: it does nothing, says nothing, and knows nothing of it.",
        "{worker} bị đứng: không làm gì, không báo gì, và cũng không biết là mình bị đứng.",
    ),
    "simulator.say.resume": (
        "{worker} wakes up and goes on as if no time had passed.",
        "{worker} tỉnh lại và làm tiếp như thể thời gian chưa trôi qua.",
    ),
    "simulator.say.duplicate": (
        "The queue delivers the message about {job} twice. It may do that.",
        "Hàng đợi gửi tin nhắn về {job} hai lần. Nó được phép làm vậy.",
    ),
    "simulator.say.lose": (
        "The queue loses the message about {job}.",
        "Hàng đợi làm mất tin nhắn về {job}.",
    ),
    "simulator.say.redeliver": (
        "{worker} has been silent for {visibility} seconds: others see its message of {job} again.",
        "{worker} im lặng đã {visibility} giây: các máy khác lại thấy tin nhắn về {job}.",
    ),
    "simulator.say_doubled": (
        "DOUBLE WRITE: piece {piece} of {job} is now in the books twice.",
        "GHI HAI LẦN: phần {piece} của {job} giờ có trong sổ hai lần.",
    ),
    # The design's promises, as the model checks them.
    "simulator.property.effect_once": (
        "No piece is written twice.",
        "Không phần nào bị ghi hai lần.",
    ),
    "simulator.property.fences_only_grow": (
        "Nobody writes under an older fence number after a newer one has written.",
        "Không ai ghi với số rào cũ sau khi một số mới hơn đã ghi.",
    ),
    "simulator.property.only_the_owner_writes": (
        "Only the present owner of a job writes.",
        "Chỉ chủ hiện tại của việc mới được ghi.",
    ),
    "simulator.property.succeeded_is_complete": (
        "A job that is done has each of its pieces exactly once.",
        "Việc đã xong có đủ mỗi phần đúng một lần.",
    ),
    "simulator.property.one_owner": (
        "At most one worker could write at any moment, and it is the owner.",
        "Mỗi lúc nhiều nhất một máy ghi được, và đó là chủ.",
    ),
    "simulator.property.the_owner_knows": (
        "The owner knows how far its job has got.",
        "Chủ biết việc của mình đã làm đến đâu.",
    ),
    "simulator.property.terminal_is_final": (
        "A job that has ended changes no more.",
        "Việc đã kết thúc thì không thay đổi nữa.",
    ),
    "simulator.property.a_live_lease_is_kept": (
        "While the lease lasts nobody takes the job away.",
        "Còn thời hạn giữ thì không ai lấy việc đi.",
    ),
    "simulator.property.only_the_owner_renews": (
        "Only the owner can extend its lease.",
        "Chỉ chủ mới gia hạn được thời hạn giữ.",
    ),
    "simulator.property.counters_within_budget": (
        "No job is tried more often than allowed.",
        "Không việc nào bị thử quá số lần cho phép.",
    ),
    "simulator.property.counters_are_true": (
        "Lost leases are counted truly.",
        "Số lần mất quyền giữ được đếm đúng.",
    ),
    "simulator.property.attempts_are_closed": (
        "A job has one open attempt while it runs, and none else.",
        "Việc có đúng một lượt đang mở khi chạy, ngoài ra không có.",
    ),
    "simulator.property.messages_of_committed_jobs": (
        "Messages are of jobs that exist.",
        "Tin nhắn chỉ nói về việc có thật.",
    ),
    "simulator.property.pending_is_announced": (
        "A waiting job is announced, unless the queue lost its message.",
        "Việc đang chờ luôn được báo, trừ khi hàng đợi làm mất tin.",
    ),
    "simulator.property.cleanup_is_of_the_ended": (
        "Only ended jobs are cleaned up.",
        "Chỉ dọn dẹp việc đã kết thúc.",
    ),
    "simulator.property.one_active_job_per_work": (
        "One piece of work has one active job.",
        "Mỗi phần việc chỉ có một lượt đang hoạt động.",
    ),
    "simulator.property.every_run_ends": (
        "Every job ends at last.",
        "Việc nào rồi cũng kết thúc.",
    ),
}
