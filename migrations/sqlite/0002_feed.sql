-- How far each consumer group of the feed has come.
CREATE TABLE feed_checkpoints (
	name     TEXT    PRIMARY KEY,
	position INTEGER NOT NULL, -- everything up to it was acknowledged
	at       INTEGER NOT NULL  -- when it was stored: microseconds since 1970, UTC
) STRICT, WITHOUT ROWID;
