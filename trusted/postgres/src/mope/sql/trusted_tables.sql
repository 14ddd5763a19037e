-- Whose code may run with the rights of the proxy's role. Triggers, rules, checks, generated columns, expressions of indexes and of
-- statistics run as whoever changes or reads a table, some of them where a statement is only planned. No change of role within the session
-- would take the rights from them: code may change it back, and what it leaves to the transaction's or the session's end (a deferred
-- trigger, a cursor, a setting) runs as the role of before. So the proxy touches a table only if its owner has the rights of its role anyway.

-- Locks a table to the transaction's end, so that it stays what it is, and returns its name in SQL. An error (42501) if it, or a part or
-- child of it, belongs to a role that has not the rights of the current one.
CREATE OR REPLACE FUNCTION arras.trusted_table(relation oid, lock_mode text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := relation::regclass::text;
BEGIN
    PERFORM arras.check_owners(relation);
    IF EXISTS (SELECT FROM pg_catalog.pg_class r WHERE r.oid = relation AND r.relkind = 'f') THEN
        -- LOCK has no foreign tables; a statement that is analysed, and neither planned nor run, locks what it names.
        EXECUTE format('PREPARE arras_locked AS SELECT FROM %s', place);
        DEALLOCATE arras_locked;
    ELSE
        EXECUTE format('LOCK TABLE %s IN %s MODE', place, lock_mode);
    END IF;
    -- A schema is renamed whatever locks there are on its tables, but not where its row is locked, which only a superuser may do.
    IF has_table_privilege('pg_catalog.pg_namespace', 'UPDATE') AND current_setting('transaction_read_only') = 'off' THEN
        PERFORM FROM pg_catalog.pg_namespace n WHERE n.oid = (SELECT r.relnamespace FROM pg_catalog.pg_class r WHERE r.oid = relation)
            AND NOT pg_has_role(n.nspowner, current_user, 'USAGE') FOR KEY SHARE;
    END IF;
    IF to_regclass(place) IS DISTINCT FROM relation THEN
        RAISE EXCEPTION 'table % was renamed meanwhile', place USING ERRCODE = 'serialization_failure';
    END IF;
    PERFORM arras.check_owners(relation);
    RETURN place;
END $$;

-- An error if a relation is no table, or if it, or a part or child of it, belongs to such a role.
CREATE OR REPLACE FUNCTION arras.check_owners(relation oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stranger name := arras.stranger(relation);
BEGIN
    IF stranger IS NOT NULL THEN
        RAISE EXCEPTION 'table % belongs to %, who has not the rights of the proxy''s role %', relation::regclass, stranger, current_user
            USING ERRCODE = 'insufficient_privilege',
            HINT = 'Let the proxy log in as the owner of the tables, or as a role that all of their owners are members of.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_class r WHERE r.oid = relation AND r.relkind IN ('r', 'p', 'f')
        AND r.relpersistence <> 't') THEN
        RAISE EXCEPTION '% is no table that others can read', relation::regclass USING ERRCODE = 'wrong_object_type';
    END IF;
END $$;

-- Is it a column of labels, whose type brings no code along?
CREATE OR REPLACE FUNCTION arras.is_of_labels(relation oid, attribute text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = relation AND a.attname = attribute::name
        AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'pg_catalog.int8'::regtype)
$$;
