package demo

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
)

// report tells what happened from what the gateway itself shows: its log, its bill, and a replay of its events.
func (s *stage) report(ctx context.Context, requests int, took time.Duration) error {
	log, err := s.log(ctx)
	if err != nil {
		return err
	}
	s.outcomes(log, requests, took)
	s.example(log)
	total, err := s.bill(ctx)
	if err != nil {
		return err
	}
	return s.verify(ctx, total)
}

// log reads all entries, page by page.
func (s *stage) log(ctx context.Context) ([]requestlog.Entry, error) {
	var all []requestlog.Entry
	for before := ""; ; {
		var page struct {
			Items []requestlog.Entry
			Next  string
		}
		if err := s.admin(ctx, "GET", "/api/v1/requests?limit=1000&before="+url.QueryEscape(before), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if before = page.Next; before == "" {
			return all, nil
		}
	}
}

func (s *stage) outcomes(log []requestlog.Entry, requests int, took time.Duration) {
	var straight, waited, retried, attempts int
	var longest int64
	refused := map[string]int{}
	failed := map[string]int{}
	for i := range log {
		e := &log[i]
		attempts += len(e.Attempts)
		if e.Queue != nil {
			waited++
			if w := e.Queue.WaitedMS; w != nil {
				longest = max(longest, *w)
			}
		}
		if len(e.Attempts) > 1 {
			retried++
			for _, a := range e.Attempts[:len(e.Attempts)-1] {
				failed[a.Class]++
			}
		}
		switch {
		case e.Outcome == "completed" && e.Queue == nil && len(e.Attempts) == 1:
			straight++
		case e.Outcome != "completed" && e.Reason != "":
			refused[e.Code+" ("+e.Reason+")"]++
		case e.Outcome != "completed":
			refused[e.Code]++
		}
	}
	fmt.Fprintf(s.out, "\n%d requests in %s; the upstreams were called %d times.\n\n", requests, short(took), attempts)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "  %d\t\b  answered at once by the first upstream\n", straight)
	fmt.Fprintf(w, "  %d\t\b  waited for a slot of small, the longest for %s\n", waited, short(time.Duration(longest)*time.Millisecond))
	fmt.Fprintf(w, "  %d\t\b  failed over before the first byte%s\n", retried, list(failed))
	for _, code := range sorted(refused) {
		fmt.Fprintf(w, "  %d\t\b  refused: %s\n", refused[code], code)
	}
	w.Flush()
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func list(counts map[string]int) string {
	text := ""
	for _, name := range sorted(counts) {
		text += fmt.Sprintf(", %d× %s", counts[name], name)
	}
	return text
}

func sorted(counts map[string]int) []string {
	names := make([]string, 0, len(counts))
	for n := range counts {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// example shows one request that failed over, as `penstock explain` would.
func (s *stage) example(log []requestlog.Entry) {
	for i := range log {
		e := &log[i]
		if len(e.Attempts) < 2 || e.Outcome != "completed" || e.Attempts[0].Upstream == e.Upstream {
			continue
		}
		fmt.Fprintf(s.out, "\nOne of them, request %s:\n", e.RequestID)
		for _, a := range e.Attempts {
			class := a.Class
			if class == "" || class == "ok" {
				class = fmt.Sprintf("answered, %d input and %d output tokens, $%s", a.Usage.InputTotal(), a.Usage.Output, a.Cost)
			}
			fmt.Fprintf(s.out, "  attempt %d  %-7s %s\n", a.N, a.Upstream, class)
		}
		return
	}
}

// bill prints the bill and returns its total and the number of requests on it.
func (s *stage) bill(ctx context.Context) (billing.Line, error) {
	var page struct{ Items []billing.Line }
	if err := s.admin(ctx, "GET", "/api/v1/billing?by=key,model", nil, &page); err != nil {
		return billing.Line{}, err
	}
	fmt.Fprint(s.out, "\nThe bill, by key and model:\n\n")
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  KEY\tMODEL\tREQUESTS\tINPUT\tCACHED\tOUTPUT\tUSD")
	var total billing.Line
	for _, l := range page.Items {
		fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%d\t%d\t%s\n", value(l.Key), value(l.Model), l.Requests, l.Usage.Input, l.Usage.CachedInput, l.Usage.Output, l.Cost)
		total.Requests += l.Requests
		total.Cost += l.Cost
	}
	fmt.Fprintf(w, "  total\t\t%d\t\t\t\t%s\n\n", total.Requests, total.Cost)
	return total, w.Flush()
}

// verify folds all events again and compares the result with what the gateway kept while it ran.
func (s *stage) verify(ctx context.Context, total billing.Line) error {
	var answer struct{ Items []projections.Report }
	if err := s.admin(ctx, "POST", "/api/v1/replay", map[string]any{"verify": true}, &answer); err != nil {
		return err
	}
	if len(answer.Items) == 0 {
		return errors.New("nothing was replayed")
	}
	for _, r := range answer.Items {
		if !r.Equal {
			return errors.Newf("replayed %s differs from the live one in %d rows: %v", r.Projection, r.DifferingRows, r.Differences)
		}
	}
	fmt.Fprintf(s.out, "bill verified: live = replayed (%d requests, $%s)\n", total.Requests, total.Cost)
	return nil
}
