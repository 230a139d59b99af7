-- What is left of rows that retention has removed: enough for the chain to be checked over the gap.
CREATE TABLE archived (
	position INTEGER PRIMARY KEY,
	n        INTEGER NOT NULL,
	hash     BLOB    NOT NULL
) STRICT;
