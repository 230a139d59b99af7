package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock/penstock/events"
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

	projection  string
	begun, last time.Time
	base        events.Position // where it was when it was first heard of
	drawn       bool
}

func (m *meter) show(p projections.Progress) {
	now := m.now()
	if p.Projection != m.projection {
		m.projection, m.begun, m.base, m.last = p.Projection, now, p.Position, time.Time{}
		if !m.terminal {
			m.last = now
		}
	}
	every := meterLine
	if m.terminal {
		every = meterRedraw
	}
	if now.Sub(m.last) < every || now.Sub(m.begun) < m.patience {
		return
	}
	m.last = now
	share, rate, left := 1.0, "", ""
	if p.To > 0 {
		share = float64(p.Position) / float64(p.To)
	}
	if seconds := now.Sub(m.begun).Seconds(); seconds > 0 && p.Position > m.base {
		perSecond := float64(p.Position-m.base) / seconds
		rate = fmt.Sprintf(", %.0f events/s", perSecond)
		left = fmt.Sprintf(", %s left", time.Duration(float64(p.To-p.Position)/perSecond*float64(time.Second)).Round(time.Second))
	}
	text := fmt.Sprintf("%s: %d of %d events%s%s", p.Projection, p.Position, p.To, rate, left)
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
