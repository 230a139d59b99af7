package main

import (
	"context"
	"io"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/cmd/penstock/cli"
	"github.com/penstock/penstock/events"
)

// openOffline gives the operator's commands the data of a stopped gateway.
func openOffline(ctx context.Context, s cli.Settings) (cli.Offline, error) {
	data, err := penstock.OpenOffline(ctx, s.Data, s.Store, s.SecretKey)
	if err != nil {
		return nil, err // not data: a nil *Offline in the interface would not be nil
	}
	return data, nil
}

// migrate is the command of that name on the data of a stopped gateway.
func migrate(ctx context.Context, s cli.Settings, dryRun bool) ([]string, error) {
	return penstock.Migrate(ctx, s.Data, s.Store, dryRun)
}

// backUp is the command backup on the data of a stopped gateway.
func backUp(ctx context.Context, s cli.Settings, to io.Writer) error {
	return penstock.Backup(ctx, s.Data, s.Store, versionOf(version), to)
}

// restore is the command of that name.
func restore(ctx context.Context, s cli.Settings, heads []events.Head, from io.Reader) (events.Restored, error) {
	return penstock.Restore(ctx, penstock.RestoreOptions{DataDir: s.Data, Store: s.Store, SecretKey: s.SecretKey, Heads: heads}, from)
}
