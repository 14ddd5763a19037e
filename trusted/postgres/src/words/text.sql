-- Columns whose texts are found by their words. Names of texts are given out in epochs: a name is stored in its own or the next, so
-- that once two have gone by it is known which names no statement will store any more.
CREATE TABLE IF NOT EXISTS arras.text_column (
    id bigint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 1,
    fingerprint bytea NOT NULL
);
REVOKE ALL ON arras.text_column FROM PUBLIC;

-- The name that a text is stored under, of what is entered: eight bytes of its epoch and the name.
CREATE OR REPLACE FUNCTION arras.text_name(column_id bigint, entered bytea) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    oldest bigint;
BEGIN
    SELECT c.epoch - 1 INTO oldest FROM arras.text_column c WHERE c.id = text_name.column_id;
    IF length(entered) <> 24 OR oldest IS NULL OR int8send(oldest) > substr(entered, 1, 8) THEN
        RAISE EXCEPTION 'the words of a text of column % were entered too long ago', to_hex(text_name.column_id)
            USING ERRCODE = 'serialization_failure', HINT = 'Try the transaction again.';
    END IF;
    RETURN substr(entered, 9);
END $$;
GRANT EXECUTE ON FUNCTION arras.text_name(bigint, bytea) TO PUBLIC;
