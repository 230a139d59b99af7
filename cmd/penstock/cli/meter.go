package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock/penstock/projections"
)

// How often a meter shows something: to a person, and to a log.
const (
	meterRedraw = 100 * time.Millisecond
	meterLine   = 10 * time.Second
	meterWidth  = 30

	meterPatience = time.Second // of what a person has not asked for, before it is shown
)

// meter shows how far a replay is: a bar that is drawn again on a terminal, lines elsewhere.
type meter struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	patience time.Duration // nothing is shown before

	seen  projections.Running // since it was first heard of: that is where it is taken to have begun
	last  time.Time
	drawn bool
}

func (m *meter) show(p projections.Progress) {
	now := m.now()
	if p.Projection != m.seen.Projection {
		m.seen = projections.Running{Progress: projections.Progress{Projection: p.Projection, From: p.Position}, Begun: now}
		first := cmp.Or(m.last, now) // rare lines stay rare, and come, whatever follows on what
		m.last = time.Time{}
		if !m.terminal {
			m.last = first
		}
	}
	m.seen.Position, m.seen.To = p.Position, p.To
	every := meterLine
	if m.terminal {
		every = meterRedraw
	}
	if now.Sub(m.last) < every || now.Sub(m.seen.Begun) < m.patience {
		return
	}
	m.last = now
	share, pace := 1.0, ""
	name, unit := p.Projection, cmp.Or(p.Unit, "events")
	if p.Part != "" {
		name += " (" + p.Part + ")"
	}
	if p.To > 0 {
		share = float64(p.Position) / float64(p.To)
	}
	if perSecond := m.seen.PerSecond(now); perSecond > 0 {
		pace = fmt.Sprintf(", %.0f %s/s, %s left", perSecond, unit, m.seen.Left(now).Round(time.Second))
	}
	text := fmt.Sprintf("%s: %d of %d %s%s", name, p.Position, p.To, unit, pace)
	if !m.terminal {
		fmt.Fprintln(m.out, text)
		return
	}
	full := min(meterWidth, int(share*meterWidth))
	fmt.Fprintf(m.out, "\r\x1b[K[%s%s] %3.0f%% %s", strings.Repeat("=", full), strings.Repeat(" ", meterWidth-full), 100*share, text)
	m.drawn = true
}

// end takes the bar away.
func (m *meter) end() {
	if m.drawn {
		m.drawn = false
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}
