package storetest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// writersOf is the environment variable that makes a test program a second process of writers: the address of a store.
const writersOf = "PENSTOCK_TEST_WRITERS_OF"

const (
	writersEach   = 3 // of one process
	writersRounds = 60
)

// told is what a writer knows of one of its appends.
type told struct {
	ID    string // in the row's request
	First events.Position
	N     int  // rows; facts, too
	No    bool // refused: somebody else was faster
}

// WriteForAnother makes this process one of writers when TwoProcesses has started it as that, and does not return then.
// TestMain calls it before anything else.
func WriteForAnother(open func(address string) (events.Store, error)) {
	address := os.Getenv(writersOf)
	if address == "" {
		return
	}
	if err := writeForAnother(address, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func writeForAnother(address string, open func(string) (events.Store, error)) error {
	w, err := newWriters("other", address, open)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	list, err := w.run(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(list)
}

// TwoProcesses checks that a reader which goes on from the last position that it has seen misses nothing beside six writers,
// three of them in another process: positions are in the order of commits. Small appends come beside big ones, to several
// days, with conflicts between them.
func TwoProcesses(t *testing.T, address string, open func(address string) (events.Store, error)) {
	t.Helper()
	reader, err := open(address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	other := startOther(t, address)
	mine, err := newWriters("this", address, open)
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()

	var writing atomic.Int64
	writing.Store(2)
	type answer struct {
		list []told
		err  error
	}
	answers := [2]chan answer{make(chan answer, 1), make(chan answer, 1)}
	for i, run := range []func(context.Context) ([]told, error){mine.run, other.run} {
		go func() {
			list, err := run(ctx)
			writing.Add(-1)
			answers[i] <- answer{list, err}
		}()
	}
	seen := readAlong(t, reader, func() bool { return writing.Load() > 0 && ctx.Err() == nil })

	var spans [2][2]events.Position
	places, wins, ends, n := map[string]events.Position{}, 0, 0, 0
	for i := range answers {
		a := <-answers[i]
		require.NoError(t, a.err)
		spans[i][0] = a.list[0].First
		for _, was := range a.list {
			if was.No {
				require.Empty(t, seen[was.ID], "%s was refused", was.ID)
				continue
			}
			require.Len(t, seen[was.ID], was.N, "every row of %s is read once", was.ID)
			for j, at := range seen[was.ID] {
				require.Equal(t, was.First+events.Position(j), at, "row %d of %s", j, was.ID)
			}
			switch kind, _, _ := strings.Cut(was.ID, "/"); kind {
			case "contested":
				wins++
			case "ended":
				ends++
			}
			n += was.N
			places[was.ID] = was.First
			spans[i][0], spans[i][1] = min(spans[i][0], was.First), max(spans[i][1], was.First)
		}
	}
	require.Len(t, seen, len(places), "nothing is read that nobody has appended")
	require.Equal(t, events.Position(n), head(t, reader))
	require.Positive(t, wins)
	require.LessOrEqual(t, wins, writersRounds)
	require.Equal(t, writersRounds, ends, "a stream ends once, whoever wants to end it")
	require.Less(t, max(spans[0][0], spans[1][0]), min(spans[0][1], spans[1][1]), "the processes have written at once")
	report, err := events.Audit{}.Verify(ctx, reader)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}

// readAlong follows the store by position until nobody writes any more, and once more. It gives the positions of the rows by
// their request.
func readAlong(t *testing.T, s events.Store, writing func() bool) map[string][]events.Position {
	t.Helper()
	seen, versions := map[string][]events.Position{}, map[string]int64{}
	var last events.Position
	for more := true; more; {
		more = writing()
		require.NoError(t, s.After(context.Background(), last, func(c *events.Committed) bool {
			require.Equal(t, last+1, c.Position, "a gap that is filled later would be missed")
			require.Equal(t, versions[c.Stream], c.Version, "%s is read in order", c.Stream)
			versions[c.Stream]++
			seen[c.Request] = append(seen[c.Request], c.Position)
			last = c.Last()
			return true
		}))
	}
	return seen
}

// otherProcess is this test program, started as writers.
type otherProcess struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startOther(t *testing.T, address string) *otherProcess {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env, c.Stderr = append(os.Environ(), writersOf+"="+address), os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	p := &otherProcess{c, in, bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close() // it ends when nobody tells it to begin
		_ = c.Process.Kill()
		_ = c.Wait() // what it had to say has been read
	})
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return p
}

// run lets the process write and returns what it has appended.
func (p *otherProcess) run(ctx context.Context) (list []told, err error) {
	defer context.AfterFunc(ctx, func() { _ = p.Process.Kill() })()
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		return nil, err
	}
	return list, json.NewDecoder(p.out).Decode(&list)
}

// writers are those of one process, each with a store of its own.
type writers struct {
	name   string
	stores []events.Store
}

func newWriters(name, address string, open func(string) (events.Store, error)) (*writers, error) {
	w := &writers{name: name}
	for range writersEach {
		s, err := open(address)
		if err != nil {
			return nil, err
		}
		w.stores = append(w.stores, s)
	}
	return w, nil
}

// run appends as all writers at once, and closes their stores.
func (w *writers) run(ctx context.Context) (all []told, err error) {
	type answer struct {
		list []told
		err  error
	}
	answers := make(chan answer)
	for i, s := range w.stores {
		go func() {
			list, err := write(ctx, s, fmt.Sprintf("%s/%d", w.name, i))
			if err == nil {
				err = s.Close()
			}
			answers <- answer{list, err}
		}()
	}
	for range w.stores {
		a := <-answers
		all = append(all, a.list...)
		if a.err != nil && err == nil {
			err = a.err
		}
	}
	return all, err
}

// write appends to a stream of its own, to one that all write to, to one whose versions all want, to some that all want to
// end, and now and then to very many.
func write(ctx context.Context, s events.Store, name string) (list []told, err error) {
	for i := range int64(writersRounds) {
		batch := []events.Append{
			named("own/"+name, i, fmt.Sprintf("own/%s/%d", name, i)),
			named("shared", events.AnyVersion, fmt.Sprintf("shared/%s/%d", name, i)),
			named("contested", i, fmt.Sprintf("contested/%s/%d", name, i)),
			named(fmt.Sprintf("ended/%d", i), events.AnyVersion, fmt.Sprintf("joined/%s/%d", name, i)),
			named(fmt.Sprintf("ended/%d", i), events.AnyVersion, fmt.Sprintf("ended/%s/%d", name, i)),
		}
		batch[len(batch)-1].Rows[0].Terminal = true
		if i%20 == 0 {
			for j := range 140 {
				id := idOf(time.Now().AddDate(0, 0, -j%3))
				batch = append(batch, named("request/"+id, 0, id))
			}
			pair := named("own/"+name+"/pair", i/10, fmt.Sprintf("pair/%s/%d", name, i))
			second := pair.Rows[0]
			second.Version++
			pair.Rows = append(pair.Rows, second)
			batch = append(batch, pair)
		}
		for j := range batch {
			for k := range batch[j].Rows {
				if err := events.Encode(&batch[j].Rows[k]); err != nil {
					return nil, err
				}
			}
		}
		results, err := s.Append(ctx, batch, 1)
		if err != nil {
			return nil, err
		}
		for j, r := range results {
			row := &batch[j].Rows[0]
			no := r.Err != nil
			if no && row.Stream != "contested" && !row.Terminal {
				return nil, r.Err
			}
			list = append(list, told{ID: row.Request, First: r.First, N: len(batch[j].Rows), No: no})
		}
	}
	return list, nil
}

// idOf is a new UUIDv7 of a time: a request's, by which stores may choose its place.
func idOf(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	ms := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	return id.String()
}

// named is an append of one row with one fact.
func named(stream string, version int64, id string) events.Append {
	return one(events.Row{
		Stream: stream, Version: version, At: time.Now().UTC().Truncate(time.Microsecond), Request: id,
		Facts: []events.Fact{&request.Resumed{Upstream: strings.Repeat("u", 300)}},
	})
}
