-- Nothing is kept otherwise: an older version would let a table's owner have code run with the rights of the proxy's role.
SELECT;
