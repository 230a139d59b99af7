package events_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

func TestABellWakesThoseWhoListenAndNobodyElse(t *testing.T) {
	var b events.Bell
	b.Ring()
	one, stopOne := b.Listen()
	two, stopTwo := b.Listen()
	b.Ring()
	b.Ring()
	<-one
	<-two
	require.Empty(t, one, "several rings are one")
	stopOne()
	b.Ring()
	<-two
	require.Empty(t, one)
	stopTwo()
	stopTwo()
	b.Ring()
	require.Empty(t, two)
}

func TestARowWhosePayloadAndTypesDisagreeGivesNoMessages(t *testing.T) {
	for _, payload := range []string{``, `[]`, `[{}]`, `[{},{},{}]`, `[{},1]`, `{}`} {
		c := events.Committed{Position: 7, Row: events.Row{Stream: "s", Types: "a.b c.d@2", Payload: []byte(payload)}}
		_, err := events.Messages(&c)
		var broken *events.DecodeError
		require.ErrorAs(t, err, &broken, payload)
		require.Equal(t, []events.Position{7, 8}, []events.Position{broken.Position, broken.Last})
	}
}

func TestALineQuotesWhatStreamsAndNodesHold(t *testing.T) {
	m := message.NewMessage("", []byte(`{}`))
	m.Metadata = message.Metadata{events.MetaStream: "a\"\n\u2028</b>", events.MetaNode: "ü", events.MetaAt: "2026-01-02T03:04:05Z"}
	line, err := events.Line(m)
	require.NoError(t, err)
	var read map[string]any
	require.NoError(t, json.Unmarshal(line, &read))
	require.Equal(t, m.Metadata[events.MetaStream], read["stream"])
	require.NotContains(t, string(line), "\n")
	m.Metadata[events.MetaAt] = "yesterday"
	_, err = events.Line(m)
	require.Error(t, err)
}

func TestAFilterThatCanMatchNothingIsRefused(t *testing.T) {
	for types, ok := range map[string]bool{"request.settled": true, "request.*": true, "*": true, "alert.x": true, "alert.*": true,
		"request.setled": false, "": false, "alarm.*": false} {
		f := events.FeedFilter{Types: []string{types}}
		if err := f.CheckTypes("alert.x"); ok {
			require.NoError(t, err, types)
		} else {
			require.ErrorIs(t, err, events.ErrFeed, types)
		}
	}
}

// What a commit pays for the feed: with nobody there, one load.
func BenchmarkBell(b *testing.B) {
	var bell events.Bell
	b.Run("nobody", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bell.Ring()
		}
	})
	for range 3 {
		_, stop := bell.Listen()
		defer stop()
	}
	b.Run("three that are busy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bell.Ring()
		}
	})
}

// One commit through the journal, with and without the feed behind its Push.
func BenchmarkPush(b *testing.B) {
	var bell events.Bell
	for name, push := range map[string]func([]*events.Committed){
		"without a feed": func([]*events.Committed) {},
		"nobody":         func([]*events.Committed) { bell.Ring() },
	} {
		b.Run(name, func(b *testing.B) {
			j := events.NewJournal(events.JournalOptions{Store: memory.NewStore(), Push: push})
			defer j.Close(context.Background())
			b.ReportAllocs()
			for b.Loop() {
				a := events.Append{Rows: []events.Row{{Stream: "upstream/a", Version: events.AnyVersion, At: time.Unix(1, 0),
					Facts: []events.Fact{&request.Resumed{Upstream: "a"}}}}}
				if err := j.Commit(a, events.Must); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
