package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
)

var sse = []actors.Header{{Name: "Content-Type", Value: "text/event-stream"}}

// earlyAnswer begins an answer with its head and a sign, waits for go on, and ends it with a.
func earlyAnswer(goOn chan struct{}, a actors.Answer) func(*actors.Call) actors.Answer {
	return func(c *actors.Call) actors.Answer {
		w, err := c.Opener.Open(sse)
		if err == nil {
			_, err = io.WriteString(w, "\n\n")
		}
		if err != nil {
			c.Gone.Fire()
		}
		select {
		case <-goOn:
		case <-c.Gone.Done():
		}
		return a
	}
}

// A head that is sent while a request waits is followed by what ends it, and the connection ends with it.
func TestAHeadIsSentWhileARequestWaits(t *testing.T) {
	stream := func(err error) actors.Answer {
		return actors.Answer{Status: 200, Stream: func(w io.Writer) error { _, _ = io.WriteString(w, "data: x\n\n"); return err }}
	}
	for name, c := range map[string]struct {
		a    actors.Answer
		want string
		cut  bool
	}{
		"a refusal":               {actors.Answer{Status: 504, Headers: jsonType, Body: []byte("data: {\"error\":1}\n\n")}, "\n\ndata: {\"error\":1}\n\n", false},
		"a stream":                {stream(nil), "\n\ndata: x\n\n", false},
		"a stream that is cut":    {stream(errors.New("cut")), "\n\ndata: x\n\n", true},
		"nothing, strange to say": {actors.Answer{Status: 499}, "\n\n", false},
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(name+" over "+version, func(t *testing.T) {
				goOn := make(chan struct{})
				f := start(t, &scripted{begin: earlyAnswer(goOn, c.a)}, nil)
				conn := f.dial()
				_, err := io.WriteString(conn, strings.Replace(chat(), "HTTP/1.1", version, 1))
				require.NoError(t, err)
				r, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, 200, r.StatusCode)
				require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
				require.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
				require.Equal(t, "no", r.Header.Get("X-Accel-Buffering"))
				require.Len(t, r.Header.Get("X-Request-Id"), 36)
				require.True(t, r.Close)
				sign := make([]byte, 2)
				_, err = io.ReadFull(r.Body, sign)
				require.NoError(t, err)
				close(goOn)
				rest, err := io.ReadAll(r.Body)
				require.Equal(t, c.want, string(sign)+string(rest))
				if c.cut && version == "HTTP/1.1" {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				} else {
					require.NoError(t, err)
				}
				_, err = conn.Read(make([]byte, 1))
				require.Equal(t, io.EOF, err, "the connection ends with the answer")
				eventually(t, "nothing is under way", func() bool { return f.InFlight() == 0 })
			})
		}
	}
}

// A client that goes after its early head is noticed as every other.
func TestAClientThatGoesAfterItsEarlyHeadIsNoticed(t *testing.T) {
	ended := make(chan struct{})
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		defer close(ended)
		return earlyAnswer(nil, actors.Answer{Status: 499})(c)
	}}
	f := start(t, d, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat())
	require.NoError(t, err)
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	c.Close()
	<-ended
	eventually(t, "nothing is under way", func() bool { return f.InFlight() == 0 })
}

// Shutdown waits for an answer that has begun early (pain 28).
func TestShutdownWaitsForAnEarlyAnswer(t *testing.T) {
	goOn := make(chan struct{})
	f := start(t, &scripted{begin: earlyAnswer(goOn, actors.Answer{Body: []byte("data: end\n\n")})}, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat())
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	shut := make(chan error, 1)
	go func() { shut <- f.Shutdown(context.Background()) }()
	eventually(t, "nothing new is taken", func() bool {
		other, err := net.DialTimeout("tcp", f.addr, time.Second)
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	require.Empty(t, shut, "it waits")
	close(goOn)
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, "\n\ndata: end\n\n", string(b))
	require.NoError(t, <-shut)
}

// Only a request that came by itself may be answered past the server: the answers of pipelined ones may still wait to be sent.
func TestPipelinedRequestsAreNotAnsweredEarly(t *testing.T) {
	opens := make(chan bool, 10)
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		opens <- c.Opener != nil
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{}`)}
	}}
	f := start(t, d, nil)
	ask := func(texts ...string) (got []bool) {
		c := f.dial()
		defer c.Close()
		br := bufio.NewReader(c)
		for _, text := range texts {
			_, err := io.WriteString(c, text)
			require.NoError(t, err)
			for range strings.Count(text, "POST ") {
				f.hear(br)
				got = append(got, <-opens)
			}
		}
		return got
	}
	require.Equal(t, []bool{true, true}, ask(chat(), chat()), "one after the other")
	require.Equal(t, []bool{true, false, false}, ask(chat()+chat()+chat()), "at once")
	half := len(chat()) / 2
	c := f.dial()
	_, err := io.WriteString(c, chat()+chat()[:half])
	require.NoError(t, err)
	require.True(t, <-opens)
	_, err = io.WriteString(c, chat()[half:])
	require.NoError(t, err)
	require.False(t, <-opens, "its start came with the one before")
}
