-- What is kept of order-preserving encodings: ordinary tables, so that trees, rows and labels commit together, and every
-- snapshot sees labels that belong together. Labels are unsigned 64-bit integers with the sign bit flipped, so that the order
-- of bigint is theirs.

CREATE TABLE arras.installation (version integer NOT NULL);
INSERT INTO arras.installation VALUES (0);

-- A column's tree at its version. The row's lock makes one encoder at a time of all that change the tree.
CREATE TABLE arras.mope_column (
    id bigint PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    root bigint NOT NULL DEFAULT 0,
    next bigint NOT NULL DEFAULT 0,
    "values" bigint NOT NULL DEFAULT 0,
    digest bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    -- Do keys go with their last occurrence?
    same_time boolean NOT NULL
) WITH (fillfactor = 50);

-- How often labels of a column changed or went. Apart from the tree's own row, which changes with every new value: a
-- transaction whose snapshot is older than the last time must not store labels that it reads there.
CREATE TABLE arras.mope_epoch (
    column_id bigint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Nodes, whose bytes only the client reads: what is encrypted is not compressed, and kept in its row where it fits.
CREATE TABLE arras.mope_node (
    column_id bigint NOT NULL,
    node bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (column_id, node)
) WITH (toast_tuple_target = 8160, fillfactor = 70);
ALTER TABLE arras.mope_node ALTER COLUMN content SET STORAGE EXTERNAL;

-- The OPE table. That labels are distinct is looked at when a statement ends, since a spread moves many at once.
CREATE TABLE arras.mope_entry (
    column_id bigint NOT NULL,
    ciphertext bytea NOT NULL,
    label bigint NOT NULL,
    PRIMARY KEY (column_id, ciphertext),
    UNIQUE (column_id, label) DEFERRABLE INITIALLY IMMEDIATE,
    -- The two ends are never given: they stand for a bound that everything is above, or below.
    CHECK (label BETWEEN -9223372036854775807 AND 9223372036854775806)
);

-- Where the labels of a column are stored.
CREATE TABLE arras.mope_place (
    column_id bigint NOT NULL,
    relation regclass NOT NULL,
    attribute name NOT NULL,
    PRIMARY KEY (column_id, relation, attribute)
);

-- Values whose last occurrence may have gone; without a ciphertext: any. Rows are only ever added beside one another, so
-- that no statement of an application waits for another's.
CREATE TABLE arras.mope_left (
    column_id bigint NOT NULL,
    ciphertext bytea,
    number bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX ON arras.mope_left (column_id, number);

CREATE TYPE arras.mope_summary AS (low bigint, high bigint, start bigint, half bigint, odd bigint, before bigint[]);
CREATE TYPE arras.mope_move AS (low bigint, high bigint, start bigint, down integer);
