-- The event store. Positions are given by the writer, without gaps, in the order of commits.

-- One row is one append to one stream: n facts with the positions position … position+n-1.
CREATE TABLE events (
	position INTEGER PRIMARY KEY,
	n        INTEGER NOT NULL,
	stream   TEXT    NOT NULL, -- request/<id>, upstream/<id>, account/<id>, catalog/<kind>/<id>, node/<id>
	version  INTEGER NOT NULL, -- facts in the stream before this row
	terminal INTEGER NOT NULL, -- 1: ends a request
	at       INTEGER NOT NULL, -- microseconds since 1970, UTC
	types    TEXT    NOT NULL, -- names of the facts, space-separated
	about    TEXT,             -- a request of which the stream's name does not tell
	key      TEXT,             -- NULL where it does not apply, as is upstream
	upstream TEXT,
	node     TEXT,
	hash     BLOB    NOT NULL, -- SHA-256 over all of the row
	payload  TEXT    NOT NULL, -- JSON array with one object per fact
	-- The request that the row is about, NULL for none. Its name stands in the stream; a column of its own holds only
	-- what the stream does not say: a request in another stream, or '' for a request's stream without one.
	request  TEXT GENERATED ALWAYS AS (nullif(coalesce(about,
		CASE WHEN stream >= 'request/' AND stream < 'request0' THEN substr(stream, 9) END), '')) VIRTUAL
) STRICT;

CREATE UNIQUE INDEX events_stream ON events (stream, version);
CREATE UNIQUE INDEX events_terminal ON events (stream) WHERE terminal = 1;
-- A request's own stream is found by its name; this one holds only what other streams say about a request.
CREATE INDEX events_about ON events (about) WHERE about IS NOT NULL;

-- There is no index on time, key or upstream: each one costs a fifth of an append. A search by time narrows its range
-- of positions by the two times in commits; key, upstream and type are filters over that range.

-- The chain: one link per commit. It outlives the rows that retention removes.
CREATE TABLE commits (
	first     INTEGER PRIMARY KEY, -- position of the commit's first fact
	n         INTEGER NOT NULL,    -- facts
	low_water INTEGER NOT NULL,    -- no request that was open began below it
	earliest  INTEGER NOT NULL,    -- time of the commit's earliest row
	latest    INTEGER NOT NULL,    -- time of the latest row of this commit and all before it: never falls
	previous  BLOB    NOT NULL,    -- hash of the commit before; zeros for the first
	hash      BLOB    NOT NULL
) STRICT;

-- Sealed credentials, one immutable version each; written together with the fact that names them.
CREATE TABLE secrets (
	id      TEXT    NOT NULL,
	version INTEGER NOT NULL,
	sealed  BLOB    NOT NULL,
	digest  BLOB    NOT NULL,
	PRIMARY KEY (id, version)
) STRICT, WITHOUT ROWID;

-- One row that Probe rewrites.
CREATE TABLE probe (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	n  INTEGER NOT NULL
) STRICT;
