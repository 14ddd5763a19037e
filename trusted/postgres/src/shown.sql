-- The catalogue as an application sees it: declared columns with their logical types, no columns of terms, indexes and keys
-- on the columns that they are about. The proxy reads these views where a client's statement names the catalogue's own.

CREATE SCHEMA IF NOT EXISTS arras;
GRANT USAGE ON SCHEMA arras TO PUBLIC;

-- What the schema file declares.
CREATE TABLE IF NOT EXISTS arras.shown_column (
    schema_name name NOT NULL,
    table_name name NOT NULL,
    column_name name NOT NULL,
    type_id oid NOT NULL,
    modifier integer NOT NULL,
    PRIMARY KEY (schema_name, table_name, column_name)
);
GRANT SELECT ON arras.shown_column TO PUBLIC;

-- Declared columns that are there.
CREATE OR REPLACE VIEW arras.shown AS
    SELECT a.attrelid, a.attnum, a.attname, s.type_id, s.modifier
    FROM arras.shown_column s
    JOIN pg_catalog.pg_namespace n ON n.nspname = s.schema_name
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = s.table_name
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = s.column_name AND NOT a.attisdropped;
GRANT SELECT ON arras.shown TO PUBLIC;

-- Columns of terms, and the columns that they are terms of.
CREATE OR REPLACE VIEW arras.term AS
    SELECT t.attrelid, t.attnum, s.attnum AS base
    FROM arras.shown s
    JOIN pg_catalog.pg_attribute t ON t.attrelid = s.attrelid AND NOT t.attisdropped
        AND t.attname IN ((s.attname || '$eq')::name, (s.attname || '$ord')::name, (s.attname || '$text')::name);
GRANT SELECT ON arras.term TO PUBLIC;

-- The numbers of columns with those of terms replaced by those of their columns.
CREATE OR REPLACE FUNCTION arras.shown_columns(relation oid, numbers smallint[]) RETURNS smallint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN numbers IS NULL THEN NULL ELSE coalesce(array_agg(coalesce(t.base, k.number) ORDER BY k.place), '{}') END
    FROM unnest(numbers) WITH ORDINALITY AS k (number, place)
    LEFT JOIN arras.term t ON t.attrelid = relation AND t.attnum = k.number
$$;

-- A definition with the names of terms replaced by those of their columns.
CREATE OR REPLACE FUNCTION arras.shown_text(definition text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT regexp_replace(
        regexp_replace(definition, '"([a-z_][a-z0-9_]*)\$(eq|ord|text)"', '\1', 'g'),
        '"((?:[^"]|"")*)\$(eq|ord|text)"', '"\1"', 'g')
$$;
CREATE OR REPLACE FUNCTION arras.pg_get_indexdef(index oid) RETURNS text LANGUAGE sql STABLE STRICT AS
$$ SELECT arras.shown_text(pg_catalog.pg_get_indexdef(index)) $$;
CREATE OR REPLACE FUNCTION arras.pg_get_indexdef(index oid, number integer, pretty boolean) RETURNS text
LANGUAGE sql STABLE STRICT AS $$ SELECT arras.shown_text(pg_catalog.pg_get_indexdef(index, number, pretty)) $$;
CREATE OR REPLACE FUNCTION arras.pg_get_constraintdef(constrained oid) RETURNS text LANGUAGE sql STABLE STRICT AS
$$ SELECT arras.shown_text(pg_catalog.pg_get_constraintdef(constrained)) $$;
CREATE OR REPLACE FUNCTION arras.pg_get_constraintdef(constrained oid, pretty boolean) RETURNS text
LANGUAGE sql STABLE STRICT AS $$ SELECT arras.shown_text(pg_catalog.pg_get_constraintdef(constrained, pretty)) $$;
-- What is installed beside takes functions from all that it does not know.
GRANT EXECUTE ON FUNCTION arras.shown_columns(oid, smallint[]), arras.shown_text(text), arras.pg_get_indexdef(oid),
    arras.pg_get_indexdef(oid, integer, boolean), arras.pg_get_constraintdef(oid), arras.pg_get_constraintdef(oid, boolean) TO PUBLIC;

-- The views have the columns that this version's catalogue has.
DO $install$
DECLARE
    shown record;
    listed text;
BEGIN
    FOR shown IN
        SELECT * FROM (VALUES
            ('pg_catalog', 'pg_class', $q$FROM pg_catalog.pg_class o
                WHERE o.relkind <> 'i' OR o.relname !~ '^arras_[0-9a-f]{16}_(equality|order|text)$'$q$),
            ('pg_catalog', 'pg_attribute', $q$FROM pg_catalog.pg_attribute o
                LEFT JOIN arras.shown s ON s.attrelid = o.attrelid AND s.attnum = o.attnum
                LEFT JOIN pg_catalog.pg_type y ON y.oid = s.type_id
                WHERE NOT EXISTS (SELECT 1 FROM arras.term t WHERE t.attrelid = o.attrelid AND t.attnum = o.attnum)$q$),
            ('pg_catalog', 'pg_index', $q$FROM pg_catalog.pg_index o
                WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid = o.indexrelid
                    AND c.relname ~ '^arras_[0-9a-f]{16}_(equality|order|text)$')$q$),
            ('pg_catalog', 'pg_constraint', 'FROM pg_catalog.pg_constraint o'),
            ('pg_catalog', 'pg_trigger', $q$FROM pg_catalog.pg_trigger o WHERE o.tgname !~ '^arras_order_'$q$),
            ('information_schema', 'columns', $q$FROM information_schema.columns o
                LEFT JOIN arras.shown_column s ON (s.schema_name, s.table_name, s.column_name)
                    = (o.table_schema::name, o.table_name::name, o.column_name::name)
                LEFT JOIN pg_catalog.pg_type y ON y.oid = s.type_id
                WHERE NOT EXISTS (SELECT 1 FROM arras.shown_column t WHERE t.schema_name = o.table_schema
                    AND t.table_name = o.table_name AND o.column_name IN (t.column_name || '$eq', t.column_name || '$ord', t.column_name || '$text'))$q$),
            ('information_schema', 'key_column_usage', 'FROM information_schema.key_column_usage o'),
            ('information_schema', 'constraint_column_usage', 'FROM information_schema.constraint_column_usage o')
        ) AS v (place, name, source)
    LOOP
        SELECT string_agg(format('%s AS %I', coalesce(
            (SELECT r.expression FROM (VALUES
                ('pg_attribute', 'atttypid', 'coalesce(s.type_id, o.atttypid)'),
                ('pg_attribute', 'atttypmod', 'coalesce(s.modifier, o.atttypmod)'),
                ('pg_attribute', 'attlen', 'coalesce(y.typlen, o.attlen)'),
                ('pg_attribute', 'attbyval', 'coalesce(y.typbyval, o.attbyval)'),
                ('pg_attribute', 'attalign', 'coalesce(y.typalign, o.attalign)'),
                ('pg_attribute', 'attstorage', 'coalesce(y.typstorage, o.attstorage)'),
                ('pg_attribute', 'attcollation', 'coalesce(y.typcollation, o.attcollation)'),
                ('pg_attribute', 'attmissingval', 'o.attmissingval::text'),
                ('pg_index', 'indkey',
                    'array_to_string(arras.shown_columns(o.indrelid, o.indkey::smallint[]), '' '')::int2vector'),
                ('pg_constraint', 'conkey', 'arras.shown_columns(o.conrelid, o.conkey)'),
                ('pg_constraint', 'confkey', 'arras.shown_columns(o.confrelid, o.confkey)'),
                ('columns', 'data_type', 'coalesce(pg_catalog.format_type(s.type_id, NULL), o.data_type)'),
                ('columns', 'udt_name', 'coalesce(y.typname, o.udt_name)'),
                ('columns', 'character_maximum_length',
                    'coalesce(information_schema._pg_char_max_length(s.type_id, s.modifier), o.character_maximum_length)'),
                ('columns', 'character_octet_length',
                    'coalesce(information_schema._pg_char_octet_length(s.type_id, s.modifier), o.character_octet_length)'),
                ('columns', 'numeric_precision',
                    'coalesce(information_schema._pg_numeric_precision(s.type_id, s.modifier), o.numeric_precision)'),
                ('columns', 'numeric_precision_radix',
                    'coalesce(information_schema._pg_numeric_precision_radix(s.type_id, s.modifier), o.numeric_precision_radix)'),
                ('columns', 'numeric_scale',
                    'coalesce(information_schema._pg_numeric_scale(s.type_id, s.modifier), o.numeric_scale)'),
                ('columns', 'datetime_precision',
                    'coalesce(information_schema._pg_datetime_precision(s.type_id, s.modifier), o.datetime_precision)'),
                ('key_column_usage', 'column_name', 'regexp_replace(o.column_name::text, ''\$(eq|ord|text)$'', '''')'),
                ('constraint_column_usage', 'column_name', 'regexp_replace(o.column_name::text, ''\$(eq|ord|text)$'', '''')')
            ) AS r (view, name, expression) WHERE r.view = shown.name AND r.name = a.attname),
            format('o.%I', a.attname)), a.attname), ', ' ORDER BY a.attnum)
        INTO listed
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = format('%I.%I', shown.place, shown.name)::regclass AND a.attnum > 0 AND NOT a.attisdropped;
        EXECUTE format('DROP VIEW IF EXISTS arras.%I', shown.name);
        EXECUTE format('CREATE VIEW arras.%I AS SELECT %s %s', shown.name, listed, shown.source);
        EXECUTE format('GRANT SELECT ON arras.%I TO PUBLIC', shown.name);
    END LOOP;
END $install$;
