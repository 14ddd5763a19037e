-- What is asked of the tables. Statements of applications call mope_order, mope_bound and mope_hold, with the rights of the
-- tables' owner; the rest is the proxy's own.

-- Apart from the numbers that applications use for advisory locks of their own.
CREATE OR REPLACE FUNCTION arras.mope_lock(column_id bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT pg_catalog.hashint8extended(column_id, 6148914691236517205) $$;

-- A ciphertext's label in the statement's snapshot. An error if it has none: NULL would store or compare nothing, silently.
-- Behind the ciphertext may be, 8 bytes each, a label that was learned and its epoch: for a snapshot that is too old.
-- It is called for each row that is stored, and a setting of search_path would take as long as the rest of it. So names and
-- operators say their schema, and what a caller's search_path is does not matter.
CREATE OR REPLACE FUNCTION arras.mope_order(column_id bigint, ciphertext bytea) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER AS $$
DECLARE
    found_label bigint;
BEGIN
    SELECT e.label INTO found_label FROM arras.mope_entry e
        WHERE e.column_id OPERATOR(pg_catalog.=) mope_order.column_id
        AND e.ciphertext OPERATOR(pg_catalog.=) mope_order.ciphertext;
    IF found_label IS NOT NULL THEN
        RETURN found_label;
    END IF;
    RETURN arras.mope_order_learned(column_id, ciphertext);
END $$;

-- What such a function returns of a ciphertext that has no label in the statement's snapshot.
CREATE OR REPLACE FUNCTION arras.mope_order_learned(column_id bigint, ciphertext bytea) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF length(ciphertext) > 16 THEN
        RETURN arras.mope_order(column_id, substr(ciphertext, 1, length(ciphertext) - 16),
            arras.mope_number(ciphertext, length(ciphertext) - 16), arras.mope_number(ciphertext, length(ciphertext) - 8));
    END IF;
    RAISE EXCEPTION 'a value has no place in the order of column %, as this statement sees it',
        to_hex(mope_order_learned.column_id) USING ERRCODE = 'serialization_failure',
        HINT = 'Try the transaction again.';
END $$;

-- The same for a transaction that sees the database as it was when it began, and so may not see a new value's entry: the
-- label that was learned beside an epoch is good if labels have not changed since, as the transaction sees it.
CREATE OR REPLACE FUNCTION arras.mope_order(column_id bigint, ciphertext bytea, learned bigint, epoch bigint) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_label bigint;
BEGIN
    IF mope_order.ciphertext IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT e.label INTO found_label FROM arras.mope_entry e
        WHERE e.column_id = mope_order.column_id AND e.ciphertext = mope_order.ciphertext;
    IF found_label IS NULL THEN
        PERFORM arras.mope_same_epoch(column_id, CASE WHEN learned IS NULL THEN -1 ELSE coalesce(epoch, -1) END);
        RETURN learned;
    END IF;
    RETURN found_label;
END $$;

-- What labels are compared with for the end of a range. The first byte says how the rest is meant: 0 below every label,
-- 1 above every one; 2 the label of the ciphertext that follows, 3 just below it, 4 just above it. With 16 more, the
-- ciphertext comes after eight bytes each of a label learned and its epoch. With 48 more, too, and the epoch must be the one
-- that the statement sees: where keys leave, one that it sees may have stood between the bound and its neighbour.
-- Where it is no condition of an index it is called for each row, too.
CREATE OR REPLACE FUNCTION arras.mope_bound(column_id bigint, bound bytea) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER AS $$
DECLARE
    found_label bigint;
BEGIN
    IF pg_catalog.get_byte(bound, 0) OPERATOR(pg_catalog.=) 2 THEN
        SELECT e.label INTO found_label FROM arras.mope_entry e
            WHERE e.column_id OPERATOR(pg_catalog.=) mope_bound.column_id
            AND e.ciphertext OPERATOR(pg_catalog.=) pg_catalog.substr(mope_bound.bound, 2);
        IF found_label IS NOT NULL THEN
            RETURN found_label;
        END IF;
    END IF;
    RETURN arras.mope_bound_beside(column_id, bound);
END $$;

-- The same of what is no stored ciphertext's own label.
CREATE OR REPLACE FUNCTION arras.mope_bound_beside(column_id bigint, bound bytea) RETURNS bigint
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind integer := get_byte(bound, 0);
BEGIN
    IF kind >= 48 THEN
        PERFORM arras.mope_same_epoch(column_id, arras.mope_number(bound, 9));
        IF kind < 50 THEN
            RETURN arras.mope_bound_beside(column_id, set_byte('\x00', 0, kind - 48));
        END IF;
        kind := kind - 32;
    END IF;
    CASE kind
        WHEN 0 THEN RETURN -9223372036854775808;
        WHEN 1 THEN RETURN 9223372036854775807;
        WHEN 2, 3, 4 THEN
            RETURN arras.mope_order(column_id, substr(bound, 2)) + (CASE kind WHEN 3 THEN -1 WHEN 4 THEN 1 ELSE 0 END);
        WHEN 18, 19, 20 THEN
            RETURN arras.mope_order(column_id, substr(bound, 18), arras.mope_number(bound, 1), arras.mope_number(bound, 9))
                + (CASE kind WHEN 19 THEN -1 WHEN 20 THEN 1 ELSE 0 END);
        ELSE
            RAISE EXCEPTION 'a bound of an unknown kind' USING ERRCODE = 'data_exception';
    END CASE;
END $$;

-- An error if labels have changed, or gone, since that epoch, as the statement sees it, or had not yet.
CREATE OR REPLACE FUNCTION arras.mope_same_epoch(column_id bigint, epoch bigint) RETURNS void
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM arras.mope_epoch p
        WHERE p.column_id = mope_same_epoch.column_id AND p.epoch = mope_same_epoch.epoch)
    THEN
        RAISE EXCEPTION 'could not serialize access: the order of column % has changed since', to_hex(mope_same_epoch.column_id)
            USING ERRCODE = 'serialization_failure';
    END IF;
END $$;

-- Eight bytes as a number.
CREATE OR REPLACE FUNCTION arras.mope_number(bytes bytea, at integer) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT ('x' OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.substr(bytes, at OPERATOR(pg_catalog.+) 1, 8), 'hex'))::bit(64)::bigint
$$;

-- Held to a transaction's end by whoever writes or locks rows that have labels: they do not change meanwhile. To be called
-- in a statement of its own before, whose snapshot the next one does not share.
CREATE OR REPLACE FUNCTION arras.mope_hold(VARIADIC column_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    id bigint;
    held pg_catalog.text := coalesce(pg_catalog.current_setting('arras.held', true), '');
BEGIN
    FOREACH id IN ARRAY column_ids LOOP
        PERFORM pg_catalog.pg_advisory_xact_lock_shared(arras.mope_lock(id));
        IF pg_catalog.strpos(held, pg_catalog.format('(%s)', id)) OPERATOR(pg_catalog.=) 0 THEN
            held := pg_catalog.concat(held, '(', id, ')');
        END IF;
    END LOOP;
    -- To the transaction's end, or back to a savepoint, as the locks.
    PERFORM pg_catalog.set_config('arras.held', held, true);
    -- What triggers of version 12 ask.
    PERFORM pg_catalog.set_config('arras.holding', 'on', true);
    IF pg_catalog.current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM arras.mope_hold_snapshot(column_ids);
    END IF;
END $$;

-- Of a transaction with one snapshot throughout: PostgreSQL's own serialization failure if labels have changed since.
CREATE OR REPLACE FUNCTION arras.mope_hold_snapshot(column_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM 1 FROM arras.mope_epoch p WHERE p.column_id = ANY (column_ids) ORDER BY p.column_id FOR SHARE;
END $$;

-- A label after a spread: start + step x its rank among the labels before it. The step is 2 x half + odd, so that no sum on
-- the way leaves the numbers.
CREATE OR REPLACE FUNCTION arras.mope_transform(label bigint, summary arras.mope_summary) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT (summary).start OPERATOR(pg_catalog.+)
        ((summary).half OPERATOR(pg_catalog.*) (pg_catalog.width_bucket(label, (summary).before) OPERATOR(pg_catalog.-) 1)) OPERATOR(pg_catalog.+)
        ((summary).half OPERATOR(pg_catalog.*) (pg_catalog.width_bucket(label, (summary).before) OPERATOR(pg_catalog.-) 1)) OPERATOR(pg_catalog.+)
        ((summary).odd OPERATOR(pg_catalog.*) (pg_catalog.width_bucket(label, (summary).before) OPERATOR(pg_catalog.-) 1))
$$;

-- A label after moves of path-encoded labels, which are all made at the same time.
CREATE OR REPLACE FUNCTION arras.mope_transform(label bigint, moves arras.mope_move[]) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    move arras.mope_move;
    distance numeric;
BEGIN
    FOREACH move IN ARRAY moves LOOP
        IF label OPERATOR(pg_catalog.>=) move.low AND label OPERATOR(pg_catalog.<=) move.high THEN
            distance := label::numeric OPERATOR(pg_catalog.-) move.low::numeric;
            IF move.down OPERATOR(pg_catalog.<) 0 THEN
                distance := distance OPERATOR(pg_catalog.*)
                    pg_catalog.trunc(2::numeric OPERATOR(pg_catalog.^) (OPERATOR(pg_catalog.-) move.down)::numeric);
            ELSE
                distance := pg_catalog.div(distance, pg_catalog.trunc(2::numeric OPERATOR(pg_catalog.^) move.down::numeric));
            END IF;
            RETURN move.start::numeric OPERATOR(pg_catalog.+) distance;
        END IF;
    END LOOP;
    RETURN label;
END $$;

-- One round of a client half, all of the statement's snapshot.
CREATE OR REPLACE FUNCTION arras.mope_fetch(
    column_id bigint, nodes bigint[], with_root boolean, ciphertexts bytea[],
    OUT version bigint, OUT root bigint, OUT next bigint, OUT "values" bigint, OUT digest bytea, OUT epoch bigint,
    OUT contents bytea[], OUT root_content bytea, OUT labels bigint[]
) LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT c.version, c.root, c.next, c."values", c.digest INTO version, root, next, "values", digest
        FROM arras.mope_column c WHERE c.id = mope_fetch.column_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'column % is not registered', to_hex(mope_fetch.column_id) USING ERRCODE = 'undefined_object';
    END IF;
    SELECT p.epoch INTO epoch FROM arras.mope_epoch p WHERE p.column_id = mope_fetch.column_id;
    IF cardinality(nodes) > 0 THEN
        SELECT array_agg(n.content ORDER BY asked.at) INTO contents
            FROM unnest(nodes) WITH ORDINALITY AS asked (node, at)
            LEFT JOIN arras.mope_node n ON n.column_id = mope_fetch.column_id AND n.node = asked.node;
    END IF;
    IF with_root AND "values" > 0 THEN
        SELECT n.content INTO root_content
            FROM arras.mope_node n WHERE n.column_id = mope_fetch.column_id AND n.node = mope_fetch.root;
    END IF;
    IF cardinality(ciphertexts) > 0 THEN
        SELECT array_agg(e.label ORDER BY asked.at) INTO labels
            FROM unnest(ciphertexts) WITH ORDINALITY AS asked (ciphertext, at)
            LEFT JOIN arras.mope_entry e ON e.column_id = mope_fetch.column_id AND e.ciphertext = asked.ciphertext;
    END IF;
END $$;

-- Does any row have one of these labels?
CREATE OR REPLACE FUNCTION arras.mope_is_stored(column_id bigint, labels bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
    there boolean;
BEGIN
    FOR place IN SELECT p.relation, p.attribute FROM arras.mope_place p JOIN pg_catalog.pg_class r ON r.oid = p.relation
        WHERE p.column_id = mope_is_stored.column_id
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE t.%I = ANY ($1))',
            arras.trusted_table(place.relation, 'ACCESS SHARE'), place.attribute)
            INTO there USING labels;
        IF there THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;

-- Changes labels as one summary says, in the OPE table and wherever they are stored. What triggers do with a changed
-- label is not for these changes. They find what their names mean as any UPDATE by the proxy's role would have them, so this names schemas.
CREATE OR REPLACE FUNCTION arras.mope_relabel(
    column_id bigint, low bigint, high bigint, spread arras.mope_summary, moves arras.mope_move[]
) RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
    of_applications CONSTANT text := coalesce(current_setting('arras.search_path', true), 'pg_catalog, pg_temp');
    changed text;
BEGIN
    IF moves IS NULL THEN
        SELECT array_agg(e.label ORDER BY e.label) INTO spread.before FROM arras.mope_entry e
            WHERE e.column_id = mope_relabel.column_id AND e.label BETWEEN low AND high;
        IF spread.before IS NULL THEN
            RETURN;
        END IF;
        UPDATE arras.mope_entry e SET label = arras.mope_transform(e.label, spread)
            WHERE e.column_id = mope_relabel.column_id AND e.label BETWEEN low AND high;
    ELSE
        UPDATE arras.mope_entry e SET label = arras.mope_transform(e.label, moves)
            WHERE e.column_id = mope_relabel.column_id AND e.label BETWEEN low AND high
            AND arras.mope_transform(e.label, moves) <> e.label;
    END IF;
    -- A table that was dropped has none; a column that was is an error, for a table keeps its labels under another name. Labels that
    -- are in doubt are set anew, all of them, by whom holds the table meanwhile.
    FOR place IN SELECT p.relation, p.attribute FROM arras.mope_place p JOIN pg_catalog.pg_class r ON r.oid = p.relation
        WHERE p.column_id = mope_relabel.column_id AND NOT EXISTS (SELECT FROM arras.mope_doubt d
            WHERE (d.column_id, d.relation, d.attribute) = (p.column_id, p.relation, p.attribute)) ORDER BY p.relation
    LOOP
        changed := format('UPDATE %1$s AS t SET %2$I = arras.mope_transform(t.%2$I, $1)'
            ' WHERE t.%2$I OPERATOR(pg_catalog.>=) $2 AND t.%2$I OPERATOR(pg_catalog.<=) $3',
            arras.trusted_table(place.relation, 'ROW EXCLUSIVE'), place.attribute);
        PERFORM set_config('search_path', of_applications, true);
        IF moves IS NULL THEN
            EXECUTE changed USING spread, low, high;
        ELSE
            EXECUTE changed OPERATOR(pg_catalog.||) pg_catalog.format(
                ' AND arras.mope_transform(t.%1$I, $1) OPERATOR(pg_catalog.<>) t.%1$I', place.attribute) USING moves, low, high;
        END IF;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    END LOOP;
END $$;

-- Applies a change of a column's tree, whole or not at all: 'applied', 'version' if the tree is at another one, 'held' if
-- labels would change and could not within `attempt` milliseconds because transactions hold them, 'stored' if a value
-- would leave that some row has. Summaries come flat: those of one number are one summary, a spread if `odds` says so.
CREATE OR REPLACE FUNCTION arras.mope_commit(
    column_id bigint, expected bigint, version bigint, root bigint, next bigint, "values" bigint, digest bytea,
    nodes bigint[], contents bytea[], leaving bytea[],
    numbers integer[], lows bigint[], highs bigint[], starts bigint[], halves bigint[], odds bigint[], downs integer[],
    entered bytea[], labels bigint[], attempt integer, patience integer
) RETURNS text LANGUAGE plpgsql VOLATILE SET row_security = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changes_labels boolean := cardinality(numbers) > 0 OR cardinality(leaving) > 0;
    step record;
BEGIN
    IF changes_labels THEN
        BEGIN
            PERFORM set_config('lock_timeout', greatest(attempt, 1)::text, true);
            PERFORM pg_advisory_xact_lock(arras.mope_lock(mope_commit.column_id));
        EXCEPTION WHEN lock_not_available THEN
            RETURN 'held';
        END;
        PERFORM set_config('lock_timeout', greatest(patience, 1)::text, true);
        PERFORM set_config('arras.relabelling', 'on', true), set_config('arras.holding', 'on', true),
            set_config('arras.held', format('(%s)', mope_commit.column_id), true);
    END IF;
    IF cardinality(leaving) > 0 AND arras.mope_is_stored(mope_commit.column_id, ARRAY(
        SELECT e.label FROM arras.mope_entry e WHERE e.column_id = mope_commit.column_id AND e.ciphertext = ANY (leaving)))
    THEN
        RETURN 'stored';
    END IF;
    UPDATE arras.mope_column c SET version = mope_commit.version, root = mope_commit.root, next = mope_commit.next,
        "values" = mope_commit."values", digest = mope_commit.digest
        WHERE c.id = mope_commit.column_id AND c.version = expected;
    IF NOT FOUND THEN
        RETURN 'version';
    END IF;
    IF changes_labels THEN
        UPDATE arras.mope_epoch p SET epoch = p.epoch + 1 WHERE p.column_id = mope_commit.column_id;
    END IF;
    IF array_position(contents, NULL) IS NOT NULL THEN
        DELETE FROM arras.mope_node n USING unnest(nodes, contents) AS changed (node, content)
            WHERE changed.content IS NULL AND n.column_id = mope_commit.column_id AND n.node = changed.node;
    END IF;
    INSERT INTO arras.mope_node AS n (column_id, node, content)
        SELECT mope_commit.column_id, changed.node, changed.content
        FROM unnest(nodes, contents) AS changed (node, content) WHERE changed.content IS NOT NULL
        ON CONFLICT ON CONSTRAINT mope_node_pkey DO UPDATE SET content = excluded.content;
    IF cardinality(leaving) > 0 THEN
        DELETE FROM arras.mope_entry e WHERE e.column_id = mope_commit.column_id AND e.ciphertext = ANY (leaving);
        DELETE FROM arras.mope_left l WHERE l.column_id = mope_commit.column_id AND l.ciphertext = ANY (leaving);
    END IF;
    FOR step IN
        SELECT min(s.low) AS low, max(s.high) AS high, min(s.start) AS start, min(s.half) AS half, min(s.odd) AS odd,
            array_agg((s.low, s.high, s.start, s.down)::arras.mope_move) AS moves
        FROM unnest(numbers, lows, highs, starts, halves, odds, downs) AS s (number, low, high, start, half, odd, down)
        GROUP BY s.number ORDER BY s.number
    LOOP
        PERFORM arras.mope_relabel(mope_commit.column_id, step.low, step.high,
            (step.low, step.high, step.start, step.half, step.odd, NULL)::arras.mope_summary,
            CASE WHEN step.odd IS NULL THEN step.moves END);
    END LOOP;
    INSERT INTO arras.mope_entry (column_id, ciphertext, label)
        SELECT mope_commit.column_id, new.ciphertext, new.label FROM unnest(entered, labels) AS new (ciphertext, label);
    RETURN 'applied';
END $$;

-- Who holds a column's labels, for a message.
CREATE OR REPLACE FUNCTION arras.mope_holders(column_id bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('process %s, %s for %s s', l.pid, coalesce(a.state, 'in an unknown state'),
        coalesce(extract(epoch FROM clock_timestamp() - a.state_change)::bigint::text, '?')), '; ' ORDER BY l.pid)
    FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.mode = 'ShareLock'
    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) = arras.mope_lock(column_id)
$$;

-- Makes a column known; no effect if it is, as what it is.
CREATE OR REPLACE FUNCTION arras.mope_register(column_id bigint, same_time boolean, one_row boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO arras.mope_column AS c (id, same_time, one_row)
        VALUES (mope_register.column_id, mope_register.same_time, mope_register.one_row) ON CONFLICT DO NOTHING;
    INSERT INTO arras.mope_epoch (column_id) VALUES (mope_register.column_id) ON CONFLICT DO NOTHING;
    IF NOT EXISTS (SELECT FROM arras.mope_column c WHERE c.id = mope_register.column_id
        AND c.same_time = mope_register.same_time AND c.one_row = mope_register.one_row)
    THEN
        RAISE EXCEPTION 'column % keeps its order by another protocol', to_hex(column_id)
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;

-- An error if whoever is connected is not the owner of a table.
CREATE OR REPLACE FUNCTION arras.check_ownership(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(session_user, (SELECT r.relowner FROM pg_catalog.pg_class r WHERE r.oid = relation), 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of table %', relation USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- An error also if the owner of these functions may not change its labels, or its owner's code would run with rights of others.
CREATE OR REPLACE FUNCTION arras.mope_check_rights(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM arras.check_ownership(relation);
    PERFORM arras.check_owners(relation);
    IF NOT has_table_privilege(relation, 'SELECT') OR NOT has_table_privilege(relation, 'UPDATE')
        OR NOT has_table_privilege(relation, 'TRIGGER') THEN
        RAISE EXCEPTION 'the proxy''s role % may not change labels in %', current_user, relation
            USING ERRCODE = 'insufficient_privilege', HINT = format('GRANT SELECT, UPDATE, TRIGGER ON %s TO %I', relation, current_user);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION arras.mope_note_deleted() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT arras.is_of_labels(TG_RELID, TG_ARGV[1]) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('INSERT INTO arras.mope_left (column_id, ciphertext) SELECT e.column_id, e.ciphertext'
        ' FROM (SELECT DISTINCT g.%I AS label FROM gone g) g JOIN arras.mope_entry e ON e.label = g.label'
        ' WHERE e.column_id = $1', TG_ARGV[1]) USING TG_ARGV[0]::bigint;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION arras.mope_note_updated() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT arras.is_of_labels(TG_RELID, TG_ARGV[1]) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('INSERT INTO arras.mope_left (column_id, ciphertext) SELECT e.column_id, e.ciphertext'
        ' FROM arras.mope_entry e WHERE e.column_id = $1 AND e.label = ($2).%I', TG_ARGV[1])
        USING TG_ARGV[0]::bigint, OLD;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION arras.mope_note_truncated() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO arras.mope_left (column_id) VALUES (TG_ARGV[0]::bigint);
    RETURN NULL;
END $$;

-- Values of a column, `most` at most, that no row has, as the statement sees it: with `everywhere`, of all there are, else of
-- those noted to have lost one. Notes that are found to be of values in use are struck.
CREATE OR REPLACE FUNCTION arras.mope_unused(column_id bigint, everywhere boolean, most integer) RETURNS SETOF bytea
LANGUAGE plpgsql VOLATILE SET row_security = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
    used text := '';
    noted bigint[];
BEGIN
    FOR place IN SELECT p.relation, p.attribute FROM arras.mope_place p JOIN pg_catalog.pg_class r ON r.oid = p.relation
        WHERE p.column_id = mope_unused.column_id
    LOOP
        used := used || format(' AND NOT EXISTS (SELECT FROM %s t WHERE t.%I = e.label)',
            arras.trusted_table(place.relation, 'ACCESS SHARE'), place.attribute);
    END LOOP;
    IF everywhere THEN
        RETURN QUERY EXECUTE 'SELECT e.ciphertext FROM arras.mope_entry e WHERE e.column_id = $1' || used || ' LIMIT $2'
            USING column_id, most;
        RETURN;
    END IF;
    SELECT array_agg(first.number) INTO noted FROM (SELECT l.number FROM arras.mope_left l
        WHERE l.column_id = mope_unused.column_id AND l.ciphertext IS NOT NULL ORDER BY l.number LIMIT most) AS first;
    -- Statement and snapshot are one: a value is struck from the notes only if this very look finds it used, or gone.
    RETURN QUERY EXECUTE 'WITH unused AS MATERIALIZED (SELECT e.ciphertext FROM arras.mope_entry e WHERE e.column_id = $1'
        ' AND e.ciphertext IN (SELECT l.ciphertext FROM arras.mope_left l WHERE l.column_id = $1 AND l.number = ANY ($2))'
        || used || '), struck AS (DELETE FROM arras.mope_left l WHERE l.column_id = $1 AND l.number = ANY ($2)'
        ' AND NOT EXISTS (SELECT FROM unused u WHERE u.ciphertext = l.ciphertext)) SELECT * FROM unused'
        USING column_id, noted;
END $$;

-- Contradictions in what is kept of a column, one a row; none if all is well. One statement, so one snapshot.
CREATE OR REPLACE FUNCTION arras.mope_examine(column_id bigint) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SET row_security = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
    counted bigint;
    kept arras.mope_column;
    stored text[] := '{}';
BEGIN
    SELECT * INTO kept FROM arras.mope_column c WHERE c.id = mope_examine.column_id;
    IF NOT FOUND THEN
        RETURN NEXT 'the column is not registered';
        RETURN;
    END IF;
    SELECT count(*) INTO counted FROM arras.mope_entry e WHERE e.column_id = mope_examine.column_id;
    IF counted <> kept."values" THEN
        RETURN NEXT format('the tree has %s values, the table %s', kept."values", counted);
    END IF;
    SELECT count(*) - count(DISTINCT e.label) INTO counted FROM arras.mope_entry e WHERE e.column_id = mope_examine.column_id;
    IF counted > 0 THEN
        RETURN NEXT format('%s labels are of several values', counted);
    END IF;
    IF kept."values" > 0 AND NOT EXISTS (
        SELECT FROM arras.mope_node n WHERE n.column_id = mope_examine.column_id AND n.node = kept.root) THEN
        RETURN NEXT format('the root, node %s, is missing', kept.root);
    END IF;
    SELECT count(*) INTO counted FROM arras.mope_node n WHERE n.column_id = mope_examine.column_id AND n.node >= kept.next;
    IF counted > 0 THEN
        RETURN NEXT format('%s nodes have numbers that were never given', counted);
    END IF;
    FOR place IN SELECT p.relation, p.attribute, a.attnum FROM arras.mope_place p
        JOIN pg_catalog.pg_class r ON r.oid = p.relation LEFT JOIN pg_catalog.pg_attribute a
        ON a.attrelid = p.relation AND a.attname = p.attribute AND NOT a.attisdropped
        WHERE p.column_id = mope_examine.column_id
    LOOP
        IF place.attnum IS NULL THEN
            RETURN NEXT format('%s has no column %I, which is said to store labels', place.relation, place.attribute);
            CONTINUE;
        END IF;
        IF arras.stranger(place.relation) IS NOT NULL THEN
            RETURN NEXT format('%s belongs to %s, who has not the rights of the role that looks: its labels are not looked at',
                place.relation, arras.stranger(place.relation));
            CONTINUE;
        END IF;
        PERFORM arras.trusted_table(place.relation, 'ACCESS SHARE');
        EXECUTE format('SELECT count(*) FROM %1$s t WHERE t.%2$I IS NOT NULL AND NOT EXISTS'
            ' (SELECT FROM arras.mope_entry e WHERE e.column_id = $1 AND e.label = t.%2$I)', place.relation, place.attribute)
            INTO counted USING mope_examine.column_id;
        IF counted > 0 THEN
            RETURN NEXT format('%s rows of %s have a label in %I that is no value''s', counted, place.relation, place.attribute);
        END IF;
        stored := stored || format('SELECT t.%I FROM %s t', place.attribute, place.relation);
    END LOOP;
    IF kept.one_row AND cardinality(stored) > 0 THEN
        EXECUTE format('SELECT count(l.label) - count(DISTINCT l.label) FROM (%s) AS l (label)',
            array_to_string(stored, ' UNION ALL ')) INTO counted;
        IF counted > 0 THEN
            RETURN NEXT format('%s rows have a label that is another row''s, too', counted);
        END IF;
    END IF;
END $$;

-- A proxy's mark, for any session to ask: whether the database behind it is the one that it was.
CREATE OR REPLACE FUNCTION arras.mark_of(proxy bigint) RETURNS bigint
LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT m.raised FROM arras.mark m WHERE m.proxy = mark_of.proxy $$;

-- Applications may ask for labels and hold them, and compare; all else is the proxy's.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA arras FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA arras FROM PUBLIC;
GRANT USAGE ON SCHEMA arras TO PUBLIC;
GRANT SELECT ON arras.stored_labels TO PUBLIC;
GRANT EXECUTE ON FUNCTION arras.mark_of(bigint), arras.column_checks(),
    arras.check_column(regclass, name, boolean, bytea, bytea, bytea), arras.mope_lock(bigint), arras.mope_order(bigint, bytea),
    arras.mope_order(bigint, bytea, bigint, bigint), arras.mope_bound(bigint, bytea), arras.mope_hold(bigint[]),
    arras.mope_hold_snapshot(bigint[]), arras.mope_transform(bigint, arras.mope_summary),
    arras.mope_transform(bigint, arras.mope_move[]), arras.mope_number(bytea, integer),
    arras.mope_store_in(bigint, regclass, name), arras.mope_forget(bigint, regclass, name),
    arras.mope_forget_place(bigint, regclass, name),
    arras.mope_set_anew(bigint, regclass, name),
    arras.any_of(bytea), arras.mope_least(bytea, bigint), arras.mope_greatest(bytea, bigint),
    arras.bclo_least(bytea, bytea), arras.bclo_greatest(bytea, bytea),
    arras.bytes_smaller(bytea, bytea), arras.bytes_larger(bytea, bytea), arras.bytes_min(bytea), arras.bytes_max(bytea),
    arras.clww_compare(bytea, bytea), arras.clww_between(bytea, bytea, bytea), arras.clww_lesser(bytea[], bytea, bytea),
    arras.clww_greater(bytea[], bytea, bytea), arras.sealed_of(bytea[]), arras.clww_least(bytea, bytea),
    arras.clww_greatest(bytea, bytea), arras.lewi_wu_compare(bytea, bytea), arras.lewi_wu_between(bytea, bytea, bytea)
    TO PUBLIC;
