package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
)

// child is a process that the benchmark started.
type child struct {
	name, addr     string
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr *output
	ended          chan struct{} // closed when it has ended and all that it wrote is there
}

func launch(name string, cmd *exec.Cmd) (*child, error) {
	c := &child{name: name, cmd: cmd, stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, errors.Wrap(err, name)
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Wrap(err, name)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its state
		close(c.ended)
	}()
	return c, nil
}

// answerTime bounds how long a child may take to say something; it is long because the machine may be busy.
const answerTime = 30 * time.Second

// next is the next line of an output.
func (c *child) next(ctx context.Context, from *output) (string, error) {
	timeout := time.NewTimer(answerTime)
	defer timeout.Stop()
	select {
	case line := <-from.lines:
		return line, nil
	case <-c.ended:
	case <-timeout.C:
		return "", errors.Newf("%s: says nothing", c.name)
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case line := <-from.lines:
		return line, nil
	default:
		return "", c.gone()
	}
}

// gone is the error of a process that ended unasked, with its last words.
func (c *child) gone() error {
	return errors.Newf("%s: ended (%s): %s", c.name, c.cmd.ProcessState, c.stderr.last())
}

// userHertz is the unit of the kernel's accounts on every Linux that Go runs on.
const userHertz = 100

// cpu is what the process has used since it began, in seconds.
func (c *child) cpu() (float64, error) {
	select {
	case <-c.ended:
		return 0, c.gone()
	default:
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0, errors.Wrap(err, c.name)
	}
	ticks, err := ticksOf(b)
	return ticks / userHertz, errors.Wrap(err, c.name)
}

// ticksOf reads user and system time from the text of /proc/PID/stat.
func ticksOf(stat []byte) (ticks float64, err error) {
	// The name may hold anything, but no parenthesis stands after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, errors.Newf("account of a process can not be read: %q", stat)
	}
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, errors.Wrap(err, "account of a process")
		}
		ticks += float64(n)
	}
	return ticks, nil
}

// end asks the process to end.
func (c *child) end() {
	_ = c.stdin.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
}

// endTime bounds how long that may take.
const endTime = 15 * time.Second

// wait returns when the process has ended.
func (c *child) wait() {
	select {
	case <-c.ended:
	case <-time.After(endTime):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// output takes what a process writes. It never holds the writer up: lines that nobody asks for are dropped once
// linesMax wait. The last tailMax bytes are kept.
type output struct {
	lines chan string

	mu   sync.Mutex
	line []byte // begun, without its end
	tail []byte
}

const (
	linesMax = 16
	tailMax  = 4096
)

func newOutput() *output { return &output{lines: make(chan string, linesMax)} }

// Write is an io.Writer's.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, p...)
	o.tail = o.tail[max(0, len(o.tail)-tailMax):]
	o.line = append(o.line, p...)
	for {
		line, rest, whole := bytes.Cut(o.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		select {
		case o.lines <- string(line):
		default:
		}
		o.line = append([]byte(nil), rest...)
	}
}

// last is what was written last.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.tail))
}
