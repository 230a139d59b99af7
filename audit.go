package penstock

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
)

// Files of the data folder, the second also of the archive, that prove what the events were.
const (
	headKeyFile = "head.key"    // seed of the ed25519 key that signs heads, hex; mode 0600
	headsFile   = "heads.jsonl" // signed heads, one per line
)

// headEvery is how often the head of the chain is signed and written down.
const headEvery = time.Hour

// auditor signs heads of the chain, checks the chain against those that were signed, and exports it.
type auditor struct {
	chain events.Store
	key   ed25519.PrivateKey
	path  string // of the signed heads
	log   *slog.Logger
	now   func() time.Time

	elsewhere func() (folder string, err error) // the archive, where heads are written down too; "" for nowhere
	tell      func(events.Head)                 // hands a head to the outside and returns at once; nil: there is none

	keeping  sync.Mutex // heads are kept one after the other
	last     events.Head
	archived string // folder that has the last one

	mu sync.Mutex // of the file
}

// openAuditor reads the signing key of a data folder and makes it when there is none.
func openAuditor(dir string, chain events.Store, log *slog.Logger) (*auditor, error) {
	a := &auditor{chain: chain, path: filepath.Join(dir, headsFile), log: log, now: time.Now}
	var made bool
	var err error
	if a.key, made, err = loadHeadKey(filepath.Join(dir, headKeyFile)); err != nil {
		return nil, err
	}
	if made { // heads of a key that is gone are kept, and prove only what somebody knows to be theirs
		old := filepath.Join(dir, "heads."+a.now().UTC().Format("20060102T150405")+".jsonl")
		if err := os.Rename(a.path, old); err == nil {
			log.Warn("the key that signed earlier heads of the chain is gone; a new one was made", "heads", old)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Wrap(err, "signed heads")
		}
	}
	return a, nil
}

// loadHeadKey reads the key, or makes it.
func loadHeadKey(path string) (key ed25519.PrivateKey, made bool, err error) {
	text, err := os.ReadFile(path)
	if made = errors.Is(err, fs.ErrNotExist); made {
		_, fresh, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, false, errors.Wrap(err, "signing key")
		}
		text = []byte(hex.EncodeToString(fresh.Seed()) + "\n")
		if err := place(path, text); err != nil {
			return nil, false, errors.Wrap(err, "signing key")
		}
	} else if err != nil {
		return nil, false, errors.Wrap(err, "signing key")
	}
	seed, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, false, errors.Newf("signing key: %s does not hold %d hex digits", path, 2*ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), made, nil
}

// place writes a file whole or not at all, readable by its owner alone.
func place(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	err = errors.CombineErrors(errors.CombineErrors(err, temp.Sync()), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// AuditHead is the end of the chain, signed now.
func (a *auditor) AuditHead(ctx context.Context) (events.Head, error) {
	at, err := a.chain.Head(ctx)
	if err != nil {
		return events.Head{}, err
	}
	var head events.Head
	err = a.chain.Chain(ctx, max(at-1, 0), func(c *events.Commit, _ []events.RawRow) bool {
		head = events.Head{Position: c.First + events.Position(c.N) - 1, Hash: c.Hash}
		return true
	})
	head.Sign(a.key, a.now())
	return head, errors.Wrap(err, "read the head of the chain")
}

// AuditVerify checks the whole chain against the given heads and those that were signed here before. A head whose
// signature is not that of its key is an error.
func (a *auditor) AuditVerify(ctx context.Context, heads []events.Head) (events.Report, error) {
	known, err := a.known()
	if err != nil {
		return events.Report{}, err
	}
	for i := range heads {
		if err := heads[i].Check(events.Sum{}); err != nil {
			return events.Report{}, err
		}
	}
	removed, err := events.Removals(ctx, a.chain)
	if err != nil {
		return events.Report{}, err
	}
	gone := func(at events.Position) bool {
		if removed(at) {
			return true
		}
		if fresh, err := events.Removals(ctx, a.chain); err == nil { // more may go while the chain is read
			removed = fresh
		}
		return removed(at)
	}
	return events.Audit{Heads: append(known, heads...), Removed: gone}.Verify(ctx, a.chain)
}

// AuditExport writes the links with rows of a time, and the head that they lead to, signed.
func (a *auditor) AuditExport(ctx context.Context, since, until time.Time, w io.Writer) error {
	last, err := a.chain.Head(ctx)
	if err != nil {
		return err
	}
	first := events.Position(1)
	if !since.IsZero() {
		first = last + 1 // unless a row is found
		err = a.chain.Find(ctx, events.Query{Since: since, Limit: 1}, func(c *events.Committed) bool { first = c.Position; return true })
	}
	if !until.IsZero() && err == nil {
		last = 0
		err = a.chain.Find(ctx, events.Query{Until: until, Newest: true, Limit: 1}, func(c *events.Committed) bool { last = c.Position; return true })
	}
	if err != nil {
		return errors.Wrap(err, "find the events of a time")
	}
	_, err = events.Export(ctx, a.chain, first, last, func(h *events.Head) { h.Sign(a.key, a.now()) }, w)
	return err
}

// known are the heads that were signed here.
func (a *auditor) known() ([]events.Head, error) {
	a.mu.Lock()
	text, err := os.ReadFile(a.path)
	a.mu.Unlock()
	return headsOf(a.path, text, err, events.Sum(a.key.Public().(ed25519.PublicKey)))
}

// headsOf are the heads in the text of a file, or none when reading has said that there is no file. The key must have signed them;
// the zero one is any.
func headsOf(path string, text []byte, reading error, by events.Sum) ([]events.Head, error) {
	if errors.Is(reading, fs.ErrNotExist) {
		return nil, nil
	}
	if reading != nil {
		return nil, errors.Wrap(reading, "signed heads")
	}
	heads, err := parseHeadLines(text)
	for i := 0; err == nil && i < len(heads); i++ {
		err = heads[i].Check(by)
	}
	return heads, errors.Wrapf(err, "signed heads: %s", path)
}

// parseHeadLines reads the heads of a file.
func parseHeadLines(text []byte) ([]events.Head, error) {
	if i := bytes.LastIndexByte(text, '\n'); i < len(text)-1 { // the process ended while it wrote the last one
		text = text[:i+1]
	}
	return events.ParseHeads(text)
}

// keep signs the head, writes it to the log and to the file and tells it, unless it is the one of before. The archive
// gets it too; when it can not take it, with the next call.
func (a *auditor) keep(ctx context.Context) error {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	h, err := a.AuditHead(ctx)
	if err != nil {
		return err
	}
	if h.Position != a.last.Position {
		a.mu.Lock()
		err = appendHead(a.path, &h)
		a.mu.Unlock()
		if err != nil {
			return errors.Wrap(err, "signed heads")
		}
		a.last, a.archived = h, ""
		a.log.Info("head of the chain", "position", h.Position, "hash", h.Hash.String(), "at", h.At, "key", h.Key.String(),
			"signature", hex.EncodeToString(h.Signature[:]))
		if a.tell != nil {
			a.tell(h)
		}
	}
	if err := a.deposit(); err != nil {
		a.log.Error("head of the chain is not in the archive", "position", h.Position, "error", err)
	}
	return nil
}

// deposit writes the last head into the archive, unless it is there.
func (a *auditor) deposit() error {
	folder, err := a.elsewhere()
	if err != nil || folder == "" || folder == a.archived || a.last.Position == 0 {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if path := filepath.Join(folder, headsFile); path != a.path { // whoever archives into the data folder has it there
		err = appendHead(path, &a.last)
	}
	if err == nil {
		a.archived = folder
	}
	return err
}

// appendHead writes a head behind the last whole line of a file.
func appendHead(path string, h *events.Head) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.CombineErrors(appendLine(f, line), f.Close())
}

func appendLine(f *os.File, line []byte) error {
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	whole := int64(bytes.LastIndexByte(text, '\n') + 1)
	if _, err := f.WriteAt(append(line, '\n'), whole); err != nil {
		return err
	}
	return f.Sync()
}

// run keeps heads until the context ends, and once more then.
func (a *auditor) run(ctx context.Context) {
	tick := time.NewTicker(headEvery)
	defer tick.Stop()
	for {
		if err := a.keep(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("head of the chain was not kept", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
