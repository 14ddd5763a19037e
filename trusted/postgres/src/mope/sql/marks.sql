-- How far each proxy has seen this database come: a number that only grows.
CREATE TABLE arras.mark (
    proxy bigint PRIMARY KEY,
    raised bigint NOT NULL
) WITH (fillfactor = 50);
