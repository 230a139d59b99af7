-- What is left of rows that retention has removed: enough for the chain to be checked over the gap.
CREATE TABLE archived (
	position bigint  PRIMARY KEY,
	n        integer NOT NULL,
	hash     bytea   NOT NULL
);
