"""Limited lanes: which messages the running limits let pass, of those whose turn it would be.

Parts of the take's one statement (shared/publishing.py), over its `open_lanes`, `held`, `shared`.
"""

from shared.jobs.limits import covers, limits_of, places_taken

# The limits of each lane; what its rows have in common has the same ones.
LANE_LIMITS = f"""
    SELECT l.*, coalesce(x.id::text, 'kind ' || x.kind) AS key, x.kind AS of_kind,
           x.company AS of_company, x.brand AS of_brand, x.max_running
      FROM (SELECT DISTINCT queue, kind, company, brand FROM open_lanes) AS l
      CROSS JOIN LATERAL ({limits_of("l")}) AS x"""
# What runs, holds a place, or is on its way takes a place; so a limit without room takes none of
# the window, and what it has left goes round the brands.
LIMIT_ROOM = f"""
    SELECT o.queue, o.key, o.kind, o.max_running - {places_taken("o")}
         - (SELECT count(*) FROM held h WHERE h.counts AND h.queue = o.queue
               AND {covers("o", "h")}) AS room
      FROM (SELECT DISTINCT queue, key, of_kind AS kind, of_company AS company,
                   of_brand AS brand, max_running FROM lane_limits) AS o"""

RISES = """greatest(0, floor((extract(epoch FROM statement_timestamp())
                        - greatest(extract(epoch FROM next_send_at), served))
                       / CAST(:ageing AS numeric)))"""
# A limit's room, too, goes to who has risen: else the lower of one kind would wait for ever. Who
# is held by another limit stands in nobody's way; and of the others the first of all is the first
# of each of its limits, so that it passes whatever there is.
TURNS = f"""
    SELECT s.queue, s.id, l.key, r.room, bool_or(r.room <= 0) OVER (PARTITION BY s.id) AS held,
           least(9, s.priority + CASE WHEN s.of_lane = 1 THEN {RISES} ELSE 0 END) AS level,
           s.of_lane, s.served, s.next_send_at
      FROM shared s
      JOIN lane_limits l ON l.queue = s.queue AND l.kind = s.kind AND l.company = s.company
                        AND l.brand = s.brand
      JOIN limit_room r ON r.queue = l.queue AND r.key = l.key"""
PASSED_OVER = """
    SELECT t.*, t.held OR bool_or(t.turn > t.room) OVER (PARTITION BY t.id) AS passed_over
      FROM (SELECT turns.*, row_number() OVER (
                       PARTITION BY queue, key, held
                       ORDER BY level DESC, of_lane, served, next_send_at, id) AS turn
              FROM turns) AS t"""
ALLOWED = """
    SELECT s.*, row_number() OVER (PARTITION BY s.queue, s.priority, s.lane
                                   ORDER BY s.next_send_at, s.id) AS n
      FROM shared s
     WHERE s.id NOT IN (SELECT id FROM passed_over WHERE passed_over)"""
# One that was passed over for others that then were held elsewhere: it may have its place at once.
ANOTHER_ROUND = """
    SELECT FROM (SELECT queue, key, max(room) AS room,
                        count(*) FILTER (WHERE NOT passed_over) AS passed,
                        bool_or(passed_over AND NOT held) AS waits
                   FROM passed_over GROUP BY queue, key) AS l
     WHERE l.waits AND l.passed < l.room"""
