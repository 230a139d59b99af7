-- That a request ends once is seen to by the writer, which holds the file's one lock while it appends: of streams that it has
-- begun it knows whether they have ended, the others it looks up by events_stream. An index that says so, too, costs a fifth
-- of an append.
DROP INDEX IF EXISTS events_terminal;
