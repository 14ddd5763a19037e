-- Every table has a key: who replicates all tables of a database could change nothing in one without.
ALTER TABLE arras.mope_left ADD PRIMARY KEY (number);
ALTER TABLE arras.installation ADD PRIMARY KEY (version);
