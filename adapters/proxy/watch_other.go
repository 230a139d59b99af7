//go:build !linux

package proxy

import (
	"net"

	"github.com/penstock/penstock/actors"
)

// Without epoll a client that hangs up is noticed only by the next write to it.
type watcher struct{}

func newWatcher() (*watcher, error) { return &watcher{}, nil }

func (*watcher) close() {}

func (*watcher) hangUp() {}

type watched struct{}

func (*watched) onGone(*actors.Gone) {}

func (*watched) disarm(*actors.Gone) {}

func (*watched) texts() *texts { return &texts{} }

func (*watched) hearOut() {}

func (*watched) next() {}

func (*watched) alone(_, _ []byte) bool { return false }

func (*watched) asked() string { return "" }

func watchedBy(net.Conn) *watched { return nil }

type watchListener struct {
	net.Listener
	w      *watcher
	socket func(*net.TCPConn) net.Conn // not used: nothing stands between the server and its connections here
}
