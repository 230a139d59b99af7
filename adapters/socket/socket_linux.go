package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// Direct is c with reads and writes of its own. Deadlines, Close and whatever else are c's. At most one goroutine reads and
// one writes at a time; Close may come from any.
func Direct(c *net.TCPConn) net.Conn {
	raw, err := c.SyscallConn()
	if err != nil {
		return c
	}
	d := &direct{TCPConn: c, raw: raw}
	d.read.step, d.write.step = d.read.receive, d.write.send
	return d
}

// direct is a connection whose calls of the kernel are not announced to the scheduler.
type direct struct {
	*net.TCPConn
	raw         syscall.RawConn
	read, write transfer
}

// transfer is one read or write under way. It belongs to the goroutine that does it.
type transfer struct {
	p    []byte // what is left of the caller's
	n    int    // bytes so far
	err  error
	step func(fd uintptr) (done bool) // made once for each connection
}

// atOnce bounds what one call of the kernel copies: the scheduler can not take the processor away meanwhile.
const atOnce = 256 << 10

// call is one call of the kernel; false: it would have had to wait. The file is never one that blocks: package net sees to it.
func (t *transfer) call(trap, fd uintptr, name string) (n int, ready bool) {
	p := t.p[:min(len(t.p), atOnce)]
	for {
		// p is alive and stays where it is: the compiler sees to that for a conversion in this place.
		n, _, e := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch e {
		case 0:
			return int(n), true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, false
		default:
			t.err = os.NewSyscallError(name, e)
			return 0, true
		}
	}
}

func (t *transfer) receive(fd uintptr) bool {
	n, ready := t.call(syscall.SYS_READ, fd, "read")
	t.n = n
	return ready
}

func (t *transfer) send(fd uintptr) bool {
	for len(t.p) > 0 {
		n, ready := t.call(syscall.SYS_WRITE, fd, "write")
		if !ready {
			return false
		}
		if t.err != nil {
			return true
		}
		t.n += n
		t.p = t.p[n:]
	}
	return true
}

// do runs a transfer through the poller, which waits as long as step is not done.
func (t *transfer) do(through func(func(uintptr) bool) error, p []byte) (int, error) {
	t.p, t.n, t.err = p, 0, nil
	err := through(t.step)
	t.p = nil // the caller's again
	if err == nil {
		err = t.err
	}
	return t.n, err
}

// Read implements net.Conn.
func (d *direct) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := d.read.do(d.raw.Read, p)
	if err != nil {
		return 0, d.named("read", err)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (d *direct) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := d.write.do(d.raw.Write, p)
	if err != nil {
		err = d.named("write", err)
	}
	return n, err
}

// named is an error as package net words it.
func (d *direct) named(op string, err error) error {
	if o := (*net.OpError)(nil); errors.As(err, &o) {
		err = o.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: d.LocalAddr(), Addr: d.RemoteAddr(), Err: err}
}
