-- Is each key of a column one row's (FH-OPE)?
ALTER TABLE arras.mope_column ADD COLUMN one_row boolean NOT NULL DEFAULT false;
DROP FUNCTION IF EXISTS arras.mope_register(bigint, boolean);
