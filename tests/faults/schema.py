"""What the runner adds to the database: an audit of every transition, and tables for effects."""

ACCOUNTS = 12
OPENING_BALANCE = 1_000

# Written by a trigger in the same transaction as the change, so that what was rolled back is not
# there; the row's lock makes the order of `n` the order of commits of one job. `xact` says which
# transition an effect was committed with, whenever in its transaction it was written.
AUDIT_SCHEMA = """
    CREATE SCHEMA audit AUTHORIZATION chot_owner;
    CREATE TABLE audit.transitions (
        n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job_id uuid NOT NULL,
        old_state text, state text NOT NULL, old_fence bigint, fence bigint NOT NULL,
        token uuid, attempt integer NOT NULL, max_attempts integer NOT NULL,
        lost_leases integer NOT NULL, interruptions integer NOT NULL,
        checkpoint_no integer NOT NULL, lease_expires_at timestamptz, worker_id text,
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
        by_name text NOT NULL DEFAULT current_setting('application_name'),
        by_pid integer NOT NULL DEFAULT pg_backend_pid());
    ALTER TABLE audit.transitions OWNER TO chot_owner;
    CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $$
    BEGIN
        INSERT INTO audit.transitions (job_id, old_state, state, old_fence, fence, token, attempt,
            max_attempts, lost_leases, interruptions, checkpoint_no, lease_expires_at, worker_id)
        VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state,
            CASE WHEN TG_OP = 'UPDATE' THEN OLD.fence END, NEW.fence, NEW.lease_token, NEW.attempt,
            NEW.max_attempts, NEW.lost_leases, NEW.interruptions, NEW.checkpoint_no,
            NEW.lease_expires_at, NEW.worker_id);
        RETURN NULL;
    END $$;
    ALTER FUNCTION audit.note() OWNER TO chot_owner;
    CREATE TRIGGER audit_insert AFTER INSERT ON chot.jobs FOR EACH ROW
        EXECUTE FUNCTION audit.note();
    CREATE TRIGGER audit_update AFTER UPDATE ON chot.jobs FOR EACH ROW
        WHEN ((OLD.state, OLD.fence, OLD.lease_token, OLD.attempt, OLD.max_attempts,
               OLD.lost_leases, OLD.interruptions, OLD.checkpoint_no, OLD.lease_expires_at)
              IS DISTINCT FROM
              (NEW.state, NEW.fence, NEW.lease_token, NEW.attempt, NEW.max_attempts,
               NEW.lost_leases, NEW.interruptions, NEW.checkpoint_no, NEW.lease_expires_at))
        EXECUTE FUNCTION audit.note();
"""

EFFECTS_SCHEMA = f"""
    CREATE SCHEMA faults AUTHORIZATION chot_owner;
    GRANT USAGE ON SCHEMA faults TO chot_app, chot_read;
    CREATE TABLE faults.effects (
        n bigint GENERATED ALWAYS AS IDENTITY, job_id uuid NOT NULL, chunk integer NOT NULL,
        item text, fence bigint NOT NULL, attempt integer NOT NULL, pid integer NOT NULL,
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        xact xid8 NOT NULL DEFAULT pg_current_xact_id());
    CREATE TABLE faults.accounts (code integer PRIMARY KEY, balance bigint NOT NULL);
    INSERT INTO faults.accounts SELECT c, {OPENING_BALANCE}
      FROM generate_series(0, {ACCOUNTS - 1}) c;
    CREATE TABLE faults.entries (
        n bigint GENERATED ALWAYS AS IDENTITY, job_id uuid NOT NULL, chunk integer NOT NULL,
        account integer NOT NULL, amount bigint NOT NULL);
    CREATE TABLE faults.orders (number bigint NOT NULL, job_id uuid NOT NULL);
    GRANT SELECT, INSERT ON faults.effects, faults.entries, faults.orders TO chot_app;
    GRANT SELECT, UPDATE ON faults.accounts TO chot_app;
"""
