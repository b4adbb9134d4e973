"""Bugs in groups: who counts a member's end, and who starts the join."""

from tests.mutants.mutant import mutant

COUNTER, EXITS, GUARDS = (
    "shared/groups/counter.py",
    "shared/jobs/exits.py",
    "shared/jobs/guards.py",
)
FILL, CLAIM = "shared/groups/fill.py", "worker/claim.py"
GROUPS, RACES = "protocol/test_groups.py", "protocol/test_group_races.py"
SELF = "protocol/test_self_join.py"

MUTANTS = (
    mutant(
        "an end of a member is not counted by its own statement",
        (
            EXITS,
            "WHERE group_id IS NOT NULL AND state IN ('succeeded', 'cancelled', 'dead')\n",
            "WHERE false AND state IN ('succeeded', 'cancelled', 'dead')\n",
        ),
        f"{GROUPS}::test_each_end_counts_exactly_once[complete]",
        also={
            f"{GROUPS}::test_the_last_end_stages_the_join": "no end is the last one of its group",
            f"{RACES}::test_a_member_that_is_given_back_under_a_claimed_join_is_refused": (
                "it asks whether the counters are the truth"
            ),
        },
    ),
    mutant(
        "a group's row is not locked before its members'",
        (
            GUARDS,
            "    if guards.group is not None:\n",
            "    if guards.group is None:\n",
        ),
        f"{RACES}::test_an_end_waits_for_the_groups_row_and_holds_no_job_meanwhile",
    ),
    mutant(
        "the last end stages no join",
        (
            COUNTER,
            "WHERE {JOIN_MAY_RUN} AND j.state = 'pending'",
            "WHERE {JOIN_MAY_RUN} AND j.state = 'none'",
        ),
        f"{GROUPS}::test_the_last_end_stages_the_join",
    ),
    mutant(
        "each end stages the join",
        (
            COUNTER,
            "WHERE {JOIN_MAY_RUN} AND j.state = 'pending'",
            "WHERE g.state <> 'open' AND j.state = 'pending'",
        ),
        f"{GROUPS}::test_before_the_last_end_the_join_is_nobodys",
        also={
            f"{GROUPS}::test_the_last_end_stages_the_join": "it asks for one message, and each end made one"
        },
    ),
    mutant(
        "a sealed group takes members",
        (FILL, "group.state != GroupState.OPEN", "group.state == GroupState.ENDED"),
        f"{GROUPS}::test_a_closed_group_takes_no_member[sealed]",
    ),
    mutant(
        "a join is claimed without its group's lock",
        (
            CLAIM,
            "WHERE g.id = (SELECT j.joins FROM chot.jobs j WHERE j.id = ANY(:ids))",
            "WHERE g.id = (SELECT j.id FROM chot.jobs j WHERE j.id = ANY(:ids))",
        ),
        f"{RACES}::test_a_member_that_is_given_back_under_a_claimed_join_is_refused",
    ),
    mutant(
        "a stopped group's members are cancelled whatever it has become",
        (
            "shared/groups/stop.py",
            "cg.id = :group_id AND cg.state = 'cancelling'",
            "cg.id = :group_id AND cg.state <> 'ended'",
        ),
        f"{RACES}::test_a_worker_that_saw_it_cancelling_does_not_cancel_what_was_redriven",
    ),
    mutant(
        "a job that waits for its children is staged at once",
        (EXITS, "state = 'pending' AND {_JOINED}", "state = 'pending'"),
        f"{SELF}::test_a_job_waits_for_what_it_has_spawned_and_goes_on_once",
    ),
    mutant(
        "a cancel of a job leaves its children to themselves",
        ("shared/jobs/cancel.py", "WHERE g.id = gone.joins AND", "WHERE g.id = gone.id AND"),
        f"{SELF}::test_a_cancel_of_the_job_cancels_what_it_waits_for",
    ),
    mutant(
        "a job is charged for waiting",
        (
            "worker/waiting.py",
            "interruptions = j.interruptions + 1",
            "interruptions = j.interruptions + 0",
        ),
        f"{SELF}::test_waiting_is_never_charged",
        also={
            f"{SELF}::test_a_job_waits_for_what_it_has_spawned_and_goes_on_once": (
                "it reads the whole row of a job that waits"
            )
        },
    ),
    mutant(
        "a job of an internal kind is submitted",
        ("api/submission.py", "    if kind.internal:\n", "    if kind.internal is None:\n"),
        "protocol/api/test_internal_kinds.py::"
        "test_a_submit_of_an_internal_kind_names_the_route_to_use[one]",
    ),
)
