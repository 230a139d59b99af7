-- The search index: which rows of a block of 4096 positions have a key, an upstream, or a fact of a type. A block is
-- written when it is full, in the commit that fills it; the block under way is not here. A row belongs to the block of
-- its position. What it tells, the events tell, too: it may be made anew by the statement below.
CREATE TABLE blocks (
	block   bigint NOT NULL,           -- position / 4096
	kind    text COLLATE "C" NOT NULL, -- key, upstream or type
	value   text COLLATE "C" NOT NULL, -- a type without its schema number
	offsets text COLLATE "C" NOT NULL, -- position % 4096 of the rows, ascending, space-separated
	PRIMARY KEY (block, kind, value)
);

-- Old databases are large: this takes ten seconds for a million events.
SET LOCAL statement_timeout = 0;

INSERT INTO blocks (block, kind, value, offsets)
WITH term (position, kind, value) AS (
	SELECT position, 'key', key FROM events WHERE octet_length(key) <= 402
	UNION ALL SELECT position, 'upstream', upstream FROM events WHERE octet_length(upstream) <= 402
	UNION ALL SELECT DISTINCT e.position, 'type', split_part(t.tag, '@', 1)
		FROM events e, unnest(string_to_array(e.types, ' ')) AS t (tag) WHERE octet_length(t.tag) <= 402
)
SELECT position / 4096, kind, value, string_agg((position % 4096)::text, ' ' ORDER BY position) FROM term
WHERE position / 4096 < (SELECT (first + n) / 4096 FROM commits ORDER BY first DESC LIMIT 1)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- Statistics that are no guess: a search asks for a block and a term, and finds one row.
ANALYZE blocks;
