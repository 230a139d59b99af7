package admin

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/events"
)

// Figures of the live feed.
const (
	liveReadersMax  = 64               // streams at once
	liveWindow      = 64               // messages on their way to one reader
	liveKeepAlive   = 15 * time.Second // between comments, so that proxies keep a quiet stream open
	liveWriteMax    = 10 * time.Second // a reader that takes nothing for so long is dropped
	liveRetryMillis = 1000             // what EventSource waits before it connects again
)

// liveFeed is what the streams of a server share.
type liveFeed struct {
	feed      events.Feed
	readers   atomic.Int32
	closing   chan struct{}
	closeOnce sync.Once
	keepAlive time.Duration
}

func (l *liveFeed) init(s *http.Server) {
	l.closing, l.keepAlive = make(chan struct{}), liveKeepAlive
	s.RegisterOnShutdown(func() { l.closeOnce.Do(func() { close(l.closing) }) })
}

type liveInput struct {
	Type        []string  `query:"type" doc:"names of events, or globs such as request.*; several with commas"`
	Stream      string    `query:"stream"`
	Request     string    `query:"request"`
	Key         string    `query:"key"`
	Upstream    string    `query:"upstream"`
	Since       time.Time `query:"since" doc:"begin with the first event from this time on, instead of with the next one"`
	After       int64     `query:"after" minimum:"0" doc:"begin behind this position"`
	LastEventID string    `header:"Last-Event-ID" doc:"go on behind this position; wins over since and after"`
}

func (s *Server) liveFeedRoutes(feed events.Feed) {
	if feed == nil {
		return
	}
	s.live.feed = feed
	huma.Register(s.api, huma.Operation{
		OperationID: "liveFeed", Method: http.MethodGet, Path: "/api/v1/live", Tags: []string{"requests"},
		Summary: "Facts as they are stored, as server-sent events: id is the position, event the type, data a line of events",
		Description: "An event " + events.TypeRemoved + " stands for facts of requests that retention has taken away: its data says from which position " +
			"to which, and which is the next one that is still there.",
		Errors: []int{401, 422, 503},
		Responses: map[string]*huma.Response{"200": {Description: "OK",
			Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}}},
	}, s.liveStream)
}

func (s *Server) liveStream(ctx context.Context, in *liveInput) (*huma.StreamResponse, error) {
	o := events.FeedOptions{Window: liveWindow, Filter: events.FeedFilter{
		Types: in.Type, Stream: in.Stream, Request: in.Request, Key: in.Key, Upstream: in.Upstream,
	}}
	if err := o.Filter.CheckTypes(); err != nil {
		return nil, invalid("query.type", strings.TrimPrefix(err.Error(), events.ErrFeed.Error()+": type: "))
	}
	var err error
	if o.From, err = s.liveFrom(ctx, in); err != nil {
		return nil, err
	}
	if s.live.readers.Add(1) > liveReadersMax {
		s.live.readers.Add(-1)
		return nil, s.problem(ctx, at("path"), errors.Wrapf(ErrUnavailable, "there are %d readers of the live feed already", liveReadersMax))
	}
	sub, err := s.live.feed.Subscriber(o)
	if err != nil {
		s.live.readers.Add(-1)
		return nil, s.problem(ctx, at("query"), err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer s.live.readers.Add(-1)
		defer sub.Close()
		out, err := sub.Subscribe(hc.Context(), events.Topic)
		if err != nil {
			hc.SetStatus(http.StatusServiceUnavailable)
			return
		}
		for name, value := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", // pain 60
		} {
			hc.SetHeader(name, value)
		}
		hc.SetStatus(http.StatusOK)
		w := hc.BodyWriter().(http.ResponseWriter)
		r := liveReader{w: w, control: http.NewResponseController(w), feed: &s.live, out: out, done: hc.Context().Done()}
		r.run(o.From)
	}}, nil
}

// liveFrom is the position behind which a stream begins.
func (s *Server) liveFrom(ctx context.Context, in *liveInput) (events.Position, error) {
	if in.LastEventID != "" {
		n, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil || n < 0 {
			return 0, invalid("header.Last-Event-ID", "is no position")
		}
		return events.Position(n), nil
	}
	if in.After > 0 {
		return events.Position(in.After), nil
	}
	if in.Since.IsZero() {
		from, err := s.live.feed.Head(ctx)
		return from, s.problem(ctx, at("query"), err)
	}
	from, err := s.live.feed.Since(ctx, in.Since)
	return from, s.problem(ctx, at("query.since"), err)
}

// liveReader is one stream. It writes what the feed gives it, and is dropped when it does not take it: the feed itself
// waits for nobody.
type liveReader struct {
	w       io.Writer
	control *http.ResponseController
	feed    *liveFeed
	out     <-chan *message.Message
	done    <-chan struct{}
}

func (r *liveReader) run(from events.Position) {
	// An event without data only tells the reader where it is, so that it loses nothing if it is cut off right away.
	hello := "retry: " + strconv.Itoa(liveRetryMillis) + "\nid: " + strconv.FormatInt(int64(from), 10) + "\n\n"
	if !r.write([]byte(hello)) {
		return
	}
	tick := time.NewTicker(r.feed.keepAlive)
	defer tick.Stop()
	defer func() { _ = r.control.SetWriteDeadline(time.Time{}) }() // the connection may serve others
	for {
		var ok bool
		select {
		case m, open := <-r.out:
			ok = open && r.messages(m)
			tick.Reset(r.feed.keepAlive)
		case <-tick.C:
			ok = r.write([]byte(": keep-alive\n\n"))
		case <-r.done:
		case <-r.feed.closing:
		}
		if !ok {
			return
		}
	}
}

// messages writes a message and what is there behind it in one go.
func (r *liveReader) messages(m *message.Message) bool {
	var b []byte
	for n := 0; ; n++ {
		line, err := events.Line(m)
		if err != nil {
			return false // the feed makes no such message
		}
		b = append(append(b, "id: "...), m.Metadata.Get(events.MetaPosition)...)
		b = append(append(b, "\nevent: "...), m.Metadata.Get(events.MetaType)...)
		b = append(append(append(b, "\ndata: "...), line...), "\n\n"...)
		m.Ack() // there is no checkpoint: the reader knows where it is
		if n+1 == liveWindow {
			return r.write(b)
		}
		select {
		case next, open := <-r.out:
			if !open {
				return r.write(b) && false
			}
			m = next
		default:
			return r.write(b)
		}
	}
}

func (r *liveReader) write(b []byte) bool {
	_ = r.control.SetWriteDeadline(time.Now().Add(liveWriteMax)) // a recorder of a test has none
	if _, err := r.w.Write(b); err != nil {
		return false
	}
	return r.control.Flush() == nil
}
