-- Ciphertexts of CLWW: two planes of bits, compared by a function.
CREATE DOMAIN arras.clww AS pg_catalog.bytea CHECK (pg_catalog.octet_length(VALUE) IN (8, 16));
