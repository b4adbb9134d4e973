"""Running limits: how many jobs may run at once, of a kind, of a brand, or of both.

A kind's own maximum comes with its code (`chot.kinds.max_running`); an operator's stand in
`chot.running_limits` and hold for each job that has what they name. All of a job's limits must
have room. Exact, because whoever claims such a job locks their rows by a statement before and
counts in a new one: in one statement two claims would not see each other.
"""

from sqlalchemy import text


def covers(limit: str, of: str) -> str:
    """SQL: the limit names nothing that `of`, which has kind, company and brand, has not."""
    return f"""({limit}.kind IS NULL OR {limit}.kind = {of}.kind)
               AND ({limit}.company IS NULL OR {limit}.company = {of}.company)
               AND ({limit}.brand IS NULL OR {limit}.brand = {of}.brand)"""


def limits_of(of: str) -> str:
    """A SELECT of the limits of `of`: id (NULL: of its kind's code), what it names, its maximum."""
    return f"""
        SELECT NULL::bigint AS id, k.name AS kind, NULL::text AS company, NULL::text AS brand,
               k.max_running
          FROM chot.kinds k WHERE k.name = {of}.kind AND k.max_running IS NOT NULL
        UNION ALL
        SELECT o.id, o.kind, o.company, o.brand, o.max_running
          FROM chot.running_limits o WHERE {covers("o", of)}"""


# A reservation that stands for a place of its job, over `aq`: from when it is made, so that nobody
# takes the place while its worker's other jobs end, until the job itself runs in it.
_HOLDS_A_PLACE = """(aq.alone_until > clock_timestamp() AND NOT EXISTS (
        SELECT FROM chot.jobs ar WHERE ar.state = 'running' AND ar.kind = aq.alone_kind
           AND ar.worker_id = aq.alone_worker))"""


def places_taken(limit: str, *, beside: str = "true", reservation: str = "true") -> str:
    """SQL over a limit: how many of its jobs run, or hold a place.

    `beside` is a predicate over `r`, on the running jobs that count; `reservation` one over `aq`,
    on the reservations that do.
    """
    return f"""((SELECT count(*) FROM chot.jobs r
                  WHERE r.state = 'running' AND {covers(limit, "r")} AND {beside})
              + (SELECT count(*) FROM (
                     SELECT aq.alone_kind AS kind, aq.alone_company AS company,
                            aq.alone_brand AS brand
                       FROM chot.queues aq WHERE {_HOLDS_A_PLACE} AND {reservation}) AS a
                  WHERE a.kind IS NOT NULL AND {covers(limit, "a")}))"""


# Over `j`. A batch passes over whoever has a limit.
HAS_NO_LIMIT = f"""NOT EXISTS ({limits_of("j")})"""
# Over `j`, for the worker that claims: what it has reserved itself is not taken from it.
BELOW_LIMITS = f"""NOT EXISTS (
           SELECT FROM ({limits_of("j")}) AS l
            WHERE l.max_running <= {
    places_taken("l", beside="r.id <> j.id", reservation="aq.alone_worker <> :worker_id")
})"""
# The kind's row first, then the others by id: one order for all.
LOCK_LIMITS = text(f"""
    WITH job AS MATERIALIZED (
        SELECT j.kind, j.company, j.brand FROM chot.jobs j WHERE j.id = ANY(:ids)),
    of_code AS MATERIALIZED (
        SELECT k.name FROM chot.kinds k
         WHERE k.name = (SELECT kind FROM job)
           AND k.max_running IS NOT NULL FOR NO KEY UPDATE),
    of_operators AS MATERIALIZED (
        SELECT l.id FROM chot.running_limits l JOIN job ON {covers("l", "job")}
         WHERE (SELECT count(*) FROM of_code) >= 0
         ORDER BY l.id FOR NO KEY UPDATE OF l)
    SELECT (SELECT count(*) FROM of_code) + (SELECT count(*) FROM of_operators) AS limits""")
# Over `j`: the first of an operator's limits that has no room, in the words of /why.
LIMIT_REACHED = f"""
    SELECT * FROM (
        SELECT o.id AS limit_id, o.kind AS limit_kind, o.company AS limit_company,
               o.brand AS limit_brand, o.max_running AS limit_most,
               {places_taken("o", beside="r.id <> j.id")} AS limit_taken
          FROM chot.running_limits o WHERE {covers("o", "j")}) AS l
     WHERE l.limit_most <= l.limit_taken ORDER BY l.limit_id LIMIT 1"""
# Over `j` and its kind `k`, as the claim counts.
TAKEN_OF_KIND = f"""(SELECT {places_taken("l", beside="r.id <> j.id")}
                       FROM (SELECT k.name AS kind, NULL::text AS company,
                                    NULL::text AS brand) AS l)"""
