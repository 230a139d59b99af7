package events

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Restored is what a backup has brought.
type Restored struct {
	Positions Position `json:"positions"` // facts
	Rows      int64    `json:"rows"`
	Commits   int64    `json:"commits"`
	Archived  int64    `json:"archived_rows"` // removed by retention: their hashes are there, they themselves are not
	Secrets   int      `json:"secrets"`       // versions of sealed credentials
	Groups    int      `json:"groups"`        // consumer groups of the feed
	Heads     int      `json:"heads"`         // known heads that the chain leads to
	Head      Head     `json:"head"`          // as the file has it, signed by the gateway that wrote it
}

// ReadBackup begins to read a backup. What Export wrote is refused.
func ReadBackup(r io.Reader) (*ExportFile, error) {
	f, err := ReadExport(r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBackup, err)
	case f.backup == nil:
		return nil, fmt.Errorf("%w: it is an export for audits: sealed credentials and the places of webhooks are not in it", ErrBackup)
	}
	return f, nil
}

// Backup is the first line of a backup; nil for an export.
func (f *ExportFile) Backup() *BackupHeading { return f.backup }

// InForce are the secrets of a backup that the configuration at its end has.
func (f *ExportFile) InForce() (list []*Secret) {
	for i, is := range f.inForce {
		if is {
			list = append(list, &f.belongings.Secrets[i])
		}
	}
	return list
}

// readBelongings reads what stands before the chain, whose first line is the next one then.
func (f *ExportFile) readBelongings() error {
	f.backup = f.next.Backup
	if f.backup.Format != backupForm {
		return fmt.Errorf("%w: it has format %d, and this program reads format %d: a newer one has written it", ErrExport, f.backup.Format, backupForm)
	}
	b := &f.belongings
	b.Head = f.backup.Position
	for {
		if err := f.read(); err != nil {
			return err
		}
		switch x := f.next; {
		case x == nil:
			return fmt.Errorf("%w: line %d: it ends before its events", ErrExport, f.n+1)
		case x.Secret != nil:
			v := x.Secret
			b.Secrets = append(b.Secrets, Secret{ID: string(v.ID), Version: v.Version, Sealed: notNil(v.Sealed), Digest: notNil(v.Digest)})
			f.inForce = append(f.inForce, v.InForce)
		case x.Group != nil:
			b.Groups = append(b.Groups, FeedCheckpoint{Group: string(x.Group.Name), Position: x.Group.Position, At: time.UnixMicro(x.Group.At).UTC()})
		case x.Sum != nil:
			return f.read()
		default:
			return fmt.Errorf("%w: line %d: a secret, a group or a sum is expected", ErrExport, f.n)
		}
	}
}

// over reads behind the head of a backup and says that it ends there as it was ended.
func (f *ExportFile) over() (bool, error) {
	if err := f.read(); err != nil {
		return false, err
	}
	if f.next == nil || f.next.Sum == nil {
		return false, nil
	}
	if err := f.read(); err != nil {
		return false, err
	}
	return f.next == nil && !f.cut, nil
}

// Restore fills an empty store from a backup, whose chain is checked while it is read, also against heads that are known from
// elsewhere. tell, unless nil, hears up to where it has come. All of the file is stored or, with an error, nothing: it wraps ErrBackup when the file is
// to blame, and ErrNotEmpty when the store is.
func Restore(ctx context.Context, store Movable, f *ExportFile, heads []Head, tell func(Position)) (Restored, error) {
	src := &restoring{file: f, checking: newChecking(f, Audit{Heads: heads}), tell: tell}
	b := &f.belongings
	err := store.Fill(ctx, b, src)
	if src.err != nil {
		err = src.err // the store says no more than that it could not go on
	}
	if err != nil {
		return Restored{}, err
	}
	r := &src.v.report
	return Restored{
		Positions: r.Positions, Rows: r.Rows, Commits: r.Commits, Archived: r.Archived, Secrets: len(b.Secrets), Groups: len(b.Groups), Heads: r.Heads, Head: *f.head,
	}, nil
}

// restoring is the chain of a backup. It ends without an error when all of the file is as it was written.
type restoring struct {
	file *ExportFile
	*checking
	tell func(Position)
	err  error // of the file
}

// Chain implements Chain.
func (r *restoring) Chain(ctx context.Context, _ Position, yield func(*Commit, []RawRow) bool) error {
	stopped := false
	err := r.checking.Chain(ctx, 0, func(c *Commit, rows []RawRow) bool {
		if c.Bounds == (Bounds{}) { // an audit passes over that
			at := c.First
			r.v.report.Fault, r.v.report.FirstBroken, r.v.report.Detail = Tampered, &at, "the link has no bounds"
			return false
		}
		if r.tell != nil {
			r.tell(c.First + Position(c.N) - 1)
		}
		stopped = !yield(c, rows)
		return !stopped
	})
	if stopped {
		return nil // the store knows why
	}
	if err == nil && r.v.report.Fault == "" {
		if r.v.end(); r.v.report.Fault == "" {
			err = r.file.verifyEnd(&r.v.report)
		}
	}
	if err == nil {
		err = r.fault()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrBackup, err)
	}
	r.err = err
	return err
}
