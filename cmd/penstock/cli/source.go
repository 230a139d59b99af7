package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
)

// source is what reading commands read: a running gateway or the data of a stopped one.
type source interface {
	Logs(ctx context.Context, q requestlog.Query) ([]requestlog.Entry, error)
	Explain(ctx context.Context, id string) (*admin.Story, error)
	Events(ctx context.Context, q events.Query) ([]admin.Event, *admin.Absent, error)
	Bill(ctx context.Context, q billing.Query) ([]billing.Line, error)
	Replay(ctx context.Context, projection string, verify bool) ([]projections.Report, error)
	Until(ctx context.Context, projection string, moment billing.Query) ([]admin.Standing, error)
	admin.Statements
}

// Logs follows the pages until there are as many entries as were asked for.
func (c *client) Logs(ctx context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	var all []requestlog.Entry
	before := ""
	for len(all) < q.Limit {
		var page admin.LogPage
		path := "/api/v1/requests" + query("limit", strconv.Itoa(min(q.Limit-len(all), requestlog.LimitMax)), "before", before,
			"since", stamp(q.Since), "until", stamp(q.Until), "key", q.Key, "outcome", q.Outcome, "model", q.Model, "upstream", q.Upstream)
		if err := c.do(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if before = page.Next; before == "" {
			break
		}
	}
	return all, nil
}

func (c *client) Explain(ctx context.Context, id string) (*admin.Story, error) {
	var story admin.Story
	err := c.do(ctx, http.MethodGet, "/api/v1/requests/"+url.PathEscape(id), nil, &story)
	return &story, err
}

// eventPage is the most rows that the API gives at once.
const eventPage = 1000

// Events follows the pages until q.Limit rows were read.
func (c *client) Events(ctx context.Context, q events.Query) ([]admin.Event, *admin.Absent, error) {
	var all []admin.Event
	var removed *admin.Absent // what the first page says is about all
	after, newest := q.After, ""
	if q.Newest {
		newest = "true"
	}
	for rows := 0; rows < q.Limit; {
		limit := min(q.Limit-rows, eventPage)
		cursor := ""
		if after > 0 {
			cursor = strconv.FormatInt(int64(after), 10)
		}
		var page admin.EventPage
		path := "/api/v1/events" + query("limit", strconv.Itoa(limit), "after", cursor, "newest", newest,
			"since", stamp(q.Since), "until", stamp(q.Until), "type", q.Type, "stream", q.Stream,
			"request", q.Request, "key", q.Key, "upstream", q.Upstream, "text", q.Text)
		if err := c.do(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, nil, err
		}
		if after == q.After {
			removed = page.Removed
		}
		all = append(all, page.Items...)
		if rows += limit; q.Text != "" { // such a page need not be full
			rows += len(page.Items) - limit
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	return all, removed, nil
}

func (c *client) Bill(ctx context.Context, q billing.Query) ([]billing.Line, error) {
	var bill admin.Bill
	err := c.do(ctx, http.MethodGet, "/api/v1/billing"+query("by", strings.Join(q.By, ","),
		"since", stamp(q.Since), "until", stamp(q.Until), "as_of", asOf(q)), nil, &bill)
	return bill.Items, err
}

// asOf is the moment of a bill as the API takes it.
func asOf(q billing.Query) string {
	if q.AsOf > 0 {
		return strconv.FormatInt(int64(q.AsOf), 10)
	}
	return stamp(q.AsOfTime)
}

func (c *client) Replay(ctx context.Context, projection string, verify bool) ([]projections.Report, error) {
	var answer admin.ReplayAnswer
	err := c.do(ctx, http.MethodPost, "/api/v1/replay", admin.ReplayRequest{Projection: projection, Verify: verify}, &answer)
	return answer.Items, err
}

// Replays are those that run in the gateway.
func (c *client) Replays(ctx context.Context) ([]admin.ReplayState, error) {
	var answer admin.ReplayStates
	err := c.do(ctx, http.MethodGet, "/api/v1/replay", nil, &answer)
	return answer.Items, err
}

func (c *client) Until(ctx context.Context, projection string, moment billing.Query) ([]admin.Standing, error) {
	var answer admin.Standings
	err := c.do(ctx, http.MethodGet, "/api/v1/replay/until"+query("projection", projection, "until", asOf(moment)), nil, &answer)
	return answer.Items, err
}

func readHealth(answer *http.Response) (*admin.HealthReport, error) {
	var report admin.HealthReport
	b, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(b, &report)
	}
	if err != nil || report.Status == "" {
		return nil, errors.Newf("what answers at %s is not a penstock", answer.Request.URL.Host)
	}
	return &report, nil
}

// stopped reads the data of a gateway that does not run.
type stopped struct{ data Offline }

func (s stopped) Logs(ctx context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	var all []requestlog.Entry
	for left := q.Limit; left > 0; left = q.Limit - len(all) {
		page := q
		page.Limit = min(left, requestlog.LimitMax)
		found, err := s.data.Requests(ctx, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(found) < page.Limit {
			break
		}
		q.Before = found[len(found)-1].Cursor()
	}
	return all, nil
}

func (s stopped) Explain(ctx context.Context, id string) (*admin.Story, error) {
	return admin.Explain(ctx, s.data, s.data, id)
}

func (s stopped) Events(ctx context.Context, q events.Query) ([]admin.Event, *admin.Absent, error) {
	removed, err := admin.AbsentFrom(ctx, s.data, q)
	if err != nil {
		return nil, nil, err
	}
	all, next, err := admin.FindEvents(ctx, s.data, q)
	for limit := q.Limit; q.Text != "" && next > 0 && err == nil && len(all) < limit; {
		var more []admin.Event
		q.After, q.Limit = next, limit-len(all)
		more, next, err = admin.FindEvents(ctx, s.data, q)
		all = append(all, more...)
	}
	return all, removed, err
}

func (s stopped) Bill(ctx context.Context, q billing.Query) ([]billing.Line, error) {
	return s.data.Bill(ctx, q)
}

func (s stopped) Replay(ctx context.Context, projection string, verify bool) ([]projections.Report, error) {
	return s.data.Replay(ctx, projection, verify)
}

func (s stopped) Until(ctx context.Context, projection string, moment billing.Query) ([]admin.Standing, error) {
	return s.data.Until(ctx, projection, moment)
}
