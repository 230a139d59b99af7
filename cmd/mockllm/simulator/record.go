package simulator

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// RequestRecord says what became of one request id ("[rid:ID]" in the body) over all its attempts.
type RequestRecord struct {
	Attempts  int               `json:"attempts"`
	Completed int               `json:"completed"` // whole answers with status 200
	Aborted   int               `json:"aborted"`   // the client went away
	Faulted   int               `json:"faulted"`   // injected faults, error statuses included
	Chunks    int               `json:"chunks"`    // content chunks sent
	Key       string            `json:"last_key"`
	Keys      []string          `json:"keys"`      // credentials tried, in order (the first 64)
	FirstSeq  uint64            `json:"first_seq"` // number of the first attempt among all arrivals, from 1
	LastBody  int               `json:"last_body"` // bytes of the last attempt's body
	Headers   map[string]string `json:"headers"`   // of the last attempt, lower-cased names; repeated ones joined by ", "
}

// LastRequest is the request that arrived last. Body is cut at 1 MiB.
type LastRequest struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Cut     bool              `json:"body_cut,omitempty"`
}

// Bounds on what is kept; the oldest records go first.
const (
	recordsMax     = 100_000
	recordBytesMax = 64 << 20
	keysMax        = 64
	idMax          = 80
	lastBodyMax    = 1 << 20
)

// record is a RequestRecord being written; head is the raw header block of the last attempt.
type record struct {
	RequestRecord
	id   string
	head []byte
}

func (r *record) size() int { return 256 + len(r.id) + cap(r.head) }

// diary keeps the records and the last request. Its methods may be called from any goroutine.
type diary struct {
	mu        sync.Mutex
	m         map[string]*record
	order     []*record // by first arrival; order[:gone] are dropped
	gone      int
	bytes     int
	forgotten int64
	calls     []*Call // the last ones, at most twice callsMax
	last      LastRequest
	lastHead  []byte
	seen      bool
}

// arrive notes request n. It returns nil for a request without an id.
func (d *diary) arrive(n uint64, c *conn) *record {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = true
	d.last = LastRequest{Method: c.method, Path: c.path, Body: string(c.body[:min(len(c.body), lastBodyMax)]), Cut: len(c.body) > lastBodyMax}
	d.lastHead = append(d.lastHead[:0], c.headBuf...)
	id := requestID(c.body)
	if id == nil {
		return nil
	}
	r := d.m[string(id)]
	if r == nil {
		r = &record{id: string(id), RequestRecord: RequestRecord{FirstSeq: n}}
		if d.m == nil {
			d.m = map[string]*record{}
		}
		d.m[r.id] = r
		d.order = append(d.order, r)
		d.bytes += r.size()
	}
	d.bytes -= r.size()
	r.head = append(r.head[:0], c.headBuf...)
	d.bytes += r.size()
	r.Attempts++
	r.Key, r.LastBody = c.key, len(c.body)
	if len(r.Keys) < keysMax {
		r.Keys = append(r.Keys, c.key)
	}
	d.trim(r)
	return r
}

// trim drops the oldest records while a bound is passed, but never keep.
func (d *diary) trim(keep *record) {
	for (len(d.m) > recordsMax || d.bytes > recordBytesMax) && d.order[d.gone] != keep {
		r := d.order[d.gone]
		d.order[d.gone] = nil
		d.gone++
		d.bytes -= r.size()
		delete(d.m, r.id)
		d.forgotten++
	}
	if d.gone > len(d.order)/2 {
		d.order = slices.Delete(d.order, 0, d.gone)
		d.gone = 0
	}
}

// leave notes how an attempt ended.
func (d *diary) leave(r *record, o outcome, status, chunks int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Chunks += chunks
	switch {
	case o == aborted:
		r.Aborted++
	case o == faulted || status != 200:
		r.Faulted++
	default:
		r.Completed++
	}
}

// amend turns a completed attempt into an aborted one: its last write failed.
func (d *diary) amend(r *record, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if status == 200 {
		r.Completed--
	} else {
		r.Faulted--
	}
	r.Aborted++
}

func (d *diary) records() map[string]RequestRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[string]RequestRecord, len(d.m))
	for id, r := range d.m {
		v := r.RequestRecord
		v.Keys = slices.Clone(v.Keys)
		v.Headers = headers(r.head)
		out[id] = v
	}
	return out
}

func (d *diary) lastRequest() (LastRequest, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.last
	l.Headers = headers(d.lastHead)
	return l, d.seen
}

func (d *diary) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.m, d.order, d.calls, d.gone, d.bytes, d.forgotten = nil, nil, nil, 0, 0, 0
	d.last, d.lastHead, d.seen = LastRequest{}, nil, false
}

func (d *diary) dropped() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.forgotten
}

// requestID finds the ID of "[rid:ID]" in a body; nil if there is none within bounds.
func requestID(body []byte) []byte {
	i := bytes.Index(body, []byte("[rid:"))
	if i < 0 {
		return nil
	}
	id, _, ok := bytes.Cut(body[i+5:min(len(body), i+idMax)], []byte("]"))
	if !ok {
		return nil
	}
	return id
}

// headers reads a raw header block (lines ending in CRLF).
func headers(raw []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		k, v = strings.ToLower(k), strings.TrimSpace(v)
		if old, twice := out[k]; twice {
			v = old + ", " + v
		}
		out[k] = v
	}
	return out
}
