package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// studio is an admin API over a real store and its feed.
type studio struct {
	t       *testing.T
	store   *sqlite.Store
	journal *events.Journal
	srv     *Server
	http    *httptest.Server // from the first call on
}

const livePatience = time.Minute

func newStudio(t *testing.T) *studio {
	t.Helper()
	store, err := sqlite.OpenStore(filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	var bell events.Bell
	s := &studio{t: t, store: store}
	s.journal = events.NewJournal(events.JournalOptions{Store: store, Push: func([]*events.Committed) { bell.Ring() }})
	s.srv, err = New(Config{Token: token, Logger: slog.New(slog.DiscardHandler), Feed: store.Feed(&bell, nil), Ports: Ports{Events: store}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.srv.Close(context.Background()))
		require.NoError(t, s.journal.Close(context.Background()))
		require.NoError(t, store.Close())
		require.Zero(t, s.srv.live.readers.Load())
	})
	return s
}

// put commits a row of n facts about an upstream.
func (s *studio) put(upstream string, at time.Time, n int) {
	s.t.Helper()
	row := events.Row{Stream: "upstream/" + upstream, Version: events.AnyVersion, At: at, Node: "n", Upstream: upstream}
	for i := range n {
		row.Facts = append(row.Facts, &request.Resumed{Upstream: upstream, WaitedUS: int64(i)})
	}
	require.NoError(s.t, s.journal.Commit(events.Append{Rows: []events.Row{row}}, events.Must))
}

var firstHour = time.Date(2026, 3, 1, 1, 0, 0, 123000000, time.UTC)

// stream is an open connection to the live feed.
type stream struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
}

type frame struct{ id, event, data, comment string }

func (s *studio) live(query, lastID string) *stream {
	s.t.Helper()
	if s.http == nil {
		s.http = httptest.NewUnstartedServer(nil)
		s.http.Config = s.srv.http
		s.http.Start()
	}
	r, err := http.NewRequest(http.MethodGet, s.http.URL+"/api/v1/live"+query, nil)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { answer.Body.Close() })
	return &stream{s.t, answer, bufio.NewScanner(answer.Body)}
}

// next is the next frame of the stream; ok is false at its end.
func (s *stream) next() (f frame, ok bool) {
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "":
			if s.lines.Text() == "" {
				return f, true
			}
			f.comment = value
		case "id":
			f.id = value
		case "event":
			f.event = value
		case "data":
			f.data = value
		}
	}
	return f, false
}

// ids are those of the next n frames.
func (s *stream) ids(n int) (list []string) {
	s.t.Helper()
	for range n {
		f, ok := s.next()
		require.True(s.t, ok, "the stream has ended")
		list = append(list, f.id)
	}
	return list
}

func TestTheLiveFeedSendsFactsAsTheyAreStored(t *testing.T) {
	s := newStudio(t)
	s.put("a", firstHour, 2)
	live := s.live("", "")
	require.Equal(t, http.StatusOK, live.answer.StatusCode)
	require.Equal(t, "text/event-stream", live.answer.Header.Get("Content-Type"))
	require.Equal(t, "no", live.answer.Header.Get("X-Accel-Buffering"), "pain 60: no proxy may hold it back")
	require.Equal(t, []string{"2"}, live.ids(1), "the reader learns where it is before anything happens")
	s.put("a", firstHour, 2)
	for i := range 2 {
		f, ok := live.next()
		require.True(t, ok)
		require.Equal(t, fmt.Sprint(3+i), f.id)
		require.Equal(t, "request.resumed", f.event)
		var line Event
		require.NoError(t, json.Unmarshal([]byte(f.data), &line))
		require.EqualValues(t, 3+i, line.Position)
		same, err := json.Marshal(line)
		require.NoError(t, err)
		require.Equal(t, string(same), f.data, "data is a line of events")
	}
}

func TestAReaderOfTheLiveFeedThatWasCutOffLosesNothing(t *testing.T) {
	s := newStudio(t)
	s.put("a", firstHour, 3)
	live := s.live("", "")
	at := live.ids(1)[0]
	live.answer.Body.Close()
	s.put("a", firstHour, 2)
	live = s.live("", at)
	require.Equal(t, []string{"3", "4", "5"}, live.ids(3))
	live.answer.Body.Close()
	s.put("a", firstHour, 1)
	require.Equal(t, []string{"5", "6"}, s.live("?after=1", "5").ids(2), "Last-Event-ID wins")
}

func TestTheLiveFeedBeginsAndFiltersAsAsked(t *testing.T) {
	s := newStudio(t)
	s.put("a", firstHour, 2)
	s.put("b", firstHour.Add(time.Hour), 2)
	s.put("a", firstHour.Add(2*time.Hour), 1)
	for query, want := range map[string][]string{
		"?after=3":                               {"3", "4", "5"},
		"?since=2026-03-01T02:00:00Z":            {"2", "3", "4", "5"},
		"?since=2026-03-01T09:00:00Z":            {"5"},
		"?since=2026-03-01T00:00:00Z&upstream=a": {"0", "1", "2", "5"},
		"?since=2026-03-01T00:00:00Z&stream=upstream/b&type=x.y,request.*": nil,
		"?after=1&stream=upstream/b&type=request.*":                        {"1", "3", "4"},
		"?after=1&upstream=b&type=request.settled":                         {"1"},
	} {
		live := s.live(query, "")
		if want == nil {
			require.Equal(t, 422, live.answer.StatusCode, query)
			continue
		}
		require.Equal(t, want, live.ids(len(want)), query)
	}
	for query, lastID := range map[string]string{"?type=request.setled": "", "?after=-1": "", "?colour=red": "", "": "x"} {
		require.Equal(t, 422, s.live(query, lastID).answer.StatusCode, query)
	}
}

func TestAQuietLiveFeedIsKeptOpen(t *testing.T) {
	s := newStudio(t)
	s.srv.live.keepAlive = time.Millisecond
	live := s.live("", "")
	live.ids(1)
	for range 3 {
		f, ok := live.next()
		require.True(t, ok)
		require.Equal(t, frame{comment: "keep-alive"}, f)
	}
}

// The slow one reads no more; the other one must get everything, and the slow one must be gone in the end.
func TestASlowReaderOfTheLiveFeedIsDroppedAndHoldsUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStudio(t)
		reader := func() *stream {
			r, conn := connected(t, s.srv)
			_, err := fmt.Fprintf(conn, "GET /api/v1/live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
			require.NoError(t, err)
			answer, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			return &stream{t, answer, bufio.NewScanner(answer.Body)}
		}
		slow, good := reader(), reader()
		require.Equal(t, []string{"0"}, slow.ids(1))
		require.Equal(t, []string{"0"}, good.ids(1))
		require.EqualValues(t, 2, s.srv.live.readers.Load())
		var writer sync.WaitGroup
		writer.Go(func() {
			for range 200 {
				s.put("a", firstHour, 1)
			}
		})
		require.Len(t, good.ids(200), 200)
		writer.Wait()
		time.Sleep(liveWriteMax)
		synctest.Wait()
		require.EqualValues(t, 1, s.srv.live.readers.Load())
		s.put("a", firstHour, 1)
		require.Equal(t, []string{"201"}, good.ids(1))
	})
}

func TestThereAreNotMoreReadersOfTheLiveFeedThanFit(t *testing.T) {
	s := newStudio(t)
	s.srv.live.readers.Store(liveReadersMax)
	live := s.live("", "")
	require.Equal(t, http.StatusServiceUnavailable, live.answer.StatusCode)
	require.EqualValues(t, liveReadersMax, s.srv.live.readers.Load())
	s.srv.live.readers.Store(0)
}

func TestClosingTheServerEndsItsStreams(t *testing.T) {
	s := newStudio(t)
	live := s.live("", "")
	live.ids(1)
	ctx, cancel := context.WithTimeout(context.Background(), livePatience)
	defer cancel()
	require.NoError(t, s.srv.Close(ctx))
	_, ok := live.next()
	require.False(t, ok)
}
