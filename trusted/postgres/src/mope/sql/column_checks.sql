-- By what it is noticed that a column was made under other keys than a proxy has, or as another column: pseudo-random bytes of what
-- decides its ciphertexts. The first one kept of a column counts; one whose column is gone, or is another by name and place, none.
CREATE TABLE arras.column_check (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    relation regclass NOT NULL,
    place smallint NOT NULL,
    attribute name NOT NULL,
    sealed bytea NOT NULL,
    equality bytea,
    "order" bytea
);
