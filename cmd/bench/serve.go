package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/telemetry"
)

// message is a line that the gateway's process says: where it is, first of all, then an answer to each command.
type message struct {
	Addr  string `json:"addr,omitempty"`
	Admin string `json:"admin,omitempty"`
	Token string `json:"token,omitempty"` // of the admin API
	Error string `json:"error,omitempty"` // "" = done
}

// serve is the gateway's process: what `penstock serve` opens, on free ports, and in addition a CPU profile on
// demand. Its commands are lines: "profile FILE" begins one, "stop" ends it. It ends with its input, so that it does
// not outlive the benchmark, or with ctx.
func serve(ctx context.Context, s settings, in io.Reader, out io.Writer) (err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(gatewayProcs))
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as penstock serve does
	log, err := telemetry.NewLogger(os.Stderr, "text", "info")
	if err != nil {
		return err
	}
	g, err := penstock.Open(penstock.Config{
		DataDir: s.serve, Store: s.store, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Durability: s.durability, Version: "bench", Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime/2)
		defer cancel()
		err = errors.CombineErrors(err, g.Close(drain))
	}()
	var p profile
	defer func() { err = errors.CombineErrors(err, p.stop()) }()

	say := json.NewEncoder(out)
	if err := say.Encode(message{Addr: g.Addr(), Admin: g.AdminAddr(), Token: g.AdminToken()}); err != nil {
		return errors.Wrap(err, "standard output")
	}
	commands := readLines(in)
	for {
		select {
		case command, ok := <-commands:
			if !ok {
				return nil
			}
			var m message
			if err := p.do(command); err != nil {
				m.Error = err.Error()
			}
			if err := say.Encode(m); err != nil {
				return errors.Wrap(err, "standard output")
			}
		case err := <-g.Failed():
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// readLines gives the lines of in; the channel is closed at its end.
func readLines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	return lines
}

// profile is a CPU profile of this process. The zero value takes none.
type profile struct{ file *os.File }

func (p *profile) do(command string) error {
	verb, path, _ := strings.Cut(command, " ")
	switch verb {
	case "profile":
		return p.start(path)
	case "stop":
		return p.stop()
	}
	return errors.Newf("command %q is neither profile nor stop", verb)
}

func (p *profile) start(path string) error {
	if p.file != nil {
		return errors.New("a profile is being taken already")
	}
	f, err := os.Create(path)
	if err != nil {
		return errors.Wrap(err, "profile")
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return errors.Wrap(err, "profile")
	}
	p.file = f
	return nil
}

// stop ends the profile that is being taken, if any.
func (p *profile) stop() error {
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	return errors.Wrap(err, "profile")
}
