-- Right ciphertexts of Lewi-Wu, blocks of 4 bits: a nonce, and four bytes of trits a block.
CREATE DOMAIN arras.lewi_wu AS pg_catalog.bytea CHECK (pg_catalog.octet_length(VALUE) IN (48, 80));
