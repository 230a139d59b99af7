package sqlite

import (
	"bytes"
	"context"
	"time"

	"github.com/penstock/penstock/events"
)

var _ events.Scanner = (*Store)(nil)

// scanPage bounds the rows of a page of Scan, as pageRows those of others.
var scanPage = 2048

// Scan implements events.Scanner. As with After, no snapshot is held between two pages.
func (s *Store) Scan(ctx context.Context, after events.Position, need func(string) bool, yield func([]events.Stored) bool) error {
	for head := events.Position(0); ; {
		page := make([]events.Stored, 0, scanPage+256) // the last page brings some more
		err := s.readFrom(ctx, after, &head, func(c *conn) error {
			n := needed{need: need, texts: interned{}, wanted: map[string]bool{}}
			return eachRow(c, after, head, func(r *row) { page = append(page, n.stored(r)) }, func() bool { return len(page) < scanPage })
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].End()
		if !yield(page) {
			return nil
		}
	}
}

// needed copies rows without what Scan leaves out.
type needed struct {
	need   func(types string) bool
	texts  interned
	wanted map[string]bool // by types
}

func (n *needed) stored(r *row) (s events.Stored) {
	s.Position, s.N, s.Version = events.Position(r.position), r.n, r.version
	s.Stream = string(r.stream)
	s.At = time.UnixMicro(r.at).UTC()
	s.Types, s.Node = n.texts.of(r.types), n.texts.of(r.node)
	want, asked := n.wanted[s.Types]
	if !asked {
		want = n.need(s.Types)
		n.wanted[s.Types] = want
	}
	if want {
		s.Payload = bytes.Clone(r.payload)
	}
	return s
}
