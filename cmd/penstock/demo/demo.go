// Package demo runs a throw-away gateway over simulated upstreams, sends mixed traffic through it and tells what
// happened. It reads nothing of the environment and leaves nothing behind.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/cmd/penstock/cli"
)

// Command is `penstock demo`.
func Command(version string) *cobra.Command {
	var exit bool
	var requests int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a gateway at work over simulated upstreams",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if requests < 1 || requests > 1_000_000 {
				return cli.Usage(errors.Newf("requests: %d is not between 1 and 1000000", requests))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			err := run(ctx, cmd.OutOrStdout(), version, requests, exit)
			if err != nil && ctx.Err() != nil {
				return errors.New("ended before its report") // not what was under way at that moment
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&exit, "exit", false, "end after the report instead of staying up")
	cmd.Flags().IntVar(&requests, "requests", 200, "requests to send")
	return cmd
}

// stage is the demo's world.
type stage struct {
	out       io.Writer
	dir       string
	gateway   *penstock.Gateway
	upstreams map[string]*simulator.Server
	keys      map[string]string // id → secret
}

func run(ctx context.Context, out io.Writer, version string, requests int, exit bool) (err error) {
	s := &stage{out: out, upstreams: map[string]*simulator.Server{}, keys: map[string]string{}}
	defer func() { err = errors.CombineErrors(err, s.close()) }()
	if err := s.open(ctx, version); err != nil {
		return err
	}
	s.introduce()
	took, err := s.traffic(ctx, requests)
	if err != nil {
		return err
	}
	if err := s.report(ctx, requests, took); err != nil {
		return err
	}
	if exit {
		return nil
	}
	fmt.Fprintf(out, "\nStill running, in %s; Ctrl-C ends it and removes everything.\n", s.dir)
	<-ctx.Done()
	return nil
}

// open starts the simulated upstreams and a gateway on an empty folder, and configures it as an operator would.
func (s *stage) open(ctx context.Context, version string) error {
	for id, b := range behaviors() {
		u := simulator.New(simulator.Options{Seed: 7, Config: b})
		if err := u.Start("127.0.0.1:0"); err != nil {
			return errors.Wrapf(err, "simulated upstream %s", id)
		}
		s.upstreams[id] = u
	}
	var err error
	if s.dir, err = os.MkdirTemp("", "penstock-demo-"); err != nil {
		return errors.Wrap(err, "temporary folder")
	}
	s.gateway, err = penstock.Open(penstock.Config{
		DataDir: s.dir, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Version: version,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := s.admin(ctx, "POST", "/api/v1/apply", map[string]any{"resources": s.resources()}, nil); err != nil {
		return err
	}
	for _, k := range keys() {
		var made struct{ Secret string }
		if err := s.admin(ctx, "POST", "/api/v1/keys", k, &made); err != nil {
			return err
		}
		s.keys[k["id"].(string)] = made.Secret
	}
	return nil
}

func (s *stage) close() error {
	var err error
	if s.gateway != nil {
		ctx, cancel := context.WithTimeout(context.Background(), penstock.DrainTime)
		defer cancel()
		err = s.gateway.Close(ctx)
	}
	for _, u := range s.upstreams {
		err = errors.CombineErrors(err, u.Close())
	}
	if s.dir != "" {
		err = errors.CombineErrors(err, os.RemoveAll(s.dir))
	}
	return err
}

// admin speaks with the gateway's admin API.
func (s *stage) admin(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return errors.Wrap(err, path)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.gateway.AdminAddr()+path, body)
	if err != nil {
		return errors.Wrap(err, path)
	}
	req.Header.Set("Authorization", "Bearer "+s.gateway.AdminToken())
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return errors.Wrap(err, path)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return errors.Wrap(err, path)
	}
	if resp.StatusCode/100 != 2 {
		return errors.Newf("%s %s: %d %s", method, path, resp.StatusCode, b)
	}
	if out == nil {
		return nil
	}
	return errors.Wrap(json.Unmarshal(b, out), path)
}

// introduce says what there is.
func (s *stage) introduce() {
	base := "http://" + s.gateway.Addr()
	fmt.Fprintf(s.out, `Penstock demo: a gateway between two users and three simulated providers

  gateway    %s   (what clients call)
  admin API  http://%s
  upstreams  shaky    tried first; answers every third call with an error, a cut or nothing at all
             steady   takes over when shaky fails
             small    the only one with model slow-demo; slow, 2 slots, 12 may wait
  users      alice    key alice-laptop, may use everything
             bob      key bob-ci, may not use gemini-demo
  a key      %s   (alice-laptop)
  try        curl %s/v1/chat/completions -H 'Authorization: Bearer %s' \
               -d '{"model":"gpt-demo","messages":[{"role":"user","content":"Hello"}]}'

`, base, s.gateway.AdminAddr(), s.keys["alice-laptop"], base, s.keys["alice-laptop"])
}

// short is a time in a form for people.
func short(d time.Duration) string { return d.Round(time.Millisecond).String() }
