-- Columns that may store labels, by their names, for any session to compare with what is declared: with the columns whose labels they are
-- known to store, or none.
CREATE OR REPLACE VIEW arras.stored_labels AS
    SELECT n.nspname::text AS in_schema, r.relname::text AS in_table, a.attname::text AS attribute, p.column_id
    FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
        AND a.atttypid = 'pg_catalog.int8'::regtype AND a.attname LIKE '%$ord'
    LEFT JOIN arras.mope_place p ON p.relation = r.oid AND p.attribute = a.attname
    WHERE r.relkind IN ('r', 'p', 'f');
