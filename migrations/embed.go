// Package migrations holds the SQL that builds and changes the databases, one folder per database: numbered files
// ("0001_events.sql"), applied in order, never edited once released.
package migrations

import "embed"

// FS holds the folders: sqlite and postgres are the event store.
//
//go:embed sqlite postgres
var FS embed.FS
