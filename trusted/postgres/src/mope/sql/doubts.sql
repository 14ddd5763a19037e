-- Places whose labels may be of another time, as something was written there past the proxy: struck when the labels are set anew.
CREATE TABLE IF NOT EXISTS arras.mope_doubt (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    column_id bigint NOT NULL,
    relation regclass NOT NULL,
    attribute name NOT NULL
);
-- How the triggers that note it are enabled; NULL where there are none yet.
ALTER TABLE arras.mope_place ADD COLUMN IF NOT EXISTS watched "char";
DROP FUNCTION IF EXISTS arras.mope_enter_place(bigint, regclass, name);
-- Columns that may store labels, by their names, for any session to compare with what is declared: with the columns whose labels they are
-- known to store, and without a doubt, or none. Whoever means a few tables of many asks by their numbers.
CREATE OR REPLACE VIEW arras.stored_labels AS
    SELECT n.nspname::text AS in_schema, r.relname::text AS in_table, a.attname::text AS attribute, p.column_id,
        r.oid AS relation
    FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
        AND a.atttypid = 'pg_catalog.int8'::regtype AND a.attname LIKE '%$ord'
    LEFT JOIN arras.mope_place p ON p.relation = r.oid AND p.attribute = a.attname
        AND NOT EXISTS (SELECT FROM arras.mope_doubt d
            WHERE d.column_id = p.column_id AND d.relation = p.relation AND d.attribute = p.attribute)
        AND (p.watched IS NULL OR 2 = (SELECT count(DISTINCT split_part(g.tgname::text, '_', 4)) FROM pg_catalog.pg_trigger g
            WHERE g.tgrelid = p.relation AND g.tgenabled IN (p.watched, 'A')
            AND g.tgname ~ ('^arras_order_' || to_hex(p.column_id) || '_(insert|change)(_|$)')
            AND (r.relkind <> 'p' OR NOT EXISTS (WITH RECURSIVE part (relation) AS (
                    SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = p.relation
                    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.relation)
                SELECT FROM part JOIN pg_catalog.pg_trigger c ON c.tgrelid = part.relation AND c.tgname = g.tgname
                WHERE c.tgenabled NOT IN (p.watched, 'A')))))
    WHERE r.relkind IN ('r', 'p', 'f');
