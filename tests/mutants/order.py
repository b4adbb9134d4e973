"""Bugs in who runs next: what an operator has stopped or limited, and whose turn it is."""

from tests.mutants.mutant import mutant

LIMITS = "shared/jobs/limits.py"
STAGING = "shared/jobs/staging.py"
RUNNING_LIMITS = "protocol/test_running_limits.py"
STOPS = "protocol/test_stops.py"
SENT = f"{STOPS}::test_a_message_that_is_just_being_sent_is_not_taken_for_one_that_waits"

MUTANTS = (
    mutant(
        "a limit is counted and not locked",
        (LIMITS, "ORDER BY l.id FOR NO KEY UPDATE OF l)", "ORDER BY l.id)"),
        f"{RUNNING_LIMITS}::test_a_claim_waits_for_another_one_of_its_limit",
    ),
    mutant(
        "a batch claims what has a limit",
        ("worker/claim.py", "{HAS_NO_LIMIT} AND {HAS_NO_LOCKS}", "{HAS_NO_LOCKS}"),
        f"{RUNNING_LIMITS}::test_a_removed_limit_holds_nobody",
    ),
    mutant(
        "a place that is reserved is one of its kind only",
        (LIMITS, "aq.alone_brand AS brand", "NULL::text AS brand"),
        f"{RUNNING_LIMITS}::test_a_job_that_runs_alone_holds_its_place_in_every_limit",
    ),
    mutant(
        "who waits for another limit stands in the way",
        ("shared/limited_lanes.py", "PARTITION BY queue, key, held", "PARTITION BY queue, key"),
        f"{RUNNING_LIMITS}::test_what_one_limit_holds_stands_in_no_other_ones_way",
        also={
            f"{RUNNING_LIMITS}::test_a_place_that_a_round_has_left_is_had_at_once": (
                "RED's others, held by RED's limit, have BLUE's turns in the second round, too"
            )
        },
    ),
    mutant(
        "a place that was left is kept until the next poll",
        ("shared/publishing.py", "WHERE EXISTS (SELECT FROM taken) AND", "WHERE false AND"),
        f"{RUNNING_LIMITS}::test_a_place_that_a_round_has_left_is_had_at_once",
    ),
    mutant(
        "a paused kind is claimed",
        ("shared/jobs/states.py", "f\"NOT {kind_paused('j')}\"", '"true"'),
        f"{STOPS}::test_a_stop_holds_for_every_claim_and_ends_at_once[kind]",
        also={
            SENT: "its message meets a paused kind, and is not to win the job",
        },
    ),
    mutant(
        "a frozen brand leaves the company's own jobs alone",
        ("shared/jobs/stops.py", "IN ('', cf.brand)", "= cf.brand"),
        f"{STOPS}::test_whose_jobs_write_frozen_books[frozen4-ACME-None-True]",
    ),
    mutant(
        "a message that is just being sent counts as waiting",
        (STAGING, "AND o.take_token IS NULL", "AND (o.take_token IS NULL OR true)"),
        SENT,
    ),
    mutant(
        "a stop that ends leaves the message to another one",
        (
            STAGING,
            "AND {NO_MESSAGE_WAITS}\n        RETURNING 1",
            (
                "AND {NO_MESSAGE_WAITS}\n"
                "           AND NOT EXISTS (SELECT FROM chot.freezes f WHERE f.company = j.company)\n"
                "        RETURNING 1"
            ),
        ),
        f"{STOPS}::test_two_stops_that_end_at_once_leave_nobody_between_them",
    ),
    mutant(
        "brands of one code share a turn",
        ("shared/publishing.py", "SELECT due.*, due.company ||", "SELECT due.*, '' ||"),
        "protocol/test_publishing.py::test_brands_of_one_code_in_two_companies_take_turns",
    ),
)
