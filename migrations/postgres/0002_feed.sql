-- How far each consumer group of the feed has come.
CREATE TABLE feed_checkpoints (
	name     text COLLATE "C" PRIMARY KEY,
	position bigint      NOT NULL, -- everything up to it was acknowledged
	at       timestamptz NOT NULL  -- when it was stored
);

-- Every commit, whoever makes it, wakes the readers of the feed when it is visible to them.
CREATE FUNCTION wake_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NOTIFY penstock_feed;
	RETURN NULL;
END $$;
CREATE TRIGGER commits_wake_feed AFTER INSERT ON commits FOR EACH STATEMENT EXECUTE FUNCTION wake_feed();
