"""A clock that has gone back: what is stored as later than now was written by another clock.

After a failover the database's clock may be behind the one before. What waits for a time of that
one would wait until it is that time again: an alert that is about to fire or to be told again, a
notice that is to be sent, the end of a silence. The evaluator takes the present instead, once, in
its turn; from there on the time that each rule says passes as ever.
"""

TIMES = ("since", "fired_at", "clear_since", "resolved_at", "told_at")
NOW = "clock_timestamp()"


def _no_later(column: str) -> str:
    """The column, or now where it is later; NULL stays NULL, which least() would make now."""
    return f"{column} = CASE WHEN {column} > {NOW} THEN {NOW} ELSE {column} END"


# Parts of the statement that loads the alerts (state.py). A silence lasts as long as was asked for,
# from now on. No notice is ever put off for longer than LAST_RETRY_SECONDS, which take_notices()
# knows; one of a later clock is due.
PRESENT = f"""
    present AS (
        UPDATE chot.alerts SET {", ".join(map(_no_later, TIMES))}
         WHERE greatest({", ".join(TIMES)}) > {NOW}),
    present_silences AS (
        UPDATE chot.alert_silences SET until = {NOW} + (until - made_at), made_at = {NOW}
         WHERE made_at > {NOW}),
    present_channels AS (
        UPDATE chot.alert_channels
           SET {", ".join(map(_no_later, ("seen_at", "delivered_at", "failed_at")))}
         WHERE greatest(seen_at, delivered_at, failed_at) > {NOW}),
    present_notices AS (
        UPDATE chot.alert_notices SET made_at = {NOW}, next_try_at = {NOW}
         WHERE made_at > {NOW})"""


def at_present(column: str) -> str:
    """What `present` makes of the column: a statement does not see what its own parts write."""
    return f"CASE WHEN a.{column} > {NOW} THEN {NOW} ELSE a.{column} END AS {column}"
