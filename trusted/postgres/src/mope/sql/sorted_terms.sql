-- Ciphertexts of BCLO: compared as bytes. The type of a column says by which scheme its terms of order were made.
CREATE DOMAIN arras.bclo AS pg_catalog.bytea CHECK (pg_catalog.octet_length(VALUE) IN (8, 16));
