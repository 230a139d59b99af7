package simulator

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw sends pieces as they are, each in its own write, and reads n responses.
func raw(t *testing.T, s *Server, n int, pieces ...string) (out []*http.Response, bodies []string) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		for _, p := range pieces {
			io.WriteString(c, p)
		}
	}()
	r := bufio.NewReader(c)
	for range n {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		out, bodies = append(out, res), append(bodies, string(b))
	}
	return out, bodies
}

func TestRequestsAreReadHoweverTheBytesArrive(t *testing.T) {
	s := start(t, like(func(*Behavior) {}))
	const body = `{"model":"split","x":"[rid:r]"}`
	whole := fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nhost: x\r\nX-API-KEY: sk-raw\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
	big := strings.Repeat("y", 300_000)
	for name, c := range map[string]struct {
		pieces  []string
		answers int
	}{
		"whole":         {[]string{whole}, 1},
		"byte by byte":  {strings.Split(whole, ""), 1},
		"two pipelined": {[]string{whole + whole}, 2},
		"chunked": {[]string{"POST /v1/messages HTTP/1.1\r\nx-api-key: sk-raw\r\nTransfer-Encoding: chunked\r\n\r\n",
			"5\r\n" + body[:5] + "\r\n", fmt.Sprintf("%x;ext=1\r\n", len(body)-5), body[5:] + "\r\n0\r\nTrailer: x\r\n\r\n"}, 1},
		"chunked, then pipelined": {[]string{"POST /v1/messages HTTP/1.1\r\nx-api-key: sk-raw\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) + whole}, 2},
		"large": {[]string{fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nx-api-key: sk-raw\r\ncontent-length: %d\r\n\r\n%s", len(body)+len(big), body), big}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s.ResetStats()
			res, bodies := raw(t, s, c.answers, c.pieces...)
			for i := range res {
				if res[i].StatusCode != 200 || at(object(t, bodies[i]), "model") != "split" {
					t.Errorf("%d %s", res[i].StatusCode, bodies[i])
				}
			}
			if r := s.Requests()["r"]; r.Key != "sk-raw" || r.Attempts != c.answers {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestExpectContinueIsAnswered(t *testing.T) {
	s := start(t, Options{})
	res, _ := raw(t, s, 2, "POST /v1/messages HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", "{}")
	if res[0].StatusCode != 100 || res[1].StatusCode != 200 {
		t.Errorf("%d, then %d", res[0].StatusCode, res[1].StatusCode)
	}
}

func TestBadRequestsAreRefusedAndTheConnectionCloses(t *testing.T) {
	s := start(t, Options{})
	for text, status := range map[string]int{
		"NONSENSE\r\n\r\n": 400,
		"POST /v1/messages HTTP/1.1\r\nContent-Length: -5\r\n\r\n":                   400,
		"POST /v1/messages HTTP/1.1\r\nContent-Length: x\r\n\r\n":                    400,
		"POST /v1/messages HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n":         413,
		"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":     400,
		"POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\n": 400,
		"GET / HTTP/1.1\r\nx: " + strings.Repeat("x", headMax+bufSize):               431,
	} {
		res, body := raw(t, s, 1, text)
		if res[0].StatusCode != status || !res[0].Close || !strings.Contains(body[0], "mockllm: ") {
			t.Errorf("%.60q: %d %s", text, res[0].StatusCode, body[0])
		}
	}
}

func TestCredentialsAreFoundWhereverADialectPutsThem(t *testing.T) {
	s := start(t, Options{})
	const rest = "Content-Length: 2\r\n\r\n{}"
	for _, head := range []string{
		"/v1/responses HTTP/1.1\r\nAuthorization: Bearer k\r\n", "/v1/responses HTTP/1.1\r\nauthorization: k\r\n", "/v1/messages HTTP/1.1\r\nX-Api-Key: k\r\n",
		"/v1beta/models/m:generateContent HTTP/1.1\r\nx-goog-api-key: k\r\n", "/v1beta/models/m:generateContent?alt=json&key=k&x=1 HTTP/1.1\r\n",
		"/openai/deployments/d/chat/completions HTTP/1.1\r\napi-key: k\r\n",
	} {
		raw(t, s, 1, "POST "+head+rest)
	}
	if st := s.Stats(); st.ByKey["k"].Requests != 6 {
		t.Errorf("%+v", st.ByKey)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add("POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
	f.Add("POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	f.Add("GET /stats HTTP/1.1\r\n\r\nGET /x:generateContent HTTP/1.1\r\n\r\n")
	s := New(Options{TrackRequests: true})
	if err := s.Start("127.0.0.1:0"); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, text string) {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Skip(err)
		}
		defer c.Close()
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c) // whatever was sent, the server must live and end the connection
	})
}
