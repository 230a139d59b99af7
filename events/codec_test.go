package events

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

var update = flag.Bool("update", false, "write the fixtures that are missing; existing ones are never touched")

// filler sets the fields of facts by chance.
type filler struct {
	*rand.Rand
	density float64 // share of the fields that are set at all
	word    func(*rand.Rand) string
}

func (r filler) fill(v reflect.Value) {
	if r.Float64() >= r.density {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.UnixMicro(1_772_000_000_000_000 + r.Int64N(1e12)).UTC()))
		return
	case money.Amount:
		v.SetInt(r.Int64N(1e12))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(256)), byte(r.IntN(256))})))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 3))
		for i := range v.Len() {
			r.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			e := reflect.New(v.Type().Elem()).Elem()
			r.fill(e)
			v.SetMapIndex(reflect.ValueOf(r.word(r.Rand)), e)
		}
	case reflect.String:
		v.SetString(r.word(r.Rand))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 + r.Int64N(999))
	case reflect.Uint64:
		v.SetUint(1 + r.Uint64N(999))
	default:
		panic("no filling for " + v.Type().String())
	}
}

// text is mostly plain, sometimes all that a JSON string must escape or repair.
func text(r *rand.Rand) string {
	odd := []string{"\"quoted\" \\back", "line\nfeed\ttab\x00", "größe 漢字 🙂", "cut \xf0\x9f", "<a>&</a>\u2028", "\x7f"}
	if r.IntN(4) == 0 {
		return odd[r.IntN(len(odd))]
	}
	return word(r)
}

func word(r *rand.Rand) string {
	return []string{"openai-main", "gpt-5-mini", "team-a", "chat", "0.5", "alice"}[r.IntN(6)]
}

// specimen fills every field of a new fact with what a reader of the fixture can take in.
func specimen(l *line) Fact {
	f := l.empty()
	filler{rand.New(rand.NewPCG(1, 1)), 1, word}.fill(reflect.ValueOf(f).Elem())
	return f
}

func TestEveryFactHasAFixtureThatDecodesAndEncodesToTheSameBytes(t *testing.T) {
	for i := range lines {
		l := &lines[i]
		t.Run(l.name, func(t *testing.T) {
			file := fixture(l.name, l.schema)
			if _, err := os.Stat(file); *update && errors.Is(err, os.ErrNotExist) {
				r := Row{Facts: []Fact{specimen(l)}}
				require.NoError(t, Encode(&r))
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, append(r.Payload[1:len(r.Payload)-1], '\n'), 0o644))
			}
			want := readFixture(t, file)
			facts, err := Decode(l.tag, want)
			require.NoError(t, err)
			require.IsType(t, l.empty(), facts[0])
			again := Row{Facts: facts}
			require.NoError(t, Encode(&again))
			require.Equal(t, string(want), string(again.Payload), "a field was lost or has another form: the schema number must rise")
			require.Equal(t, l.tag, again.Types)
		})
	}
}

func TestFixturesOfOlderSchemasStillDecode(t *testing.T) {
	for i := range lines {
		for schema := 1; schema < lines[i].schema; schema++ {
			payload := readFixture(t, fixture(lines[i].name, schema))
			_, err := Decode(tag(lines[i].name, schema), payload)
			require.NoError(t, err)
		}
	}
}

func TestNoFixtureIsWithoutALineInTheCatalogue(t *testing.T) {
	want := map[string]bool{}
	for i := range lines {
		for schema := 1; schema <= lines[i].schema; schema++ {
			want[fixture(lines[i].name, schema)] = true
		}
	}
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		require.True(t, want[file], "%s: a fact was renamed or removed; stored rows still have it", file)
	}
}

func fixture(name string, schema int) string {
	return filepath.Join("testdata", name+".v"+strconv.Itoa(schema)+".json")
}

// readFixture gives the fixture's one object as a payload.
func readFixture(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err, "go test ./events -run Fixture -update writes missing fixtures")
	return []byte("[" + strings.TrimSuffix(string(b), "\n") + "]")
}

func TestNamesAndTypesAreUnique(t *testing.T) {
	require.Len(t, known.byName, len(lines))
	require.Len(t, known.byType, len(lines))
	require.Len(t, Names(), len(lines))
}

func TestTheFastCodecWritesAndReadsWhatTheStructTagsSay(t *testing.T) {
	for i := range lines {
		if lines[i].walk == nil {
			continue
		}
		fast := &lines[i]
		slow := *fast
		slow.walk = nil
		generic := newCatalogue([]line{slow}, nil)
		t.Run(fast.name, func(t *testing.T) {
			for seed := range uint64(500) {
				f := fast.empty()
				filler{rand.New(rand.NewPCG(seed, 0)), []float64{0.1, 0.3, 0.7, 1}[seed%4], text}.fill(reflect.ValueOf(f).Elem())
				a, b := Row{Facts: []Fact{f}}, Row{Facts: []Fact{f}}
				require.NoError(t, Encode(&a))
				require.NoError(t, generic.encode(&b))
				require.Equal(t, string(b.Payload), string(a.Payload), "seed %d", seed)

				m := members{rest: string(a.Payload[1:]), reading: true}
				got := fast.empty()
				fast.walk(&m, got)
				require.False(t, m.bad, "seed %d: the fast decoder gave up on %s", seed, a.Payload)
				want, err := generic.decode(fast.tag, a.Payload)
				require.NoError(t, err)
				require.Equal(t, want[0], got, "seed %d", seed)
			}
		})
	}
}

// What the fast decoder takes, the generic one takes too and reads the same.
func FuzzTheFastDecoderIsNeverLaxer(f *testing.F) {
	slow := make([]line, len(lines))
	for i := range lines {
		slow[i] = lines[i]
		slow[i].walk = nil
		if lines[i].walk != nil {
			b, err := os.ReadFile(fixture(lines[i].name, lines[i].schema))
			require.NoError(f, err)
			f.Add(lines[i].tag, bytes.TrimSpace(b))
		}
	}
	generic := newCatalogue(slow, nil)
	f.Fuzz(func(t *testing.T, types string, object []byte) {
		l := known.byName[types]
		if l == nil || l.walk == nil {
			return
		}
		m := members{rest: string(object), reading: true}
		got := l.empty()
		if l.walk(&m, got); m.bad || m.rest != "" {
			return
		}
		want, err := generic.decode(types, []byte("["+string(object)+"]"))
		require.NoError(t, err)
		require.Equal(t, want[0], got)
	})
}

func TestDecodeReadsHandWrittenJSON(t *testing.T) {
	for _, c := range []struct{ what, payload string }{
		{"another order", `[{"account":"a","n":2,"upstream":"u"}]`},
		{"white space", `[{ "n": 2, "upstream": "u", "account": "a" }]`},
		{"escapes", `[{"n":2,"upstream":"\u0075","account":"a"}]`},
		{"a field of a later version", `[{"n":2,"upstream":"u","account":"a","later":{"x":["}"]}}]`},
		{"a field of a later version first", `[{"later":"\"}","n":2,"upstream":"u","account":"a"}]`},
	} {
		t.Run(c.what, func(t *testing.T) {
			facts, err := Decode("attempt.dispatched", []byte(c.payload))
			require.NoError(t, err)
			require.Equal(t, []Fact{&request.Dispatched{N: 2, Upstream: "u", Account: "a"}}, facts)
		})
	}
}

func TestDecodeRefusesWhatIsBrokenAndSaysWhere(t *testing.T) {
	const ok = `{"n":1,"upstream":"u","account":"a"}`
	for _, c := range []struct{ what, types, payload, says string }{
		{"unknown type", "attempt.vanished", `[{}]`, "fact 0, attempt.vanished: unknown type"},
		{"second type unknown", "attempt.dispatched x.y", `[` + ok + `,{}]`, "fact 1, x.y: unknown type"},
		{"a later schema", "attempt.dispatched@2", `[` + ok + `]`, "schema 2 is unknown"},
		{"a schema that is none", "attempt.dispatched@x", `[` + ok + `]`, "schema 0 is unknown"},
		{"no types", "", `[` + ok + `]`, "unknown type"},
		{"too few facts", "attempt.dispatched attempt.dispatched", `[` + ok + `]`, "fact 1"},
		{"too many facts", "attempt.dispatched", `[` + ok + `,` + ok + `]`, "does not end"},
		{"cut off", "attempt.dispatched", `[{"n":1,"upstr`, "fact 0"},
		{"no array", "attempt.dispatched", ok, "fact 0"},
		{"empty", "attempt.dispatched", ``, "fact 0"},
		{"trailing bytes", "attempt.dispatched", `[` + ok + `]x`, "does not end"},
		{"no object", "attempt.dispatched", `[1]`, "fact 0"},
		{"wrong kind of value", "attempt.dispatched", `[{"n":"1","upstream":"u","account":"a"}]`, "fact 0, attempt.dispatched"},
		{"leading zero", "attempt.dispatched", `[{"n":01,"upstream":"u","account":"a"}]`, "fact 0"},
		{"doubled member", "attempt.dispatched", `[{"n":1,"n":2,"upstream":"u","account":"a"}]`, "duplicate"},
		{"money with too many places", "attempt.failed", `[{"n":1,"class":"c","next":"stop","cost":"0.00000000001","took_us":1}]`, "more than 10 decimals"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := Decode(c.types, []byte(c.payload))
			require.ErrorIs(t, err, ErrFact)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestEncodeRefusesWhatIsNoFact(t *testing.T) {
	require.ErrorContains(t, Encode(&Row{}), "none")
	for _, f := range []Fact{nil, request.Settled{}, &struct{}{}, "x"} {
		r := Row{Facts: []Fact{&request.Resumed{}, f}}
		err := Encode(&r)
		require.ErrorIs(t, err, ErrFact)
		require.ErrorContains(t, err, "fact 1")
		require.Empty(t, Name(f))
	}
	require.Equal(t, "request.settled", Name(&request.Settled{}))
}

func TestTimesAreWrittenInUTCWithMicroseconds(t *testing.T) {
	at := time.Date(2026, 3, 1, 13, 0, 0, 123456789, time.FixedZone("east", 3600))
	for _, f := range []Fact{&request.Queued{Deadline: at}, &breaker.Opened{Until: at}} {
		r := Row{Facts: []Fact{f}}
		require.NoError(t, Encode(&r))
		require.Contains(t, string(r.Payload), `"2026-03-01T12:00:00.123456Z"`)
		facts, err := Decode(r.Types, r.Payload)
		require.NoError(t, err)
		again := Row{Facts: facts}
		require.NoError(t, Encode(&again))
		require.Equal(t, string(r.Payload), string(again.Payload))
	}
}

// A schema that no shipped fact has yet: the way from 1 to 3 through two pure functions.
func TestOlderSchemasAreLiftedStepByStep(t *testing.T) {
	c := newCatalogue([]line{of("attempt.dispatched", 3, walkDispatched)}, map[versioned]upcast{
		{"attempt.dispatched", 1}: func(b []byte) ([]byte, error) {
			return []byte(strings.Replace(string(b), `"channel"`, `"up"`, 1)), nil
		},
		{"attempt.dispatched", 2}: func(b []byte) ([]byte, error) {
			if strings.Contains(string(b), "refused") {
				return nil, errors.New("no such thing")
			}
			return []byte(strings.Replace(string(b), `"up"`, `"upstream"`, 1)), nil
		},
	})
	want := []Fact{&request.Dispatched{N: 1, Upstream: "u", Account: "a"}}
	for types, payload := range map[string]string{
		"attempt.dispatched":   `[{"n":1,"channel":"u","account":"a"}]`,
		"attempt.dispatched@2": `[{"n":1,"up":"u","account":"a"}]`,
		"attempt.dispatched@3": `[{"n":1,"upstream":"u","account":"a"}]`,
	} {
		got, err := c.decode(types, []byte(payload))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := c.decode("attempt.dispatched@4", []byte(`[{}]`))
	require.ErrorContains(t, err, "knows 1 to 3")
	_, err = c.decode("attempt.dispatched", []byte(`[{"channel":"refused"}]`))
	require.ErrorContains(t, err, "from schema 2 to 3: no such thing")

	r := Row{Facts: want}
	require.NoError(t, c.encode(&r))
	require.Equal(t, "attempt.dispatched@3", r.Types)
	delete(c.upcasters, versioned{"attempt.dispatched", 2})
	_, err = c.decode("attempt.dispatched", []byte(`[{}]`))
	require.ErrorContains(t, err, "no way from schema 2 to 3")
}

func TestObjectsSplitsAPayload(t *testing.T) {
	got, err := Objects([]byte(`[{"a":"}]\\\"{"},{"b":{"c":[{}]}}]`))
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, `{"b":{"c":[{}]}}`, string(got[1]))
	for _, bad := range []string{``, `[`, `[]`, `{}`, `[{}`, `[{},]`, `[{}{}]`, `[{}]]`, `[{"a":"x}]`, `[1]`} {
		_, err := Objects([]byte(bad))
		require.ErrorIs(t, err, ErrFact, bad)
	}
}

func TestTypesAreFoundByName(t *testing.T) {
	require.True(t, HasType("request.admitted attempt.dispatched@2", "attempt.dispatched"))
	require.False(t, HasType("request.admitted", "request.admit"))
	r := Row{Facts: []Fact{&request.Admitted{}, &request.Dispatched{}}}
	require.NoError(t, Encode(&r))
	require.Equal(t, "request.admitted attempt.dispatched", r.Types)
	for name, schema := range EachType("a.b@12") {
		require.Equal(t, "a.b", name)
		require.Equal(t, 12, schema)
	}
}

func sampleRows() (first, last Row) {
	first = Row{Facts: []Fact{
		&request.Admitted{
			Ask: request.Ask{
				Key: "team-a", User: "alice", Group: "default", Method: "POST", Path: "/v1/chat/completions",
				Dialect: "openai-chat", Capability: "openai_chat_compatible", Model: "gpt-5-mini", Stream: true,
				Client: "OpenAI/Python 2.8.1", Address: "10.1.2.3",
			},
			InputEstimate: 1234,
			Plan: []request.Candidate{
				{Upstream: "openai-main", Why: "weighted_selection"}, {Upstream: "openai-backup", Tier: 1},
			},
			Excluded: []request.Exclusion{{Upstream: "azure-west", Reason: "circuit_open"}},
		},
		&request.Dispatched{N: 1, Upstream: "openai-main", Account: "openai-main-1", ResolvedModel: "gpt-5-mini", Why: "weighted_selection"},
	}}
	last = Row{Facts: []Fact{&request.Settled{
		Outcome: request.Completed, Status: 200, UpstreamStatus: 200, UpstreamID: "req_011CTkWZq9Xf", Attempts: 1, Sent: true,
		Usage: pricing.Usage{Input: 1200, CachedInput: 1024, Output: 345, Reasoning: 128}, UsageSource: pricing.Reported,
		ServiceTier: "default", PriceVersion: "gpt-5-mini@17", UpstreamCost: 12_345_000, Cost: 13_579_500,
		TTFTUS: 412_345, AttemptUS: 2_345_678, DurationUS: 2_346_789,
	}}}
	return first, last
}

func BenchmarkEncode(b *testing.B) {
	first, last := sampleRows()
	for name, r := range map[string]*Row{"admitted+dispatched": &first, "settled": &last} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Encode(r); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(r.Payload)))
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	first, last := sampleRows()
	slow := make([]line, len(lines))
	for i := range lines {
		slow[i] = lines[i]
		slow[i].walk = nil
	}
	for _, c := range []struct {
		name string
		cat  *catalogue
	}{{"fast", known}, {"generic", newCatalogue(slow, nil)}} {
		for name, r := range map[string]*Row{"admitted+dispatched": &first, "settled": &last} {
			if err := Encode(r); err != nil {
				b.Fatal(err)
			}
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(r.Payload)))
				for b.Loop() {
					if _, err := c.cat.decode(r.Types, r.Payload); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkHash(b *testing.B) {
	first, _ := sampleRows()
	if err := Encode(&first); err != nil {
		b.Fatal(err)
	}
	first.Stream = "request/0198c0de-7a9f-7c11-9d5e-3f2b1a0c9d8e"
	var h Hasher
	b.ReportAllocs()
	for b.Loop() {
		h.Row(17, &first)
	}
}
