    WITH RECURSIVE part (id) AS (
        SELECT $1::pg_catalog.oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part p ON i.inhparent OPERATOR(pg_catalog.=) p.id)
    SELECT pg_catalog.pg_get_userbyid(r.relowner) FROM part p JOIN pg_catalog.pg_class r ON r.oid OPERATOR(pg_catalog.=) p.id
        WHERE NOT pg_catalog.pg_has_role(r.relowner, current_user, 'USAGE') ORDER BY 1 LIMIT 1
