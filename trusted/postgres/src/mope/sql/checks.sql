-- Checks of columns: what is asked of them, and how they are kept.

-- What is kept of the columns that are there, for any session to compare: schema, table, column, and three parts in hexadecimal digits.
CREATE OR REPLACE FUNCTION arras.column_checks()
RETURNS TABLE (in_schema text, in_table text, name text, sealed text, equality text, ordered text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT ON (c.relation, c.place) n.nspname::text, r.relname::text, a.attname::text, encode(c.sealed, 'hex'),
        coalesce(encode(c.equality, 'hex'), ''), coalesce(encode(c."order", 'hex'), '')
    FROM arras.column_check c JOIN pg_catalog.pg_class r ON r.oid = c.relation
    JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    JOIN pg_catalog.pg_attribute a ON (a.attrelid, a.attnum, a.attname) = (c.relation, c.place, c.attribute)
    ORDER BY c.relation, c.place, c.number
$$;

-- Takes away what is kept of columns that are gone, or are others, where nobody else does.
CREATE OR REPLACE FUNCTION arras.forget_checks() RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM arras.column_check WHERE number IN (SELECT c.number FROM arras.column_check c
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
            WHERE (a.attrelid, a.attnum, a.attname) = (c.relation, c.place, c.attribute)) FOR UPDATE SKIP LOCKED)
$$;

-- Was a column made, or changed, in the transaction that is under way? A savepoint has a number of its own, which the session holds locked.
CREATE OR REPLACE FUNCTION arras.is_made_here(relation oid, attribute name) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_locks l ON l.transactionid = a.xmin
        WHERE a.attrelid = is_made_here.relation AND a.attname = is_made_here.attribute AND l.locktype = 'transactionid' AND l.pid = pg_backend_pid()
        AND l.mode = 'ExclusiveLock')
$$;

-- Keeps the check of a column, in the transaction that makes it; nothing where there is one, nor where the column is older: who next looks
-- for columns without one opens a value of it. Rows are not read here, with rights that the caller does not have: its table may be a view,
-- or have policies, whose functions would run with them.
CREATE OR REPLACE FUNCTION arras.check_column(
    relation regclass, attribute name, is_new boolean, sealed bytea, equality bytea, ordered bytea) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    attribute_number smallint;
BEGIN
    PERFORM arras.check_ownership(relation);
    SELECT a.attnum INTO attribute_number FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = relation AND a.attname = attribute AND a.attnum > 0;
    IF attribute_number IS NULL OR EXISTS (SELECT FROM arras.column_check c
        WHERE (c.relation, c.place, c.attribute) = (check_column.relation, attribute_number, check_column.attribute)) THEN
        RETURN;
    END IF;
    IF is_new IS DISTINCT FROM true AND NOT arras.is_made_here(relation, attribute) THEN
        RETURN;
    END IF;
    -- Elsewhere to take what another takes, too, would fail.
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        PERFORM arras.forget_checks();
    END IF;
    INSERT INTO arras.column_check (relation, place, attribute, sealed, equality, "order")
        VALUES (relation, attribute_number, attribute, sealed, equality, ordered);
END $$;
