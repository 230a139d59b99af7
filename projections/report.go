package projections

import "github.com/penstock/penstock/events"

// Report says what a replay of one projection found or did. Equal is true when no row differs.
type Report struct {
	Projection      string   `json:"projection"`
	Events          int64    `json:"events"` // facts that were folded
	Rows            int64    `json:"rows"`   // in the rebuilt tables
	DifferingRows   int64    `json:"differing_rows"`
	Equal           bool     `json:"equal"`
	Seconds         float64  `json:"seconds"`
	EventsPerSecond int64    `json:"events_per_second"`
	Undecodable     int64    `json:"undecodable_rows,omitempty"` // of the events; they were passed over, here as in the living rows
	Differences     []string `json:"differences,omitempty"`      // the first DifferencesMax, one line each

	// ResumedFrom is the position up to which an earlier, interrupted rebuild had come; its events are not counted again.
	ResumedFrom events.Position `json:"resumed_from,omitempty"`
}

// DifferencesMax bounds how many differing rows a Report spells out; the rest is counted.
const DifferencesMax = 20
