-- The search index: which rows of a block of 4096 positions have a key, an upstream, or a fact of a type. A block is
-- written when it is full, in the commit that fills it; the block under way is not here. A row belongs to the block of
-- its position. What it tells, the events tell, too: it may be made anew by the statement below.
CREATE TABLE blocks (
	block   INTEGER NOT NULL, -- position / 4096
	kind    TEXT    NOT NULL, -- key, upstream or type
	value   TEXT    NOT NULL, -- a type without its schema number
	offsets TEXT    NOT NULL, -- position % 4096 of the rows, ascending, space-separated
	PRIMARY KEY (block, kind, value)
) STRICT, WITHOUT ROWID;

INSERT INTO blocks (block, kind, value, offsets)
WITH term (position, kind, value) AS (
	SELECT position, 'key', key FROM events WHERE key IS NOT NULL
	UNION ALL SELECT position, 'upstream', upstream FROM events WHERE upstream IS NOT NULL
	UNION ALL SELECT DISTINCT e.position, 'type', substr(t.value, 1, instr(t.value || '@', '@') - 1)
		FROM events e, json_each('["' || replace(e.types, ' ', '","') || '"]') t
)
SELECT position / 4096, kind, value, group_concat(position % 4096, ' ' ORDER BY position) FROM term
WHERE position / 4096 < (SELECT (first + n) / 4096 FROM commits ORDER BY first DESC LIMIT 1)
GROUP BY 1, 2, 3;
