-- The event store. Positions are given by the writer, without gaps, in the order of commits.

-- One row is one append to one stream: n facts with the positions position … position+n-1. The day is a function of
-- the stream's name alone (the day in the UUIDv7 of a request, 1 for an upstream, account or node, 0 for every other
-- stream), so that an index which holds day and stream is unique over all partitions. One partition per day,
-- events_<day>, made by the writer; to remove a day is to drop its table. events_0 and events_1 are never removed.
-- A text that PostgreSQL cannot hold (NUL, broken UTF-8) is stored as '\x' and its bytes in hexadecimal.
CREATE TABLE events (
	position bigint      NOT NULL,
	version  bigint      NOT NULL, -- facts in the stream before this row
	at       timestamptz NOT NULL,
	day      integer     NOT NULL, -- 20261129, or 1, or 0
	n        integer     NOT NULL,
	terminal boolean     NOT NULL, -- ends a request
	stream   text COLLATE "C" NOT NULL, -- request/<id>, upstream/<id>, account/<id>, catalog/<kind>/<id>, node/<id>
	types    text COLLATE "C" NOT NULL, -- names of the facts, space-separated
	request  text COLLATE "C",          -- NULL where it does not apply, as are key and upstream
	key      text COLLATE "C",
	upstream text COLLATE "C",
	node     text COLLATE "C",
	hash     bytea       NOT NULL, -- SHA-256 over all of the row
	payload  json        NOT NULL  -- array with one object per fact, exactly as it was written
) PARTITION BY LIST (day);

CREATE INDEX events_position ON events (position);
CREATE UNIQUE INDEX events_stream ON events (day, stream, version);
CREATE UNIQUE INDEX events_terminal ON events (day, stream) WHERE terminal;
-- A request's own stream is found by its name; this one holds only what other streams say about a request.
CREATE INDEX events_request ON events (request) WHERE request IS NOT NULL AND stream <> 'request/' || request;

CREATE TABLE events_0 PARTITION OF events FOR VALUES IN (0);
CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);

-- Where the rows of a day lie: readers look only into the days whose range meets theirs.
CREATE TABLE days (
	day   integer PRIMARY KEY,
	first bigint  NOT NULL, -- position of its first row; 0 while it has none
	last  bigint  NOT NULL  -- no row reaches beyond it; moved ahead in strides, so mostly more than there is
);
INSERT INTO days (day, first, last) VALUES (0, 0, 0), (1, 0, 0);

-- The chain: one link per commit. It outlives the rows that retention removes.
CREATE TABLE commits (
	first     bigint      PRIMARY KEY, -- position of the commit's first fact
	n         bigint      NOT NULL,    -- facts
	low_water bigint      NOT NULL,    -- no request that was open began below it
	earliest  timestamptz NOT NULL,    -- time of the commit's earliest row
	latest    timestamptz NOT NULL,    -- time of the latest row of this commit and all before it: never falls
	previous  bytea       NOT NULL,    -- hash of the commit before; zeros for the first
	hash      bytea       NOT NULL
);
CREATE INDEX commits_latest ON commits (latest, first);

-- Sealed credentials, one immutable version each; written together with the fact that names them.
CREATE TABLE secrets (
	id      text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	sealed  bytea  NOT NULL,
	digest  bytea  NOT NULL,
	PRIMARY KEY (id, version)
);

-- One row that Probe rewrites.
CREATE TABLE probe (
	id integer PRIMARY KEY CHECK (id = 1),
	n  bigint  NOT NULL
);
