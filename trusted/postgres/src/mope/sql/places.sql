-- Which columns of tables store labels, and what triggers note of their rows.

-- Says that a table's column stores a column's labels, before any is stored there: labels of another time, as a dump of a table alone has
-- them, are for the proxy to set anew. Of one that is known, makes the triggers that are not there.
CREATE OR REPLACE FUNCTION arras.mope_store_in(column_id bigint, relation regclass, attribute name) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET row_security = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    has_labels boolean;
BEGIN
    PERFORM arras.mope_check_rights(relation);
    PERFORM arras.mope_hold(column_id);
    IF NOT arras.is_of_labels(relation, attribute) THEN
        RAISE EXCEPTION '% has no column % of type bigint', relation, attribute USING ERRCODE = 'undefined_column';
    END IF;
    IF NOT arras.is_made_here(relation, attribute) AND NOT EXISTS (SELECT FROM arras.mope_place p
        WHERE (p.column_id, p.relation, p.attribute) = (mope_store_in.column_id, mope_store_in.relation, mope_store_in.attribute))
    THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE t.%I IS NOT NULL)',
            arras.trusted_table(relation, 'SHARE'), attribute) INTO has_labels;
        IF has_labels THEN
            RAISE EXCEPTION '% has labels in % already, which may be of another time', relation, attribute
                USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Leave it to the proxy, which sets the labels of a declared table anew while it runs.';
        END IF;
    END IF;
    PERFORM arras.mope_enter_place(column_id, relation, attribute, '');
END $$;

-- Notes that place, and makes the triggers of its table that are not there: those by which keys are known to lose rows, and those by which
-- labels are known to be written past the proxy. A table may be in the midst of its restoration: `suffix` then keeps their names from
-- those that a dump brings along.
CREATE OR REPLACE FUNCTION arras.mope_enter_place(column_id bigint, relation regclass, attribute name, suffix text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was_known boolean;
    made boolean := false;
BEGIN
    INSERT INTO arras.mope_place VALUES (column_id, relation, attribute) ON CONFLICT DO NOTHING;
    was_known := NOT FOUND;
    IF (SELECT c.same_time FROM arras.mope_column c WHERE c.id = mope_enter_place.column_id) THEN
        made := arras.mope_make_triggers(column_id, relation, 'OA', '', suffix, ARRAY['delete', 'update', 'truncate'], ARRAY[
        format('AFTER DELETE ON %s REFERENCING OLD TABLE AS gone FOR EACH STATEMENT'
            ' EXECUTE FUNCTION arras.mope_note_deleted(%L, %L)', relation, column_id, attribute),
        format('AFTER UPDATE ON %s FOR EACH ROW WHEN (OLD.%I IS DISTINCT FROM NEW.%I'
            ' AND current_setting(''arras.relabelling'', true) IS DISTINCT FROM ''on'')'
            ' EXECUTE FUNCTION arras.mope_note_updated(%L, %L)', relation, attribute, attribute, column_id, attribute),
        format('AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION arras.mope_note_truncated(%L)', relation, column_id)]);
    END IF;
    IF made AND was_known THEN
        -- What it lost meanwhile nobody has noted.
        INSERT INTO arras.mope_left (column_id) VALUES (mope_enter_place.column_id);
    END IF;
    -- Nor what it got.
    PERFORM arras.mope_watch(column_id, relation, attribute, suffix);
END $$;

-- Makes those triggers of a table for a column's order that are not there, or not enabled as one of some letters says. Was one not? Those
-- whose definition has not some text, an older version's, are replaced where they are.
CREATE OR REPLACE FUNCTION arras.mope_make_triggers(
    column_id bigint, relation regclass, enabled text, has text, suffix text, events text[], definitions text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    base text;
    named text;
    lost name;
    made boolean := false;
BEGIN
    FOR at IN 1 .. cardinality(events) LOOP
        base := format('arras_order_%s_%s', to_hex(column_id), events[at]);
        FOR named IN SELECT g.tgname FROM pg_catalog.pg_trigger g WHERE g.tgrelid = relation AND strpos(enabled, g.tgenabled::text) > 0
            AND starts_with(g.tgname || '_', base || '_') AND strpos(pg_get_triggerdef(g.oid), has) = 0
        LOOP
            EXECUTE format('CREATE OR REPLACE TRIGGER %I %s', named, definitions[at]);
        END LOOP;
        CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = relation
            AND strpos(enabled, g.tgenabled::text) > 0 AND starts_with(g.tgname || '_', base || '_'));
        -- `IF EXISTS` would tell the client of each that is not there.
        FOR lost IN SELECT g.tgname FROM pg_catalog.pg_trigger g WHERE g.tgrelid = relation
            AND starts_with(g.tgname || '_', base || '_')
        LOOP
            BEGIN
                EXECUTE format('DROP TRIGGER %I ON %s', lost, relation);
            EXCEPTION WHEN insufficient_privilege THEN
                -- Only its table's owner may: that which is made has another name.
                NULL;
            END;
        END LOOP;
        named := base || suffix;
        WHILE EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = relation AND g.tgname = named) LOOP
            named := named || '_';
        END LOOP;
        EXECUTE format('CREATE TRIGGER %I %s', named, definitions[at]);
        made := true;
    END LOOP;
    RETURN made;
END $$;

-- The triggers that note labels which are written past the proxy, of a table and its parts.
CREATE OR REPLACE FUNCTION arras.mope_watching(column_id bigint, relation regclass)
RETURNS TABLE (of_table regclass, of_name name, enabled "char")
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE part (relation) AS (
        SELECT mope_watching.relation::oid
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.relation)
    SELECT g.tgrelid::regclass, g.tgname, g.tgenabled FROM part JOIN pg_catalog.pg_trigger g ON g.tgrelid = part.relation
    WHERE g.tgname ~ format('^arras_order_%s_(insert|change)(_|$)', to_hex(column_id))
$$;

-- Enables them always; false if only the table's owner may.
CREATE OR REPLACE FUNCTION arras.mope_watch_always(column_id bigint, relation regclass) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place record;
BEGIN
    FOR place IN SELECT w.of_table, w.of_name FROM arras.mope_watching(column_id, relation) w WHERE w.enabled <> 'A' LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', place.of_table, place.of_name);
    END LOOP;
    RETURN true;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN false;
END $$;

-- Makes the triggers that note labels which are written past the proxy: by whoever does not hold them. Were they gone, or disabled, it is noted
-- here. Where the owner of the table makes them, they are enabled always: they fire on a replica, too, and `pg_restore --disable-triggers`
-- leaves them another way, in a part of the table as well.
CREATE OR REPLACE FUNCTION arras.mope_watch(column_id bigint, relation regclass, attribute name, suffix text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was_watched "char";
    watched_as "char";
    lost boolean;
    made boolean;
    noted CONSTANT text := format('strpos(coalesce(current_setting(''arras.held'', true), ''''), %L) = 0)'
        ' EXECUTE FUNCTION arras.mope_note_past(%L, %L)', format('(%s)', column_id), column_id, attribute);
BEGIN
    SELECT p.watched INTO was_watched FROM arras.mope_place p
        WHERE (p.column_id, p.relation, p.attribute) = (mope_watch.column_id, mope_watch.relation, mope_watch.attribute);
    lost := EXISTS (SELECT FROM arras.mope_watching(column_id, relation) w WHERE w.enabled NOT IN (was_watched, 'A'));
    -- In place of those that stay disabled others are made.
    PERFORM arras.mope_watch_always(column_id, relation);
    made := arras.mope_make_triggers(column_id, relation, 'OA', 'arras.held', suffix, ARRAY['insert', 'change'], ARRAY[
        format('AFTER INSERT ON %s FOR EACH ROW WHEN (NEW.%I IS NOT NULL AND %s', relation, attribute, noted),
        format('AFTER UPDATE OF %1$I ON %2$s FOR EACH ROW WHEN (NEW.%1$I IS NOT NULL AND NEW.%1$I IS DISTINCT FROM OLD.%1$I AND %3$s',
            attribute, relation, noted)]);
    watched_as := CASE WHEN arras.mope_watch_always(column_id, relation) THEN 'A' ELSE 'O' END;
    IF lost OR made AND was_watched IS NOT NULL THEN
        INSERT INTO arras.mope_doubt (column_id, relation, attribute)
            VALUES (mope_watch.column_id, mope_watch.relation, mope_watch.attribute);
    END IF;
    UPDATE arras.mope_place p SET watched = watched_as, by_column = true
        WHERE (p.column_id, p.relation, p.attribute) = (mope_watch.column_id, mope_watch.relation, mope_watch.attribute);
END $$;

-- Makes them in a table that an older version has noted, under a lock of it.
CREATE OR REPLACE FUNCTION arras.mope_watch_older(column_id bigint, relation regclass, attribute name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM arras.trusted_table(relation, 'SHARE ROW EXCLUSIVE');
    PERFORM arras.mope_watch(column_id, relation, attribute, '');
END $$;

-- Notes that a table got labels past the proxy, which may be of another time. Once in a transaction is enough: who sets labels anew, and
-- strikes the note, waits for its end.
CREATE OR REPLACE FUNCTION arras.mope_note_past() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    already CONSTANT text := coalesce(current_setting('arras.noted', true), '');
    this CONSTANT text := format('(%s %s)', TG_ARGV[0], TG_RELID);
BEGIN
    IF strpos(already, this) > 0 THEN
        RETURN NULL;
    END IF;
    INSERT INTO arras.mope_doubt (column_id, relation, attribute)
        SELECT p.column_id, p.relation, p.attribute FROM arras.mope_place p
        WHERE p.column_id = TG_ARGV[0]::bigint AND p.attribute = TG_ARGV[1]
        AND (p.relation = TG_RELID OR p.relation IN (SELECT pg_partition_ancestors(TG_RELID)));
    PERFORM set_config('arras.noted', already || this, true);
    RETURN NULL;
END $$;

-- Has the labels of a table set anew by the proxy that next looks.
CREATE OR REPLACE FUNCTION arras.mope_set_anew(column_id bigint, relation regclass, attribute name) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM arras.check_ownership(relation);
    INSERT INTO arras.mope_doubt (column_id, relation, attribute)
        SELECT p.column_id, p.relation, p.attribute FROM arras.mope_place p
        WHERE (p.column_id, p.relation, p.attribute) = (mope_set_anew.column_id, mope_set_anew.relation, mope_set_anew.attribute);
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not known to store labels of column % in %', relation, to_hex(column_id), attribute
            USING ERRCODE = 'undefined_object';
    END IF;
END $$;

-- They are set anew, under a lock of the table. Which keys have no row by that nobody has noted.
CREATE OR REPLACE FUNCTION arras.mope_are_anew(column_id bigint, relation regclass, attribute name) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM arras.mope_enter_place(column_id, relation, attribute, '_' || relation::oid);
    DELETE FROM arras.mope_doubt d
        WHERE (d.column_id, d.relation, d.attribute) = (mope_are_anew.column_id, mope_are_anew.relation, mope_are_anew.attribute);
    INSERT INTO arras.mope_left (column_id) SELECT c.id FROM arras.mope_column c WHERE c.id = mope_are_anew.column_id AND c.same_time;
END $$;

-- Notes that it stores them no longer; false if it did not.
CREATE OR REPLACE FUNCTION arras.mope_forget_place(column_id bigint, relation regclass, attribute name) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM arras.check_ownership(relation);
    PERFORM arras.mope_hold(column_id);
    DELETE FROM arras.mope_place p WHERE p.column_id = mope_forget_place.column_id AND p.relation = mope_forget_place.relation
        AND p.attribute = mope_forget_place.attribute;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO arras.mope_left (column_id) SELECT c.id FROM arras.mope_column c
        WHERE c.id = mope_forget_place.column_id AND c.same_time;
    RETURN true;
END $$;

-- Says that it stores them no longer. Triggers are dropped with the rights of whoever says so: only the table's owner may.
CREATE OR REPLACE FUNCTION arras.mope_forget(column_id bigint, relation regclass, attribute name) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made name;
BEGIN
    IF NOT arras.mope_forget_place(column_id, relation, attribute) THEN
        RETURN;
    END IF;
    FOR made IN SELECT g.tgname FROM pg_catalog.pg_trigger g
        WHERE g.tgrelid = relation AND starts_with(g.tgname::text, format('arras_order_%s_', to_hex(column_id)))
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', made, relation);
    END LOOP;
END $$;
