package outbound

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
)

func environment(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func TestTheEnvironmentChoosesTheProxy(t *testing.T) {
	const a, b, c = "http://a:1", "http://b:2", "http://c:3"
	for _, x := range []struct {
		what          string
		env           []string
		secure, plain string
	}{
		{"nothing set", nil, "", ""},
		{"one each", []string{"HTTPS_PROXY", a, "HTTP_PROXY", b}, a, b},
		{"only for https", []string{"HTTPS_PROXY", a}, a, ""},
		{"only for http", []string{"HTTP_PROXY", a}, "", a},
		{"one for all", []string{"ALL_PROXY", a}, a, a},
		{"the special one wins", []string{"ALL_PROXY", a, "HTTPS_PROXY", b}, b, a},
		{"lower case", []string{"https_proxy", a, "http_proxy", b}, a, b},
		{"lower case for all", []string{"all_proxy", a}, a, a},
		{"upper case wins", []string{"HTTPS_PROXY", a, "https_proxy", b, "ALL_PROXY", c}, a, c},
		{"without a scheme", []string{"HTTPS_PROXY", "a:1", "HTTP_PROXY", "10.0.0.1:3128"}, a, "http://10.0.0.1:3128"},
	} {
		e, err := EgressFrom(environment(x.env...))
		require.NoError(t, err, x.what)
		for scheme, want := range map[string]string{"https": x.secure, "http": x.plain} {
			got := ""
			if u := e.Proxy(scheme, "api.example.com:443"); u != nil {
				got = u.String()
			}
			require.Equal(t, want, got, "%s: %s", x.what, scheme)
		}
	}
	require.Nil(t, Egress{}.Proxy("https", "api.example.com:443"), "the zero value goes straight")
}

func TestAProxyThatWeCanNotUseIsRefusedByTheNameOfItsVariableAndWithoutItsSecret(t *testing.T) {
	for _, x := range []struct{ name, value, says string }{
		{"HTTPS_PROXY", "https://user:pass@proxy:3129", `"https"`},
		{"https_proxy", "socks5://user:pass@proxy:1080", `"socks5"`},
		{"ALL_PROXY", "socks5h://user:pass@proxy:1080", `"socks5h"`},
		{"HTTP_PROXY", "http://", "not a proxy address"},
		{"HTTP_PROXY", "http://user:pass@pro xy:1", "not a proxy address"},
		{"http_proxy", "http://user:pass@proxy:port", "not a proxy address"},
	} {
		_, err := EgressFrom(environment(x.name, x.value))
		require.ErrorContains(t, err, x.name+":")
		require.ErrorContains(t, err, x.says)
		require.NotContains(t, err.Error(), "pass")
	}
}

func TestNoProxyExceptsHosts(t *testing.T) {
	for _, x := range []struct {
		except, address string
		direct          bool
	}{
		{"", "api.example.com:443", false},
		{"*", "api.example.com:443", true},
		{"example.com", "example.com:443", true},
		{"example.com", "api.example.com:443", true},
		{"example.com", "badexample.com:443", false},
		{"example.com", "example.com.evil.net:443", false},
		{".example.com", "api.example.com:443", true},
		{"*.example.com", "api.example.com:443", true},
		{"other.net, EXAMPLE.com ,x", "API.Example.COM:443", true},
		{"example.com", "example.com.:443", true},
		{"example.com:443", "api.example.com:443", true},
		{"example.com:8443", "api.example.com:443", false},
		{"10.1.2.3", "10.1.2.3:443", true},
		{"10.1.2.3:443", "10.1.2.3:443", true},
		{"10.1.2.3:80", "10.1.2.3:443", false},
		{"10.1.2.3", "110.1.2.3:443", false},
		{"10.1.0.0/16", "10.1.2.3:443", true},
		{"10.1.0.0/16", "10.2.2.3:443", false},
		{"10.1.0.0/16", "ten.example.com:443", false},
		{"fd00::/8", "[fd12::1]:443", true},
		{"fd12::1", "[fd12:0::1]:443", true},
		{"[fd12::1]:443", "[fd12::1]:443", true},
		{"fd00::/8", "[2001:db8::1]:443", false},
		{",., ,", "api.example.com:443", false},
		{"", "localhost:443", true}, // loopback is never proxied
		{"", "127.0.0.1:443", true},
		{"", "127.9.9.9:443", true},
		{"", "[::1]:443", true},
	} {
		for _, name := range []string{"NO_PROXY", "no_proxy"} {
			e, err := EgressFrom(environment("ALL_PROXY", "http://proxy:1", name, x.except))
			require.NoError(t, err)
			require.Equal(t, x.direct, e.Proxy("https", x.address) == nil, "%s=%q, %s", name, x.except, x.address)
		}
	}
}

// connectProxy is a small CONNECT proxy. It takes every address to one upstream, since names of the test resolve nowhere.
func connectProxy(t *testing.T, to string, answer func(*http.Request) string) *upstream {
	return serve(t, func(p *peer) {
		r, err := http.ReadRequest(p.br)
		if err != nil {
			return
		}
		p.u.requests.Add(1)
		if says := answer(r); says != "" {
			p.say(says)
			return
		}
		up, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer up.Close()
		p.say("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
		go func() { defer up.Close(); _, _ = io.Copy(up, p.br) }()
		_, _ = io.Copy(p, up)
	})
}

func through(t *testing.T, proxy string) *Transport {
	t.Helper()
	e, err := EgressFrom(environment("ALL_PROXY", proxy))
	require.NoError(t, err)
	tr := New(e)
	t.Cleanup(tr.Close)
	return tr
}

func TestACallGoesThroughTheProxyWithItsCredentials(t *testing.T) {
	config, roots := testCA(t)
	reply := func(p *peer) {
		for p.request() != nil {
			p.say(plainOK)
		}
	}
	for scheme, u := range map[string]*upstream{"http": serve(t, reply), "https": serveTLS(t, config, reply)} {
		var asked atomic.Value
		proxy := connectProxy(t, u.host, func(r *http.Request) string {
			asked.Store(r.Method + " " + r.RequestURI + " " + r.Host + " " + r.Header.Get("Proxy-Authorization"))
			return ""
		})
		tr := through(t, "http://us%40er:p%3Ass@"+proxy.host)
		tr.tls.RootCAs = roots
		o := call(u)
		o.Host = "example.com" // the name on the certificate; it gets its scheme's port
		require.Equal(t, "ok", whole(t, tr, o))
		require.Equal(t, "ok", whole(t, tr, o))
		port := map[string]string{"http": "80", "https": "443"}[scheme]
		require.Equal(t, "CONNECT example.com:"+port+" example.com:"+port+" Basic dXNAZXI6cDpzcw==", asked.Load())
		require.Equal(t, int32(1), proxy.requests.Load(), "the tunnel is used again")
	}
}

func TestAProxyThatRefusesIsAConnectFaultThatNamesItAndNoSecret(t *testing.T) {
	for what, c := range map[string]struct{ answer, says string }{
		"needs credentials": {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "407"},
		"forbids":           {"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!", "403"},
		"speaks no HTTP":    {"what?\r\n\r\n", "proxy"},
		"says too much":     {"HTTP/1.1 200 OK\r\nX: " + string(make([]byte, 20<<10)), "proxy"},
	} {
		proxy := connectProxy(t, "", func(*http.Request) string { return c.answer })
		tr := through(t, "http://user:pass@"+proxy.host)
		_, err := tr.Send(&actors.Outgoing{Method: "GET", Scheme: "https", Host: "api.example.com", Target: "/", Connect: time.Minute, Gone: &actors.Gone{}})
		require.Equal(t, actors.PhaseConnect, phase(t, err), what)
		require.ErrorContains(t, err, c.says, what)
		require.NotContains(t, err.Error(), "pass")
	}
}

// Who ends the dialling closes the connection from another goroutine: it must be the whole of it by then (a race, where it is not).
func TestAProxyThatNeverAnswersIsGivenUp(t *testing.T) {
	ended := make(chan struct{}, 100)
	proxy := serve(t, func(p *peer) {
		_, _ = io.Copy(io.Discard, p.br)
		ended <- struct{}{}
	})
	tr := through(t, "http://"+proxy.host)
	tr.Socket = func(c *net.TCPConn) net.Conn { return &wrapped{c} }
	for proxy.accepted.Load() == 0 { // on a machine that stands still the time may be over before the proxy is called
		_, err := tr.Send(&actors.Outgoing{Method: "GET", Scheme: "http", Host: "api.example.com", Target: "/", Connect: 50 * time.Millisecond, Gone: &actors.Gone{}})
		require.Equal(t, actors.PhaseConnectTimeout, phase(t, err))
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the connection to the proxy was left open")
	}
}

// wrapped is a socket of the composition root's making.
type wrapped struct{ *net.TCPConn }

func TestTLSChecksTheUpstreamsCertificate(t *testing.T) {
	config, roots := testCA(t)
	u := serveTLS(t, config, func(p *peer) {
		for p.request() != nil {
			p.say(plainOK)
		}
	})
	tr := transport(t)
	_, err := tr.Send(call(u))
	require.Equal(t, actors.PhaseConnect, phase(t, err))
	require.ErrorContains(t, err, "certificate")
	tr.tls.RootCAs = roots
	require.Equal(t, "ok", whole(t, tr, call(u)))
	require.Equal(t, "ok", whole(t, tr, call(u)))
	require.Equal(t, int32(2), u.requests.Load())
	require.Equal(t, int32(2), u.accepted.Load(), "the refused handshake and one connection for both calls")
}

func TestConnectFailuresAreToldApart(t *testing.T) {
	const refused = "127.0.0.1:1" // nobody listens there
	mute := serve(t, func(p *peer) { p.gone() })
	for what, c := range map[string]struct {
		tr     *Transport
		scheme string
		host   string
		phase  actors.Phase
	}{
		"refused":                  {transport(t), "http", refused, actors.PhaseConnect},
		"a name that is none":      {transport(t), "http", "no such host", actors.PhaseConnect},
		"a handshake that stalls":  {transport(t), "https", mute.host, actors.PhaseConnectTimeout},
		"a proxy that says no":     {through(t, "http://"+refused), "https", "api.example.com", actors.PhaseConnect},
		"a proxy that says naught": {through(t, "http://"+mute.host), "https", "api.example.com", actors.PhaseConnectTimeout},
	} {
		t.Run(what, func(t *testing.T) {
			o := &actors.Outgoing{Method: "GET", Scheme: c.scheme, Host: c.host, Target: "/", Connect: time.Minute, Gone: &actors.Gone{}}
			if c.phase == actors.PhaseConnectTimeout {
				o.Connect = 80 * time.Millisecond
			}
			within(t, 30*time.Second, "connect", func() { require.Equal(t, c.phase, outcome(t, c.tr, o)) })
		})
	}
}

func TestAFaultOfThisMachineIsNoneOfTheUpstreams(t *testing.T) {
	for err, want := range map[error]actors.Phase{
		context.DeadlineExceeded: actors.PhaseConnectTimeout, io.ErrUnexpectedEOF: actors.PhaseConnect,
		&net.OpError{Op: "dial", Err: syscall.EMFILE}: actors.PhaseLocal,
	} {
		require.Equal(t, want, connectPhase(err))
	}
}
