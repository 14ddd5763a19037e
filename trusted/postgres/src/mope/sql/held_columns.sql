-- Do the triggers that note labels which are written past the proxy ask whether their own column is held? Those of version 12 ask whether any is.
ALTER TABLE arras.mope_place ADD COLUMN IF NOT EXISTS by_column boolean NOT NULL DEFAULT false;
DROP FUNCTION IF EXISTS arras.mope_watch_all();
DROP FUNCTION IF EXISTS arras.mope_watch(bigint, regclass, name, text);
DROP FUNCTION IF EXISTS arras.mope_make_triggers(bigint, regclass, text, text, text[], text[]);
