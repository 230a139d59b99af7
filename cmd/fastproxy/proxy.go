package main

import (
	"bufio"
	"context"
	"net"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/valyala/fasthttp"
)

const (
	upstreamConnsMax = 8192
	bodyMax          = 64 << 20
	answerTimeout    = 5 * time.Minute // to the head of the answer
	pieceSize        = 8 << 10
)

// proxy passes requests to one upstream.
type proxy struct {
	up, credential string
	client         *fasthttp.LBClient
	server         *fasthttp.Server
}

func newProxy(up, key string) *proxy {
	host := &fasthttp.HostClient{
		Addr: up, MaxConns: upstreamConnsMax, StreamResponseBody: true, MaxIdleConnDuration: time.Minute,
		NoDefaultUserAgentHeader: true, DisablePathNormalizing: true, DisableHeaderNamesNormalizing: true,
		// A call to a model is never sent twice.
		RetryIfErr: func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
	}
	p := &proxy{up: up, credential: "Bearer " + key,
		client: &fasthttp.LBClient{Clients: []fasthttp.BalancingClient{host}, Timeout: answerTimeout}}
	p.server = &fasthttp.Server{Handler: p.handle, MaxRequestBodySize: bodyMax, DisableHeaderNamesNormalizing: true, NoDefaultServerHeader: true, CloseOnShutdown: true}
	return p
}

// serve answers until ctx ends, then lets requests under way finish for a second.
func (p *proxy) serve(ctx context.Context, ln net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- p.server.Serve(ln) }()
	select {
	case err := <-ended:
		return errors.Wrap(err, "serve")
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.server.ShutdownWithContext(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return errors.Wrap(err, "shutdown")
}

func (p *proxy) handle(ctx *fasthttp.RequestCtx) {
	req := &ctx.Request
	req.Header.Set(fasthttp.HeaderAuthorization, p.credential)
	req.SetHost(p.up)
	res := fasthttp.AcquireResponse()
	res.StreamBody = true
	if err := p.client.Do(req, res); err != nil {
		fasthttp.ReleaseResponse(res)
		ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		return
	}
	ctx.Response.SetStatusCode(res.StatusCode())
	ctx.Response.Header.SetContentTypeBytes(res.Header.ContentType())
	if e := res.Header.ContentEncoding(); len(e) > 0 {
		ctx.Response.Header.SetContentEncodingBytes(e)
	}
	if res.Header.ContentLength() >= 0 || res.BodyStream() == nil {
		ctx.Response.SetBody(res.Body())
		fasthttp.ReleaseResponse(res)
		return
	}
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer fasthttp.ReleaseResponse(res)
		defer res.CloseBodyStream()
		passOn(w, res)
	})
}

// passOn flushes each piece of a stream as it comes. It ends with the stream, or when the client is gone. A stream
// that the upstream cut ends like a whole one, as far as HTTP goes: fasthttp's stream writer cannot say otherwise.
func passOn(w *bufio.Writer, res *fasthttp.Response) {
	buf := make([]byte, pieceSize)
	for {
		n, err := res.BodyStream().Read(buf)
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return
			}
			if w.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
