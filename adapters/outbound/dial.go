package outbound

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

// Egress is the way out that the environment asks for: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, upper or lower
// case. The zero value goes straight.
type Egress struct {
	secure, plain *url.URL
	except        []string
}

// EgressFrom reads the environment through getenv. A proxy that we can not use is an error that names the variable.
func EgressFrom(getenv func(string) string) (Egress, error) {
	var e Egress
	read := func(names ...string) (*url.URL, error) {
		for _, n := range names {
			for _, name := range []string{n, strings.ToLower(n)} {
				v := getenv(name)
				if v == "" {
					continue
				}
				if !strings.Contains(v, "://") { // as others read it
					v = "http://" + v
				}
				u, err := url.Parse(v)
				if err != nil || u.Host == "" {
					return nil, errors.Newf("%s: not a proxy address such as http://host:3128", name)
				}
				if u.Scheme != "http" {
					return nil, errors.Newf("%s: a proxy of scheme %q is not supported, only http", name, u.Scheme)
				}
				return u, nil
			}
		}
		return nil, nil
	}
	var err error
	if e.secure, err = read("HTTPS_PROXY", "ALL_PROXY"); err != nil {
		return Egress{}, err
	}
	if e.plain, err = read("HTTP_PROXY", "ALL_PROXY"); err != nil {
		return Egress{}, err
	}
	no := getenv("NO_PROXY")
	if no == "" {
		no = getenv("no_proxy")
	}
	for _, s := range strings.Split(no, ",") {
		if s = strings.ToLower(strings.TrimSpace(s)); s != "" {
			e.except = append(e.except, s)
		}
	}
	return e, nil
}

// EnvironmentEgress is EgressFrom of the process.
func EnvironmentEgress() (Egress, error) { return EgressFrom(os.Getenv) }

// Proxy is the proxy for a host ("host:port"), nil for none. Loopback is never proxied.
func (e Egress) Proxy(scheme, address string) *url.URL {
	p := e.plain
	if scheme == "https" {
		p = e.secure
	}
	if p == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	for _, x := range e.except {
		if excepted(x, host, port, ip) {
			return nil
		}
	}
	return p
}

// excepted says whether an entry of NO_PROXY means the host: "*", an address, a block of addresses, or a domain with
// all below it ("example.com", ".example.com", "*.example.com"), each with or without a port.
func excepted(entry, host, port string, ip net.IP) bool {
	if entry == "*" {
		return true
	}
	if _, block, err := net.ParseCIDR(entry); err == nil {
		return ip != nil && block.Contains(ip)
	}
	if h, p, err := net.SplitHostPort(entry); err == nil {
		if p != port {
			return false
		}
		entry = h
	}
	if own := net.ParseIP(strings.Trim(entry, "[]")); own != nil {
		return own.Equal(ip)
	}
	domain := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
	return domain != "" && (host == domain || strings.HasSuffix(host, "."+domain))
}

// dial makes a connection to the address, through the proxy if there is one, with TLS if the scheme asks for it.
func (t *Transport) dial(ctx context.Context, scheme, address string, bound time.Duration) (_ *conn, err error) {
	if bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bound)
		defer cancel()
	}
	to := address
	proxy := t.egress.Proxy(scheme, address)
	if proxy != nil {
		to = proxy.Host
		if proxy.Port() == "" {
			to = net.JoinHostPort(proxy.Hostname(), "3128")
		}
	}
	nc, err := t.dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	raw, _ := nc.(*net.TCPConn)
	if raw != nil && t.Socket != nil {
		nc = t.Socket(raw)
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() }) // from another goroutine: nc is not set again
	defer func() {
		if !stop() { // it was closed by us: that is the reason, whatever else was noticed
			err = errors.Wrap(ctx.Err(), "connect")
		}
		if err != nil {
			nc.Close()
		}
	}()
	if proxy != nil {
		if err := tunnel(nc, proxy, address); err != nil {
			return nil, err
		}
	}
	if scheme == "https" {
		host, _, _ := net.SplitHostPort(address)
		cfg := t.tls.Clone()
		cfg.ServerName = host
		tc := tls.Client(nc, cfg)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, errors.Wrap(err, "tls")
		}
		return newConn(tc, raw), nil
	}
	return newConn(nc, raw), nil
}

// tunnel asks an HTTP proxy for a way to the address.
func tunnel(nc net.Conn, proxy *url.URL, address string) error {
	auth := ""
	if u := proxy.User; u != nil {
		pass, _ := u.Password()
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass)) + "\r\n"
	}
	if _, err := fmt.Fprintf(nc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", address, address, auth); err != nil {
		return errors.Wrap(err, "proxy")
	}
	br := bufio.NewReaderSize(io.LimitReader(nc, 16<<10), 1)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return errors.Wrap(err, "proxy")
	}
	if resp.StatusCode != http.StatusOK {
		return errors.Newf("proxy %s answered %d to CONNECT", proxy.Host, resp.StatusCode)
	}
	return nil
}
