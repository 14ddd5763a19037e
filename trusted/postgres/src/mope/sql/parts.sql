-- Parts of tables that store labels, as far as it is known that they have none of another time: each as it is attached since. Where the table
-- of them was itself restored, which its own entry in the catalogue shows, those of their names.
CREATE TABLE IF NOT EXISTS arras.mope_part (
    column_id bigint NOT NULL,
    relation regclass NOT NULL,
    attribute name NOT NULL,
    part regclass NOT NULL,
    since text NOT NULL,
    installed text NOT NULL,
    PRIMARY KEY (column_id, relation, attribute, part)
);
-- Parts of places that are not noted so. One is made as a part, and so without rows, if its triggers were made before the table that keeps its
-- long values; when it is attached, they are made behind that.
CREATE OR REPLACE VIEW arras.mope_new_part AS
    WITH RECURSIVE part (column_id, relation, attribute, part, since) AS (
        SELECT p.column_id, p.relation, p.attribute, i.inhrelid, i.xmin::text FROM arras.mope_place p
            JOIN pg_catalog.pg_class r ON r.oid = p.relation AND r.relkind = 'p'
            JOIN pg_catalog.pg_inherits i ON i.inhparent = p.relation AND NOT i.inhdetachpending
        UNION SELECT part.column_id, part.relation, part.attribute, i.inhrelid, i.xmin::text FROM part
            JOIN pg_catalog.pg_inherits i ON i.inhparent = part.part AND NOT i.inhdetachpending),
    installed (as_now) AS (SELECT format('%s %s', a.attrelid::oid, a.xmin) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'arras.mope_part'::regclass AND a.attnum = 1)
    SELECT part.column_id, part.relation, part.attribute, part.part, part.since, installed.as_now AS installed,
        c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = part.part AND g.oid > c.reltoastrelid
            AND g.tgname ~ ('^arras_order_' || to_hex(part.column_id) || '_(insert|change)(_|$)')) AS made_as_part
    FROM part CROSS JOIN installed JOIN pg_catalog.pg_class c ON c.oid = part.part
    WHERE NOT EXISTS (SELECT FROM arras.mope_part k WHERE (k.column_id, k.relation, k.attribute, k.part) =
            (part.column_id, part.relation, part.attribute, part.part::regclass) AND (k.since = part.since OR k.installed <> installed.as_now));
-- Those that are there.
INSERT INTO arras.mope_part (column_id, relation, attribute, part, since, installed)
    SELECT n.column_id, n.relation, n.attribute, n.part, n.since, n.installed FROM arras.mope_new_part n ON CONFLICT DO NOTHING;
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
        AND NOT EXISTS (SELECT FROM arras.mope_new_part t WHERE NOT t.made_as_part
            AND t.column_id = p.column_id AND t.relation = p.relation AND t.attribute = p.attribute)
        AND (p.watched IS NULL OR 2 = (SELECT count(DISTINCT split_part(g.tgname::text, '_', 4)) FROM pg_catalog.pg_trigger g
            WHERE g.tgrelid = p.relation AND g.tgenabled IN (p.watched, 'A')
            AND g.tgname ~ ('^arras_order_' || to_hex(p.column_id) || '_(insert|change)(_|$)')
            AND (r.relkind <> 'p' OR NOT EXISTS (WITH RECURSIVE part (relation) AS (
                    SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = p.relation
                    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.relation)
                SELECT FROM part JOIN pg_catalog.pg_trigger c ON c.tgrelid = part.relation AND c.tgname = g.tgname
                WHERE c.tgenabled NOT IN (p.watched, 'A')))))
    WHERE r.relkind IN ('r', 'p', 'f');
