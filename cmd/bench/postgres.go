package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/postgres/cluster"
)

// database is a private PostgreSQL server with fsync on.
type database struct {
	files  *cluster.Cluster
	server *child // nil: it was not started
}

// startPostgres makes a cluster and starts its server. What is there in case of an error is returned with it, to be removed.
func startPostgres(ctx context.Context) (*database, string, error) {
	files, err := cluster.Create(ctx, "penstock-bench-pg-")
	if err != nil {
		return nil, "", errors.Wrap(err, "store: postgres")
	}
	d := &database{files: files}
	port, err := cluster.FreePort(ctx)
	if err != nil {
		return d, "", err
	}
	// The shell ends the server with its own input, so that it does not outlive the benchmark.
	const script = `exec 3<&0; trap 'kill -INT $p' TERM
		"$0" -D "$1" -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=100 -c logging_collector=off 3<&- & p=$!
		(read -r _ <&3; kill -INT $p) & wait $p; wait $p`
	d.server, err = launch("postgres", files.Command(context.WithoutCancel(ctx), "/bin/sh", "-c", script,
		files.Program("postgres"), files.Data(), strconv.Itoa(port)))
	if err != nil {
		return d, "", err
	}
	for line := ""; !strings.Contains(line, "ready to accept connections"); {
		if line, err = d.server.next(ctx, d.server.stderr); err != nil {
			return d, "", err
		}
	}
	return d, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), nil
}

// remove ends the server and removes its files.
func (d *database) remove() error {
	if d.server != nil {
		d.server.end()
		d.server.wait()
	}
	return d.files.Remove()
}
