package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/events"
)

// Figures of following. A server that says nothing for followSilence, not even that it is there, is taken for gone.
const (
	followSilence  = 45 * time.Second
	followRetryMin = 250 * time.Millisecond
	followRetryMax = 10 * time.Second
	followLineMax  = 64 << 20 // bytes of one event
)

// followRefused are flags of events that make no sense while it waits for more.
var followRefused = []string{"until", "newest", "text"}

// follow shows facts as they are stored, until it is interrupted or, with --limit, has shown so many. It connects
// again where it was when the gateway is gone for a while.
func (p *Program) follow(cmd *cobra.Command) error {
	for _, name := range followRefused {
		if cmd.Flags().Changed(name) {
			return usagef("--%s: can not be combined with --follow", name)
		}
	}
	since, _, err := p.span(cmd)
	if err != nil {
		return err
	}
	left := -1
	if cmd.Flags().Changed("limit") {
		if left, err = limit(cmd); err != nil {
			return err
		}
	}
	filter := events.FeedFilter{Stream: flag(cmd, "stream"), Request: flag(cmd, "request"), Key: flag(cmd, "key"), Upstream: flag(cmd, "upstream")}
	if types := flag(cmd, "type"); types != "" {
		filter.Types = strings.Split(types, ",")
	}
	if err := filter.CheckTypes(); err != nil {
		return usagef("--type: %s; there are %s", strings.TrimPrefix(err.Error(), events.ErrFeed.Error()+": type: "), strings.Join(events.Names(), ", "))
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	after, _ := cmd.Flags().GetInt64("after")
	f := follower{client: c, since: since, filter: filter, silence: followSilence, notify: func(err error) {
		fmt.Fprintln(p.Stderr, "penstock: "+err.Error()+"; trying again")
	}}
	if after > 0 {
		f.last = strconv.FormatInt(after, 10)
	}
	asJSON := on(cmd, "json")
	out := p.eventWriter(asJSON)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return f.run(ctx, func(kind string, line []byte) (more bool, err error) {
		if kind == events.TypeRemoved {
			p.missed(line)
			if asJSON { // what reads it is told in its place
				err = out(line)
			}
			return true, err
		}
		left--
		return left != 0, out(line)
	})
}

// missed says that events which were asked for are not there any more.
func (p *Program) missed(line []byte) {
	var e struct{ Data events.Gap }
	if json.Unmarshal(line, &e) == nil {
		fmt.Fprintf(p.Stderr, "penstock: of the events %d to %d those of requests are not there any more: retention has removed them; the next one is %d\n",
			e.Data.First, e.Data.Last, e.Data.Next)
	}
}

// eventWriter writes one event as soon as it comes: as JSON, or in columns that can not wait to be aligned.
func (p *Program) eventWriter(asJSON bool) func(line []byte) error {
	if asJSON {
		return func(line []byte) error {
			_, err := p.Stdout.Write(append(line, '\n'))
			return errors.Wrap(err, "write output")
		}
	}
	return func(line []byte) error {
		var e admin.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return errors.Wrap(err, "read event")
		}
		_, err := fmt.Fprintf(p.Stdout, "%-8d  %s  %-20s  %s  %s\n", e.Position, clock(e.At), plain(e.Type), plain(e.Stream), plain(string(e.Data)))
		return errors.Wrap(err, "write output")
	}
}

// follower reads the live feed of a gateway and remembers where it is.
type follower struct {
	client  *client
	since   time.Time
	filter  events.FeedFilter
	silence time.Duration
	notify  func(error) // of a connection that was lost

	last string // the position behind which to go on; "" before the server has told
}

// errFollowed ends a follower that has enough.
var errFollowed = errors.New("enough")

// run yields events, their types beside them, until the context ends or yield has enough. The first connection must succeed; later ones are
// tried for as long as it takes.
func (f *follower) run(ctx context.Context, yield func(kind string, line []byte) (more bool, err error)) error {
	wait := followRetryMin
	for connected := false; ; {
		err := f.read(ctx, func() { connected, wait = true, followRetryMin }, yield)
		var failed *yieldError
		var refused *problem
		switch {
		case ctx.Err() != nil, errors.Is(err, errFollowed):
			return nil
		case errors.As(err, &failed):
			return failed.error
		case !connected, errors.As(err, &refused) && refused.Status < 500:
			return err
		}
		if wait == followRetryMin {
			f.notify(err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		wait = min(2*wait, followRetryMax)
	}
}

// yieldError is an error of whom the events are for, not of the connection.
type yieldError struct{ error }

// read reads one connection to its end, which is always an error.
func (f *follower) read(ctx context.Context, connected func(), yield func(string, []byte) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(f.silence, cancel)
	defer watchdog.Stop()
	body, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	connected()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), followLineMax)
	var id, kind, data string
	for lines.Scan() {
		watchdog.Reset(f.silence)
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			id = value
		case name == "event":
			kind = value
		case name == "data":
			data = value
		case lines.Text() == "" && (id != "" || data != ""):
			if data != "" {
				more, err := yield(kind, []byte(data))
				if err != nil {
					return &yieldError{err}
				}
				if !more {
					return errFollowed
				}
			}
			if id != "" {
				f.last = id
			}
			id, kind, data = "", "", ""
		}
	}
	return errors.Newf("%s: the connection is lost", f.client.base)
}

// open asks for the live feed.
func (f *follower) open(ctx context.Context) (io.ReadCloser, error) {
	since := ""
	if f.last == "" {
		since = stamp(f.since)
	}
	path := "/api/v1/live" + query("type", strings.Join(f.filter.Types, ","), "stream", f.filter.Stream, "request", f.filter.Request,
		"key", f.filter.Key, "upstream", f.filter.Upstream, "since", since)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.client.base+path, nil)
	if err != nil {
		return nil, usage(errors.Wrap(err, "server"))
	}
	r.Header.Set("Authorization", "Bearer "+f.client.token.Reveal())
	r.Header.Set("Accept", "text/event-stream")
	if f.last != "" {
		r.Header.Set("Last-Event-ID", f.last)
	}
	answer, err := f.client.http.Do(r)
	if err != nil {
		return nil, &unreachableError{f.client.base, err}
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, errors.Wrapf(err, "read answer of %s", f.client.base)
	}
	return nil, f.client.refusal(answer, b)
}
