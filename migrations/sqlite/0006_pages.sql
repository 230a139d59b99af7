-- One row per commit instead of one per append: what an append cost was mostly its own row with an index beside it.

-- What was stored so far. The store moves it to pages, part by part, before it is used again, and drops the table then; so a start
-- that was broken off goes on with the next one.
ALTER TABLE events RENAME TO appended;
DROP INDEX events_stream;
DROP INDEX events_about;

-- A page has rows of one commit: a JSON array with one array per append,
--   [position, n, stream, version, terminal, at, types, about, key, upstream, node, bytes, payload]
-- with what the view below tells of each, and bytes, the length of the payload as it stands there. Its bytes are what was hashed,
-- so a page is never formatted anew. A long commit has several pages. Retention takes rows out of a page.
CREATE TABLE pages (
	first  INTEGER PRIMARY KEY, -- position of its first row, when it was written; pages do not overlap
	hashes BLOB NOT NULL,       -- of its rows, 32 bytes each, one behind the other
	body   TEXT NOT NULL
) STRICT;

-- Where the rows of a stream are, as far as nothing else tells. A request whose id is a UUIDv7 is looked for in the blocks, from the
-- commit on that has reached the time in its id, up to the row that ends it, and no further than the commit before which a row was a
-- minute younger than its id. Here stand its rows that are not found so: those behind its end, those that are in a later commit, and
-- those more than a second older than its id. Of other streams all rows are here, and under 'request/<id>' those of other streams
-- that are about a request. A row too many does no harm.
CREATE TABLE listed (
	name     TEXT    NOT NULL,
	position INTEGER NOT NULL,
	PRIMARY KEY (name, position)
) STRICT, WITHOUT ROWID;

-- A block has one more row, of kind 'stream': of all its rows whose request's id is a UUIDv7, the last 8 digits of the id and
-- position % 4096 as 3 digits, in hex, in order and without anything between. It, too, is made when the rows are moved.

-- The rows one by one, for those who look with SQL, with the columns that they had as a table of their own. It reads every page; who
-- wants few of them looks at pages by first. The payload is shown as JSON; its very bytes are in the page.
CREATE VIEW events (position, n, stream, version, terminal, at, types, about, key, upstream, node, hash, payload, request) AS
SELECT json_extract(r.value, '$[0]'), json_extract(r.value, '$[1]'), json_extract(r.value, '$[2]'), json_extract(r.value, '$[3]'),
	json_extract(r.value, '$[4]'), json_extract(r.value, '$[5]'), json_extract(r.value, '$[6]'), json_extract(r.value, '$[7]'),
	json_extract(r.value, '$[8]'), json_extract(r.value, '$[9]'), json_extract(r.value, '$[10]'), substr(hashes, 32 * r.key + 1, 32),
	json_extract(r.value, '$[12]'),
	nullif(coalesce(json_extract(r.value, '$[7]'), CASE WHEN json_extract(r.value, '$[2]') >= 'request/'
		AND json_extract(r.value, '$[2]') < 'request0' THEN substr(json_extract(r.value, '$[2]'), 9) END), '')
FROM pages, json_each(pages.body) r;
