-- How terms of an order that are ciphertexts are compared. Keyless, and of what they are given alone. They are called for each
-- row, so no setting of search_path is made, and they run with the caller's rights: every function and every operator says its schema, as
-- whoever may create in a schema on the caller's path could else have them run what is his.

-- The least and the greatest of ciphertexts that are in the order of their values. PostgreSQL has none of bytea before 18.
CREATE OR REPLACE FUNCTION arras.bytes_smaller(one bytea, other bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$ BEGIN RETURN LEAST(one, other); END $$;
CREATE OR REPLACE FUNCTION arras.bytes_larger(one bytea, other bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$ BEGIN RETURN GREATEST(one, other); END $$;
CREATE OR REPLACE AGGREGATE arras.bytes_min(bytea) (SFUNC = arras.bytes_smaller, STYPE = bytea,
    COMBINEFUNC = arras.bytes_smaller, SORTOP = OPERATOR(pg_catalog.<), PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE arras.bytes_max(bytea) (SFUNC = arras.bytes_larger, STYPE = bytea,
    COMBINEFUNC = arras.bytes_larger, SORTOP = OPERATOR(pg_catalog.>), PARALLEL = SAFE);

-- Any one of sealed values that open to the same, or of terms that are the same: the first. What is held of a group is one.
CREATE OR REPLACE FUNCTION arras.first_of(one bytea, other bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$ BEGIN RETURN one; END $$;
CREATE OR REPLACE AGGREGATE arras.any_of(bytea) (SFUNC = arras.first_of, STYPE = bytea, COMBINEFUNC = arras.first_of,
    PARALLEL = SAFE);

-- The sealed value whose label is least, and greatest: a state is the label, so that bytes are in its order, and the sealed value.
CREATE OR REPLACE FUNCTION arras.label_lesser(state bytea, sealed bytea, label bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    place CONSTANT pg_catalog.bytea := pg_catalog.int8send(label OPERATOR(pg_catalog.#) '-9223372036854775808'::bigint);
BEGIN
    IF label IS NULL OR pg_catalog.substr(state, 1, 8) OPERATOR(pg_catalog.<=) place THEN
        RETURN state;
    END IF;
    RETURN place OPERATOR(pg_catalog.||) sealed;
END $$;
CREATE OR REPLACE FUNCTION arras.label_greater(state bytea, sealed bytea, label bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    place CONSTANT pg_catalog.bytea := pg_catalog.int8send(label OPERATOR(pg_catalog.#) '-9223372036854775808'::bigint);
BEGIN
    IF label IS NULL OR pg_catalog.substr(state, 1, 8) OPERATOR(pg_catalog.>=) place THEN
        RETURN state;
    END IF;
    RETURN place OPERATOR(pg_catalog.||) sealed;
END $$;
CREATE OR REPLACE FUNCTION arras.behind_label(state bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$ BEGIN RETURN pg_catalog.substr(state, 9); END $$;
CREATE OR REPLACE AGGREGATE arras.mope_least(bytea, bigint) (SFUNC = arras.label_lesser, STYPE = bytea,
    FINALFUNC = arras.behind_label, PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE arras.mope_greatest(bytea, bigint) (SFUNC = arras.label_greater, STYPE = bytea,
    FINALFUNC = arras.behind_label, PARALLEL = SAFE);

-- The same by ciphertexts that are in the order of their values: a state is the ciphertext and the sealed value.
CREATE OR REPLACE FUNCTION arras.bytes_lesser(state bytea[], sealed bytea, term bytea) RETURNS bytea[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF term IS NULL OR state[1] OPERATOR(pg_catalog.<=) term THEN
        RETURN state;
    END IF;
    RETURN ARRAY[term, sealed];
END $$;
CREATE OR REPLACE FUNCTION arras.bytes_greater(state bytea[], sealed bytea, term bytea) RETURNS bytea[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF term IS NULL OR state[1] OPERATOR(pg_catalog.>=) term THEN
        RETURN state;
    END IF;
    RETURN ARRAY[term, sealed];
END $$;
CREATE OR REPLACE FUNCTION arras.sealed_of(state bytea[]) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT state[2] $$;
CREATE OR REPLACE AGGREGATE arras.bclo_least(bytea, bytea) (SFUNC = arras.bytes_lesser, STYPE = bytea[],
    FINALFUNC = arras.sealed_of, PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE arras.bclo_greatest(bytea, bytea) (SFUNC = arras.bytes_greater, STYPE = bytea[],
    FINALFUNC = arras.sealed_of, PARALLEL = SAFE);

-- Trits of CLWW: the first that differ are one apart modulo 3, the greater value's is the successor. -1, 0, 1: the first value is
-- less, equal, greater. A ciphertext is two planes, which trits are 2 and which are 1, the first trit highest.
CREATE OR REPLACE FUNCTION arras.clww_compare(one bytea, other bytea) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    x CONSTANT bit varying := ('x' OPERATOR(pg_catalog.||) pg_catalog.encode(one, 'hex'))::bit varying;
    y CONSTANT bit varying := ('x' OPERATOR(pg_catalog.||) pg_catalog.encode(other, 'hex'))::bit varying;
    trits CONSTANT integer := pg_catalog.length(x) OPERATOR(pg_catalog./) 2;
    differing CONSTANT bit varying := x OPERATOR(pg_catalog.#) y;
    place CONSTANT integer := pg_catalog.position(pg_catalog.substring(differing, 1, trits)
        OPERATOR(pg_catalog.|) pg_catalog.substring(differing, trits OPERATOR(pg_catalog.+) 1), B'1') OPERATOR(pg_catalog.-) 1;
BEGIN
    IF place OPERATOR(pg_catalog.<) 0 THEN
        RETURN 0;
    END IF;
    -- 2 * two + one is the trit.
    IF (((2 OPERATOR(pg_catalog.*) pg_catalog.get_bit(x, place)) OPERATOR(pg_catalog.+) pg_catalog.get_bit(x, trits OPERATOR(pg_catalog.+) place))
        OPERATOR(pg_catalog.+) 1) OPERATOR(pg_catalog.%) 3
        OPERATOR(pg_catalog.=) ((2 OPERATOR(pg_catalog.*) pg_catalog.get_bit(y, place))
        OPERATOR(pg_catalog.+) pg_catalog.get_bit(y, trits OPERATOR(pg_catalog.+) place)) THEN
        RETURN -1;
    END IF;
    RETURN 1;
END $$;

-- -1 below the first end, 1 above the other, 0 between them; NULL where NULL leaves that open.
CREATE OR REPLACE FUNCTION arras.clww_between(one bytea, low bytea, high bytea) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    above CONSTANT integer := arras.clww_compare(one, low);
    below CONSTANT integer := arras.clww_compare(one, high);
BEGIN
    RETURN CASE WHEN above OPERATOR(pg_catalog.<) 0 THEN -1 WHEN below OPERATOR(pg_catalog.>) 0 THEN 1
        WHEN above IS NULL OR below IS NULL THEN NULL ELSE 0 END;
END $$;

-- The sealed value whose term is least, and greatest: a state is the term and the sealed value.
CREATE OR REPLACE FUNCTION arras.clww_lesser(state bytea[], sealed bytea, term bytea) RETURNS bytea[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF term IS NULL OR arras.clww_compare(term, state[1]) OPERATOR(pg_catalog.>=) 0 THEN
        RETURN state;
    END IF;
    RETURN ARRAY[term, sealed];
END $$;
CREATE OR REPLACE FUNCTION arras.clww_greater(state bytea[], sealed bytea, term bytea) RETURNS bytea[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF term IS NULL OR arras.clww_compare(term, state[1]) OPERATOR(pg_catalog.<=) 0 THEN
        RETURN state;
    END IF;
    RETURN ARRAY[term, sealed];
END $$;
CREATE OR REPLACE AGGREGATE arras.clww_least(bytea, bytea) (SFUNC = arras.clww_lesser, STYPE = bytea[],
    FINALFUNC = arras.sealed_of, PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE arras.clww_greatest(bytea, bytea) (SFUNC = arras.clww_greater, STYPE = bytea[],
    FINALFUNC = arras.sealed_of, PARALLEL = SAFE);

-- A right ciphertext of Lewi-Wu and a left one, of blocks of 4 bits: -1, 0, 1 where the stored value is less, equal, greater. Of each
-- block the left one has the hash's input, 16 bytes, and the slot; the right one 16 trits of two bits, the first lowest, behind
-- 16 bytes of a nonce: at the slot, how the left value's block compares with its own (0 equal, 1 less, 2 greater), plus the hash.
CREATE OR REPLACE FUNCTION arras.lewi_wu_compare(stored bytea, compared bytea) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    nonce CONSTANT pg_catalog.bytea := pg_catalog.substr(stored, 1, 16);
    slot integer;
    trit integer;
    mask integer;
BEGIN
    IF pg_catalog.octet_length(stored) OPERATOR(pg_catalog.-) 16
        OPERATOR(pg_catalog.<>) (pg_catalog.octet_length(compared) OPERATOR(pg_catalog./) 17 OPERATOR(pg_catalog.*) 4) THEN
        RAISE EXCEPTION 'ciphertexts of an order are of different lengths' USING ERRCODE = 'data_corrupted';
    END IF;
    FOR block IN 0 .. (pg_catalog.octet_length(compared) OPERATOR(pg_catalog./) 17) OPERATOR(pg_catalog.-) 1 LOOP
        slot := pg_catalog.get_byte(compared, (17 OPERATOR(pg_catalog.*) block) OPERATOR(pg_catalog.+) 16);
        trit := (pg_catalog.get_byte(stored, (16 OPERATOR(pg_catalog.+) (4 OPERATOR(pg_catalog.*) block))
            OPERATOR(pg_catalog.+) (slot OPERATOR(pg_catalog./) 4))
            OPERATOR(pg_catalog.>>) (2 OPERATOR(pg_catalog.*) (slot OPERATOR(pg_catalog.%) 4))) OPERATOR(pg_catalog.&) 3;
        mask := (('x' OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(
            pg_catalog.substr(compared, (17 OPERATOR(pg_catalog.*) block) OPERATOR(pg_catalog.+) 1, 16) OPERATOR(pg_catalog.||) nonce), 1, 7),
            'hex'))::bit(56)::bigint OPERATOR(pg_catalog.%) 3::bigint)::integer;
        trit := ((trit OPERATOR(pg_catalog.+) 3) OPERATOR(pg_catalog.-) mask) OPERATOR(pg_catalog.%) 3;
        IF trit OPERATOR(pg_catalog.=) 1 THEN
            RETURN 1;
        ELSIF trit OPERATOR(pg_catalog.=) 2 THEN
            RETURN -1;
        END IF;
    END LOOP;
    RETURN 0;
END $$;

-- As arras.clww_between.
CREATE OR REPLACE FUNCTION arras.lewi_wu_between(stored bytea, low bytea, high bytea) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    above CONSTANT integer := arras.lewi_wu_compare(stored, low);
    below CONSTANT integer := arras.lewi_wu_compare(stored, high);
BEGIN
    RETURN CASE WHEN above OPERATOR(pg_catalog.<) 0 THEN -1 WHEN below OPERATOR(pg_catalog.>) 0 THEN 1
        WHEN above IS NULL OR below IS NULL THEN NULL ELSE 0 END;
END $$;

