//go:build !linux

package spool

import "os"

func reserve(*os.File, int64) error { return nil }

func sync(f *os.File) error { return f.Sync() }
