package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// parcel is a file that is written beside its name, and takes it when all of it is on disk; or an output that is no file.
type parcel struct {
	io.Writer
	path  string // "": no file
	force bool
	temp  *os.File
	zip   *gzip.Writer // nil: it is not compressed
}

func openParcel(path string, force bool) (*parcel, error) {
	f := &parcel{path: path, force: force}
	if err := f.free(); err != nil {
		return nil, err
	}
	var err error
	if f.temp, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"); err != nil { // mode 0600
		return nil, errors.Wrap(err, "--out")
	}
	f.Writer = f.temp
	if strings.HasSuffix(path, ".gz") {
		f.zip, _ = gzip.NewWriterLevel(f.temp, gzip.BestSpeed) // the level is one
		f.Writer = f.zip
	}
	return f, nil
}

// free refuses a name that is taken.
func (f *parcel) free() error {
	switch is, err := os.Lstat(f.path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return errors.Wrap(err, "--out")
	case is.IsDir():
		return usagef("--out: %s is a folder", f.path)
	case !f.force:
		return errors.WithHint(errors.Newf("--out: there is a file %s", f.path), "choose another name, or write over it with --force")
	}
	return nil
}

// place gives the file its name.
func (f *parcel) place() error {
	if f.path == "" {
		return nil
	}
	var err error
	if f.zip != nil {
		err = f.zip.Close()
	}
	err = errors.CombineErrors(errors.CombineErrors(err, f.temp.Sync()), f.temp.Close())
	if err == nil {
		err = f.free()
	}
	if err == nil {
		err = os.Rename(f.temp.Name(), f.path)
	}
	if err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	return errors.CombineErrors(folder.Sync(), folder.Close())
}

// drop removes what has not got its name.
func (f *parcel) drop() {
	_ = f.temp.Close()
	_ = os.Remove(f.temp.Name())
}

// passing is a backup on its way: it tells how far it is, and in the end whether it is whole.
type passing struct {
	w    io.Writer
	show func(projections.Progress)

	line []byte          // beginning of the line at hand
	at   events.Position // of the last commit
	to   events.Position

	secrets, groups int
	head            *events.Head
	ended           bool // by the last line
}

// lineHead bounds what is kept of a line: more than the longest that is looked at has.
const lineHead = 1 << 10

func (b *passing) Write(p []byte) (int, error) {
	n, err := b.w.Write(p)
	for rest := p[:n]; len(rest) > 0; {
		part, more, whole := bytes.Cut(rest, []byte("\n"))
		if room := lineHead - len(b.line); room > 0 {
			b.line = append(b.line, part[:min(room, len(part))]...)
		}
		if whole {
			b.passed()
			b.line = b.line[:0]
		}
		rest = more
	}
	return n, err
}

// passed looks at a line.
func (b *passing) passed() {
	b.ended = false
	kind, text, _ := bytes.Cut(b.line, []byte(`":`))
	switch string(kind) {
	case `{"commit`:
		digits, _, _ := strings.Cut(strings.TrimPrefix(string(text), `{"first":`), ",")
		if at, err := strconv.ParseInt(digits, 10, 64); err == nil {
			b.at = events.Position(at)
			b.show(projections.Progress{Projection: "backup", Position: b.at, To: b.to})
		}
	case `{"secret`:
		b.secrets++
	case `{"group`:
		b.groups++
	case `{"backup`:
		var line struct{ Backup events.BackupHeading }
		if json.Unmarshal(b.line, &line) == nil {
			b.to = line.Backup.Position
		}
	case `{"head`:
		var line struct{ Head *events.Head }
		if json.Unmarshal(b.line, &line) == nil {
			b.head = line.Head
		}
	case `{"sum`:
		b.ended = true
	}
}

// whole says what is missing.
func (b *passing) whole() error {
	if !b.ended || len(b.line) > 0 || b.head == nil || b.head.Position != b.to {
		return errors.Newf("it ended early, at position %d of %d", b.at, b.to)
	}
	return nil
}
