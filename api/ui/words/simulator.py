"""Words of the simulator. Each action of the model that a trace takes has a sentence."""

WORDS = {
    "simulator.title": ("Simulator", "Mô phỏng"),
    "simulator.lead": (
        (
            "How this queue hands out work, and why nothing is written twice when a machine dies or "
            "wakes up too late. What you see are runs of the very model by which the design is "
            "checked, with time added."
        ),
        (
            "Hàng đợi này giao việc ra sao, và vì sao không có gì bị ghi hai lần khi một máy chết "
            "hoặc tỉnh dậy quá muộn. Đây là các lượt chạy của chính mô hình dùng để kiểm chứng "
            "thiết kế, có thêm thời gian."
        ),
    ),
    "simulator.worker": ("worker {name}", "máy {name}"),
    "simulator.job": ("job {n}", "việc {n}"),
    # The tour.
    "simulator.tour": ("A tour in five steps", "Năm bước làm quen"),
    "simulator.tour.of": ("Step {n} of {of}", "Bước {n} / {of}"),
    "simulator.tour.next": ("Next", "Tiếp"),
    "simulator.tour.previous": ("Previous", "Trước"),
    "simulator.tour.play": ("Play this", "Chạy đoạn này"),
    "simulator.tour.1.title": ("What you see", "Bạn đang thấy gì"),
    "simulator.tour.1": (
        (
            "Workers are machines that do jobs. A job has pieces; each is written into the books once "
            "it is done. The queue carries messages that say “there is work”. The database alone "
            "decides who may do a job: it lends it for some seconds (the lease) under a number that "
            "grows with each owner (the fence)."
        ),
        (
            "Máy (worker) là nơi làm việc. Một việc gồm nhiều phần; xong phần nào ghi sổ phần ấy. "
            "Hàng đợi chuyển tin nhắn “có việc”. Chỉ cơ sở dữ liệu quyết định ai được làm: nó cho "
            "mượn việc trong vài giây (thời hạn giữ việc, lease) với một số tăng dần theo mỗi chủ "
            "(số rào, fence)."
        ),
    ),
    "simulator.tour.2.title": ("A normal job", "Một việc bình thường"),
    "simulator.tour.2": (
        (
            "A worker takes the job and gets fence number 1. Every 3 seconds it says that it is alive, "
            "so that its time never runs out. It writes two pieces, and the job is done."
        ),
        (
            "Một máy nhận việc và được số rào 1. Cứ 3 giây nó báo còn sống, nên thời hạn không bao "
            "giờ hết. Nó ghi hai phần, và việc xong."
        ),
    ),
    "simulator.tour.3.title": ("A crash", "Một máy chết"),
    "simulator.tour.3": (
        (
            "The worker dies in the second piece. Nobody tells the others; its time simply runs out. "
            "Then another worker takes the job under fence number 2 and goes on behind the piece that "
            "was written."
        ),
        (
            "Máy chết ở phần thứ hai. Không ai báo cho các máy khác; thời hạn cứ thế hết. Rồi một "
            "máy khác nhận việc với số rào 2 và làm tiếp sau phần đã ghi."
        ),
    ),
    "simulator.tour.4.title": ("A zombie", "Một máy “xác sống”"),
    "simulator.tour.4": (
        (
            "The worker is not dead, only frozen for a while. When it wakes up it still believes that "
            "the job is its own, although another has done it. It tries to write with fence number 1; "
            "the database knows number 2 and refuses."
        ),
        (
            "Máy không chết, chỉ bị đứng một lúc. Khi tỉnh lại nó vẫn tưởng việc là của mình, dù máy "
            "khác đã làm xong. Nó định ghi với số rào 1; cơ sở dữ liệu đã có số 2 và từ chối."
        ),
    ),
    "simulator.tour.5.title": ("The same without the fence", "Cũng vậy, nhưng không có rào"),
    "simulator.tour.5": (
        (
            "The same freeze, but nobody compares the numbers. The zombie's write goes through: the "
            "piece is in the books twice. With money in it that is a payment made twice."
        ),
        (
            "Vẫn lần đứng máy ấy, nhưng không ai so số. Lần ghi của “xác sống” lọt qua: phần này có "
            "trong sổ hai lần. Nếu là tiền thì đó là một khoản trả hai lần."
        ),
    ),
    # The player.
    "simulator.player": ("The queue, drawn", "Hình vẽ hàng đợi"),
    "simulator.keys": (
        (
            "Keys, once the drawing has the focus: space plays and pauses, ← and → go a step, Home and End "
            "to both ends."
        ),
        (
            "Phím, khi hình vẽ được chọn: dấu cách chạy và dừng, ← và → đi từng bước, Home và End về hai "
            "đầu."
        ),
    ),
    "simulator.play": ("Play", "Chạy"),
    "simulator.pause": ("Pause", "Dừng"),
    "simulator.step": ("Step", "Bước tới"),
    "simulator.back": ("Back", "Bước lui"),
    "simulator.speed": ("Speed", "Tốc độ"),
    "simulator.speed.of": ("{n} s a second", "{n} giây mỗi giây"),
    "simulator.position": ("Step", "Bước"),
    "simulator.at": ("second {at}", "giây {at}"),
    "simulator.beginning": ("Nothing has happened yet.", "Chưa có gì xảy ra."),
    "simulator.clock": ("time", "thời gian"),
    "simulator.of_steps": ("step {n} of {of}", "bước {n} / {of}"),
    # The drawing.
    "simulator.database": ("Database", "Cơ sở dữ liệu"),
    "simulator.outbox": ("Slips to send", "Phiếu chờ gửi"),
    "simulator.queue": ("Queue", "Hàng đợi"),
    "simulator.workers": ("Workers", "Các máy"),
    "simulator.fence": ("fence", "số rào"),
    "simulator.lease": ("lease", "hạn giữ"),
    "simulator.state.absent": ("not there yet", "chưa có"),
    "simulator.state.pending": ("waiting", "đang chờ"),
    "simulator.state.running": ("running", "đang chạy"),
    "simulator.state.succeeded": ("done", "xong"),
    "simulator.state.dead": ("given up", "đã bỏ"),
    "simulator.state.cancelled": ("cancelled", "đã hủy"),
    "simulator.expired": ("lease is over", "hết hạn giữ"),
    "simulator.doing.idle": ("looks for work", "đang tìm việc"),
    "simulator.doing.received": ("has a message", "có tin nhắn"),
    "simulator.doing.claimed": ("took the job", "đã nhận việc"),
    "simulator.doing.ready": ("works", "đang làm"),
    "simulator.doing.done": ("tidies up", "đang dọn"),
    "simulator.doing.down": ("starts again", "đang khởi động lại"),
    "simulator.doing.paused": ("frozen", "bị đứng"),
    "simulator.doing.zombie": ("believes it owns the job", "tưởng việc là của mình"),
    "simulator.piece": ("piece", "phần"),
    # The legend.
    "simulator.legend": ("Legend", "Chú giải"),
    "simulator.legend.message": ("a message: “there is work”", "một tin nhắn: “có việc”"),
    "simulator.legend.hidden": (
        "a message that is not to be seen yet",
        "tin nhắn chưa hiện ra",
    ),
    "simulator.legend.slip": ("a slip that still has to be sent", "một phiếu còn chờ gửi"),
    "simulator.legend.piece": (
        "a piece in the books, with the fence number that wrote it",
        "một phần đã ghi sổ, kèm số rào đã ghi nó",
    ),
    "simulator.legend.double": (
        "a piece that is in the books twice",
        "một phần có trong sổ hai lần",
    ),
    "simulator.legend.lease": (
        "the lease: how long the owner may stay silent",
        "thời hạn giữ việc: chủ được im lặng bao lâu",
    ),
    "simulator.legend.owner": ("owner of the job", "chủ của việc"),
    "simulator.legend.zombie": (
        "a zombie: believes that it owns the job, and does not",
        "“xác sống”: tưởng việc là của mình, nhưng không phải",
    ),
    # What it says of the whole trace.
    "simulator.holds": (
        "All {n} promises of the design hold in each of these {steps} steps.",
        "Cả {n} lời hứa của thiết kế đều giữ được trong từng bước của {steps} bước này.",
    ),
    "simulator.broken": (
        "Without the fence this run breaks promises of the design:",
        "Không có rào, lượt chạy này phá vỡ các lời hứa của thiết kế:",
    ),
    "simulator.doubled": (
        "A piece is written twice at step {n}.",
        "Một phần bị ghi hai lần ở bước {n}.",
    ),
    "simulator.lucky": (
        (
            "The fence is off, but nobody came too late in this run. Try more freezes, another seed, "
            "or the shortest way."
        ),
        (
            "Rào đã tắt, nhưng lượt này không máy nào đến muộn. Hãy tăng số lần bị đứng, đổi hạt "
            "giống, hoặc xem đường ngắn nhất."
        ),
    ),
    "simulator.show_double": ("Show the double write", "Cho xem lần ghi thứ hai"),
    "simulator.shortest": ("Show the shortest way to it", "Cho xem đường ngắn nhất"),
    "simulator.unsafe": (
        (
            "A real worker would refuse to start with these times: three heartbeats and a margin must "
            "fit into the lease and into the invisibility of a message."
        ),
        (
            "Máy thật sẽ từ chối khởi động với các thời gian này: ba nhịp báo cộng phần dự phòng phải "
            "nằm gọn trong thời hạn giữ việc và trong thời gian ẩn của tin nhắn."
        ),
    ),
    "simulator.stopped.steps": (
        "The run ends here: a run has 600 steps at most.",
        "Lượt chạy dừng ở đây: mỗi lượt nhiều nhất 600 bước.",
    ),
    "simulator.stopped.seconds": (
        "The run ends here: a run lasts an hour of its own time at most.",
        "Lượt chạy dừng ở đây: mỗi lượt dài nhất một giờ theo đồng hồ của nó.",
    ),
    "simulator.stopped.ended": (
        "The run ends when nothing more can happen.",
        "Lượt chạy kết thúc khi không còn gì có thể xảy ra.",
    ),
    # The controls.
    "simulator.controls": ("Try it yourself", "Tự thử"),
    "simulator.apply": ("Make a new run", "Tạo lượt chạy mới"),
    "simulator.field.workers": ("Workers", "Số máy"),
    "simulator.field.jobs": ("Jobs", "Số việc"),
    "simulator.field.pieces": ("Pieces of each job", "Số phần mỗi việc"),
    "simulator.field.work": ("Seconds of work for a piece", "Số giây làm một phần"),
    "simulator.field.lease": ("Lease, seconds", "Thời hạn giữ việc, giây"),
    "simulator.field.heartbeat": ("Sign of life every … seconds", "Báo còn sống mỗi … giây"),
    "simulator.field.visibility": (
        "Seconds that a message stays hidden",
        "Số giây tin nhắn bị ẩn",
    ),
    "simulator.field.crash": ("Crashes, % of the pieces", "Máy chết, % số phần"),
    "simulator.field.pause": ("Freezes, % of the pieces", "Máy bị đứng, % số phần"),
    "simulator.field.pause_seconds": ("A freeze lasts, seconds", "Mỗi lần đứng, giây"),
    "simulator.field.duplicate": ("Messages sent twice, %", "Tin nhắn gửi hai lần, %"),
    "simulator.field.loss": ("Messages lost, %", "Tin nhắn bị mất, %"),
    "simulator.field.seed": ("Seed of chance", "Hạt giống ngẫu nhiên"),
    "simulator.field.fence": ("Remove the fence", "Bỏ rào"),
    "simulator.fence_hint": (
        "The database then no longer compares numbers before it lets a worker write.",
        "Khi đó cơ sở dữ liệu không còn so số trước khi cho một máy ghi.",
    ),
    "simulator.seed_hint": (
        "The same numbers give the same run, always.",
        "Cùng các con số thì luôn ra cùng một lượt chạy.",
    ),
    "simulator.range": ("{least} to {most}", "{least} đến {most}"),
    "simulator.loading": ("The run is being computed …", "Đang tính lượt chạy …"),
    "simulator.failed": ("This run cannot be had: ", "Không có được lượt chạy này: "),
    "simulator.network": (
        "the server did not answer; try again",
        "máy chủ không trả lời; hãy thử lại",
    ),
    # The table.
    "simulator.table": ("All steps", "Mọi bước"),
    "simulator.beats": ("Show the signs of life too", "Hiện cả các lần báo còn sống"),
    "simulator.column.time": ("Second", "Giây"),
    "simulator.column.step": ("What happens", "Điều xảy ra"),
    "simulator.column.model": ("Action of the model", "Hành động của mô hình"),
    "simulator.plain": (
        "All steps as a table, without a script",
        "Bảng mọi bước, không cần script",
    ),
    "simulator.no_script": (
        "The drawing needs JavaScript; the run itself can be read as a table.",
        "Hình vẽ cần JavaScript; còn lượt chạy thì đọc được dưới dạng bảng.",
    ),
    "simulator.honest": (
        (
            "What this is: every step is a move of the model that docs/model.md describes, judged by "
            "its properties. A scheduler says when each possible move is due; the model says what is "
            "possible. Left out: answers to a commit that get lost, cancelling, and the worker's own "
            "watch, which stops most zombies before they try."
        ),
        (
            "Đây là gì: mỗi bước là một bước đi của mô hình mà docs/model.md mô tả, được xét theo các "
            "tính chất của nó. Bộ lập lịch nói khi nào mỗi bước có thể xảy ra; mô hình nói bước nào "
            "có thể. Bỏ qua: câu trả lời commit bị mất, hủy việc, và đồng hồ riêng của máy vốn chặn "
            "phần lớn “xác sống” trước khi chúng thử."
        ),
    ),
}
