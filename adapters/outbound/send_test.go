package outbound

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
)

func TestTheRequestArrivesAsItWasGiven(t *testing.T) {
	for what, body := range map[string]string{
		"none": "", "small": `{"model":"m"}`, "as large as is copied": strings.Repeat("x", bodyInline),
		"larger": strings.Repeat("y", bodyInline+1), "in several pieces": strings.Repeat("z", 3*bodyPiece+5),
	} {
		for _, method := range []string{"GET", "POST"} {
			var raw bytes.Buffer
			u := serve(t, func(p *peer) {
				p.br.Reset(io.TeeReader(p.Conn, &raw))
				if p.request() != nil {
					p.say(plainOK)
				}
			})
			o := call(u)
			o.Method, o.Body = method, []byte(body)
			require.Equal(t, "ok", whole(t, transport(t), o), what)
			want := method + " /v1/messages?x=1 HTTP/1.1\r\nHost: " + u.host + "\r\nX-Api-Key: secret\r\nContent-Type: application/json\r\n"
			if body != "" || method == "POST" {
				want += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
			}
			require.True(t, raw.String() == want+"\r\n"+body, "%s %s: %.200q", method, what, raw.String())
		}
	}
}

func TestAConnectionIsNotUsedAgainWhenItsAnswerWasNotReadToTheEnd(t *testing.T) {
	for what, use := range map[string]func(*actors.Outgoing, actors.Incoming){
		"nothing was read":     func(*actors.Outgoing, actors.Incoming) {},
		"half was read":        func(_ *actors.Outgoing, in actors.Incoming) { _, _ = io.ReadFull(in, make([]byte, 4)) },
		"the client went away": func(o *actors.Outgoing, in actors.Incoming) { _, _ = io.ReadAll(in); o.Gone.Fire() },
	} {
		closed := make(chan struct{}, 2)
		u := serve(t, func(p *peer) {
			for p.request() != nil {
				p.say(head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
			}
			closed <- struct{}{}
		})
		tr := transport(t)
		o := call(u)
		in := send(t, tr, o)
		use(o, in)
		require.NoError(t, in.Close())
		<-closed
		require.Equal(t, "hello", whole(t, tr, call(u)))
		require.Equal(t, int32(2), u.accepted.Load(), what)
	}
}

// A reused connection that closes without a byte is told as such, and nothing is sent twice by itself.
func TestAStaleConnectionIsReportedAndAFreshOneWorks(t *testing.T) {
	for what, end := range map[string]func(*peer){"closed": func(*peer) {}, "reset": (*peer).reset} {
		t.Run(what, func(t *testing.T) {
			u := serve(t, func(p *peer) {
				if p.request() != nil {
					p.say(plainOK)
				}
				if p.n > 1 {
					p.gone()
					return
				}
				_, _ = p.br.Peek(1) // the next request has begun
				end(p)
			})
			tr := transport(t)
			require.Equal(t, "ok", whole(t, tr, call(u)))
			o := call(u)
			require.Equal(t, actors.PhaseStale, outcome(t, tr, o))
			require.Equal(t, int32(1), u.accepted.Load(), "no connection was made behind our back")
			o.Fresh = true
			require.Equal(t, "ok", whole(t, tr, o))
			require.Equal(t, int32(2), u.requests.Load())
		})
	}
}

func TestAFreshCallLeavesTheIdleConnectionsAlone(t *testing.T) {
	u := serve(t, func(p *peer) {
		for p.request() != nil {
			p.say(plainOK)
		}
	})
	tr := transport(t)
	require.Equal(t, "ok", whole(t, tr, call(u)))
	o := call(u)
	o.Fresh = true
	require.Equal(t, "ok", whole(t, tr, o))
	require.Equal(t, int32(2), u.accepted.Load())
}

func TestAConnectionIsLookedAtBeforeItIsUsedAgain(t *testing.T) {
	rest := func(tr *Transport, u *upstream, d time.Duration) {
		p := tr.pool("http", u.host)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.idle {
			c.since -= d
		}
	}
	t.Run("closed by the upstream", func(t *testing.T) {
		closed := make(chan struct{})
		u := serve(t, func(p *peer) {
			if p.request() != nil {
				p.say(plainOK)
			}
			if p.n == 1 {
				p.Close()
				close(closed)
			}
		})
		tr := transport(t)
		require.Equal(t, "ok", whole(t, tr, call(u)))
		<-closed
		rest(tr, u, time.Second)
		require.Equal(t, "ok", whole(t, tr, call(u)), "no stale attempt is needed")
	})
	t.Run("with an answer that nobody has asked for", func(t *testing.T) { // which would be that of the next client
		stray, sent := make(chan struct{}), make(chan struct{})
		u := serve(t, func(p *peer) {
			for p.request() != nil {
				p.say(plainOK)
				if p.n == 1 {
					<-stray
					p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray")
					close(sent)
				}
			}
		})
		tr := transport(t)
		require.Equal(t, "ok", whole(t, tr, call(u)))
		close(stray)
		<-sent
		require.Equal(t, "ok", whole(t, tr, call(u)))
		require.Equal(t, int32(2), u.accepted.Load())
	})
	echo := func(p *peer) {
		for p.request() != nil {
			p.say(plainOK)
		}
	}
	for what, c := range map[string]struct {
		rested time.Duration
		conns  int32
	}{
		"sound": {time.Second, 1}, "longer than the idle bound of its last answer": {20 * time.Second, 1},
		"longer than providers keep connections": {idleMax, 2},
	} {
		t.Run(what, func(t *testing.T) {
			u := serve(t, echo)
			tr := transport(t)
			o := call(u)
			o.Idle = time.Millisecond // has passed long before the next call
			require.Equal(t, "ok", whole(t, tr, o))
			<-time.After(2 * time.Millisecond)
			rest(tr, u, c.rested)
			require.Equal(t, "ok", whole(t, tr, call(u)))
			require.Equal(t, c.conns, u.accepted.Load())
		})
	}
	t.Run("swept", func(t *testing.T) {
		u := serve(t, echo)
		tr := transport(t)
		require.Equal(t, "ok", whole(t, tr, call(u)))
		p := tr.pool("http", u.host)
		p.sweep(time.Now())
		require.Len(t, p.idle, 1)
		p.sweep(time.Now().Add(idleMax))
		require.Empty(t, p.idle)
	})
}

func TestEachPhaseHasItsBound(t *testing.T) {
	const bound = 60 * time.Millisecond
	silent := func(p *peer) { p.gone() }
	for what, c := range map[string]struct {
		script func(*peer)
		set    func(*actors.Outgoing)
		phase  actors.Phase
	}{
		"no first byte": {silent, func(o *actors.Outgoing) { o.First = bound }, actors.PhaseFirstTimeout},
		"a head that does not end": {
			func(p *peer) { p.say(head); p.gone() },
			func(o *actors.Outgoing) { o.First = bound },
			actors.PhaseFirstTimeout,
		},
		"100 Continue and no more": {
			func(p *peer) { p.say("HTTP/1.1 100 Continue\r\n\r\n"); p.gone() },
			func(o *actors.Outgoing) { o.First = bound },
			actors.PhaseFirstTimeout,
		},
		"a request that is not taken": {
			func(p *peer) {
				_, _ = p.br.Peek(1)
				eventually(p.u.t, "the socket is closed", func() bool { return peerClosed(p.Conn.(*net.TCPConn)) })
			},
			func(o *actors.Outgoing) { o.First, o.Body = bound, make([]byte, 32<<20) },
			actors.PhaseFirstTimeout,
		},
		"a body that stands still": {
			func(p *peer) { p.say(head + "Content-Length: 9\r\n\r\nhello"); p.gone() },
			func(o *actors.Outgoing) { o.Idle = bound },
			actors.PhaseIdle,
		},
		"a body that does not begin": {
			func(p *peer) { p.say(head + "Transfer-Encoding: chunked\r\n\r\n"); p.gone() },
			func(o *actors.Outgoing) { o.Idle = bound },
			actors.PhaseIdle,
		},
	} {
		t.Run(what, func(t *testing.T) {
			u := serve(t, c.script)
			o := call(u)
			c.set(o)
			within(t, 30*time.Second, "the bound", func() { require.Equal(t, c.phase, outcome(t, transport(t), o)) })
		})
	}
}

func TestABodyThatDribblesIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 200 * time.Millisecond
		tr := transport(t)
		u := piped(t, tr, func(p *peer) {
			p.request()
			p.say(head + "Transfer-Encoding: chunked\r\n\r\n")
			for range 25 { // longer than the bound in all
				time.Sleep(idle * 9 / 10)
				p.say("1\r\nx\r\n")
			}
			p.say("0\r\n\r\n")
		})
		o := call(u)
		o.Idle = idle
		require.Equal(t, strings.Repeat("x", 25), whole(t, tr, o))
	})
}

func TestAReaderThatTakesItsTimeDoesNotMakeTheUpstreamIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t)
		u := piped(t, tr, func(p *peer) {
			p.request()
			p.say(head+"Content-Length: 4\r\n\r\nab", "cd")
			p.gone()
		})
		o := call(u)
		o.Idle = 30 * time.Millisecond
		in := send(t, tr, o)
		defer in.Close()
		time.Sleep(3 * o.Idle) // the client is slow, not the upstream
		b, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, "abcd", string(b))
	})
}

// The first-byte bound runs from the last byte of the request: a long upload is no slow answer.
func TestALongUploadDoesNotEatTheTimeForTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, size = 500 * time.Millisecond, 24 << 20
		tr := transport(t)
		u := piped(t, tr, func(p *peer) {
			slow := io.TeeReader(p.Conn, writerFunc(func([]byte) { time.Sleep(first / 10) }))
			r, err := http.ReadRequest(bufio.NewReaderSize(slow, 512<<10))
			if err != nil {
				return
			}
			if n, _ := io.Copy(io.Discard, r.Body); n == size {
				time.Sleep(first * 9 / 10)
				p.say(plainOK)
			}
		})
		o := call(u)
		o.First, o.Body = first, make([]byte, size)
		began := time.Now()
		require.Equal(t, "ok", whole(t, tr, o))
		require.Greater(t, time.Since(began), 2*first, "the upload must have taken longer than the bound for this test to mean anything")
	})
}

func TestAnAnswerThatComesBeforeTheWholeRequestIsHeard(t *testing.T) {
	u := serve(t, func(p *peer) {
		_, _ = io.ReadFull(p.br, make([]byte, 100))
		p.say("HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big") // and closes with most of the body unread
	})
	o := call(u)
	o.Body = make([]byte, 64<<20)
	tr := transport(t)
	in, err := tr.Send(o)
	require.NoError(t, err)
	require.Equal(t, 413, in.Status())
	require.NoError(t, in.Close())
	require.Nil(t, tr.pool("http", u.host).get(time.Now()), "the connection is not kept")
}

func TestAConnectionThatBreaksUnderTheRequestIsAWriteFault(t *testing.T) {
	u := serve(t, func(p *peer) { _, _ = p.br.Peek(1); p.reset() })
	o := call(u)
	o.Body = make([]byte, 64<<20)
	require.Equal(t, actors.PhaseWrite, outcome(t, transport(t), o))
}

// Pains 30-32: when the client goes, the upstream is cut at once, wherever the call is.
func TestCancelEndsTheCallPromptlyInEveryPhaseAndClosesTheSocket(t *testing.T) {
	for what, c := range map[string]struct {
		secure bool
		body   int
		answer string
		reads  bool // the call is already in the body
	}{
		"in the TLS handshake":      {secure: true},
		"writing a large body":      {body: 64 << 20},
		"waiting for the head":      {},
		"within the head":           {answer: head + "X-A: "},
		"waiting for the body":      {answer: head + "Transfer-Encoding: chunked\r\n\r\n", reads: true},
		"within the body":           {answer: head + "Content-Length: 9\r\n\r\nhello", reads: true},
		"within an unbounded body":  {answer: head + "\r\nhello", reads: true},
		"between two chunks, in it": {answer: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", reads: true},
	} {
		t.Run(what, func(t *testing.T) {
			reached, closed := make(chan struct{}), make(chan struct{})
			u := serve(t, func(p *peer) {
				_, _ = p.br.Peek(1) // the ClientHello, or the request
				p.say(c.answer)
				close(reached)
				if c.body > 0 { // takes nothing more until the other side has closed
					eventually(t, "the socket is closed", func() bool { return peerClosed(p.Conn.(*net.TCPConn)) })
				}
				p.gone()
				close(closed)
			})
			o := call(u)
			o.First, o.Idle, o.Connect = time.Minute, time.Minute, time.Minute
			if c.secure {
				o.Scheme = "https"
			}
			if c.body > 0 {
				o.Body = make([]byte, c.body)
			}
			tr := transport(t)
			got := make(chan error, 1)
			go func() {
				in, err := tr.Send(o)
				if err == nil {
					_, err = io.ReadAll(in)
					in.Close()
				}
				got <- err
			}()
			<-reached
			within(t, 30*time.Second, "cancel", func() {
				o.Gone.Fire()
				require.Equal(t, actors.PhaseCancelled, phase(t, <-got))
				<-closed
			})
		})
	}
	t.Run("before it began", func(t *testing.T) {
		u := serve(t, func(p *peer) { p.gone() })
		o := call(u)
		o.Gone.Fire()
		require.Equal(t, actors.PhaseCancelled, outcome(t, transport(t), o))
		require.Zero(t, u.accepted.Load())
	})
}

func TestACancelledCallDoesNotTakeAnIdleConnectionWithIt(t *testing.T) {
	u := serve(t, func(p *peer) {
		for p.request() != nil {
			p.say(plainOK)
		}
	})
	tr := transport(t)
	require.Equal(t, "ok", whole(t, tr, call(u)))
	o := call(u)
	o.Gone.Fire()
	require.Equal(t, actors.PhaseCancelled, outcome(t, tr, o))
	require.Equal(t, "ok", whole(t, tr, call(u)))
	require.Equal(t, int32(1), u.accepted.Load())
}
