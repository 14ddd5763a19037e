-- Nothing is kept otherwise: what an older version would take from applications again, the aggregates of groups, it does not know.
SELECT;
